use std::{collections::BTreeMap, time::Duration};

use super::{read as read_file, *};
use crate::{secret::Template, tools::config::Transport};

/// What `text` has, with these variables set.
fn read_text(text: &str, env: &[(&str, &str)]) -> (File, Vec<String>) {
    let env: HashMap<String, String> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut keys = Keys::new(toml::Table::new(), &env, BTreeMap::new());
    let file = parsed(&mut keys, Path::new("f.json"), text);
    let problems = keys.finish().iter().map(ToString::to_string).collect();
    (file, problems)
}

/// The servers of `text`, which has nothing wrong.
fn servers(text: &str, env: &[(&str, &str)]) -> Vec<Server> {
    let (file, problems) = read_text(text, env);
    assert!(problems.is_empty(), "{text}: {problems:?}");
    file.servers
}

/// The one problem of `text`.
fn problem(text: &str) -> String {
    let (_, mut problems) = read_text(text, &[]);
    assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    problems.remove(0)
}

fn ids(servers: &[Server]) -> Vec<&str> {
    servers.iter().map(|server| server.id.as_str()).collect()
}

fn filled(template: &Template, env: &[(&str, &str)]) -> String {
    let variable = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    template.fill(&variable).unwrap().expose().to_owned()
}

#[test]
fn the_shape_of_claude_desktop_and_cursor() {
    let text = r#"{"theme": "dark", "mcpServers": {
        "zeta": {"command": "npx", "args": ["-y", "server", "/tmp"], "env": {"LEVEL": "1", "PORT": 80}, "cwd": "/srv"},
        "alpha": {"url": "https://example.com/mcp", "headers": {"X-Team": "blue"}}
    }}"#;
    let servers = servers(text, &[]);
    assert_eq!(ids(&servers), ["zeta", "alpha"]);
    let env = [("LEVEL", "1"), ("PORT", "80")].map(|(name, value)| (name.to_owned(), Template::new(value)));
    let stdio = Transport::Stdio {
        command: "npx".to_owned(),
        args: ["-y", "server", "/tmp"].map(Template::new).into(),
        env: env.into(),
        cwd: Some("/srv".into()),
    };
    assert_eq!(servers[0].transport, stdio);
    let headers = BTreeMap::from([("X-Team".to_owned(), Template::new("blue"))]);
    let http = Transport::Http { url: Template::new("https://example.com/mcp"), headers, allow_link_local: false };
    assert_eq!(servers[1].transport, http);
    assert_eq!((servers[0].concurrent_max, servers[0].timeout), (10, Duration::from_secs(30)));
}

#[test]
fn the_shape_of_vs_code() {
    let text = r#"{"inputs": [], "servers": {
        "play": {"type": "stdio", "command": "npx", "args": ["x"], "env": {"KEY": "${env:KEY}", "NONE": null}},
        "hub": {"type": "http", "url": "https://example.com/mcp"}
    }}"#;
    let servers = servers(text, &[("KEY", "k")]);
    assert_eq!(ids(&servers), ["play", "hub"]);
    let Transport::Stdio { env, .. } = &servers[0].transport else { panic!("{servers:?}") };
    assert_eq!(
        env.iter().map(|(name, value)| (name.as_str(), filled(value, &[("KEY", "k")]))).collect::<Vec<_>>(),
        [("KEY", "k".to_owned())]
    );
}

#[test]
fn the_shapes_with_a_list() {
    let of_ids = servers(r#"{"servers": [{"id": "b", "command": "x", "args": [], "env": {}}, {"id": "a", "command": "y"}]}"#, &[]);
    assert_eq!(ids(&of_ids), ["b", "a"]);
    let text = r#"{"version": "1.0", "servers": [
        {"name": "docs", "description": "d", "transport": "streamable-http", "url": "http://127.0.0.1:1/mcp", "tags": ["a", "b"],
         "headers": {}, "enabled": true, "max_concurrent": 3, "timeout_seconds": 2.5},
        {"name": "off-duty", "command": "${NOBODY}", "enabled": false}
    ]}"#;
    let (file, problems) = read_text(text, &[]);
    assert_eq!((ids(&file.servers), problems.len()), (vec!["docs"], 0));
    let docs = &file.servers[0];
    assert_eq!(
        (docs.tags.clone(), docs.concurrent_max, docs.timeout),
        (vec!["a".to_owned(), "b".to_owned()], 3, Duration::from_millis(2500))
    );
    assert_eq!(file.ids().collect::<Vec<_>>(), ["docs", "off-duty"]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let check = |text: &str, expected: &str| {
        let problem = problem(text);
        assert!(problem.starts_with(&format!("f.json: {expected}")), "{text}: {problem}");
    };
    check("", "is not a JSON object");
    check("[]", "is not a JSON object");
    check(r#"{"mcpServers": {}"#, "is not a JSON object: EOF");
    check("{}", "has neither `mcpServers` nor `servers`");
    check(r#"{"servers": [], "mcpServers": {}}"#, "has `servers` and `mcpServers`");
    check(r#"{"servers": 1}"#, "servers: must be an object or a list");
    check(r#"{"servers": [1]}"#, "servers[0]: must be an object");
    check(r#"{"servers": [{"command": "x"}]}"#, "servers[0]: has neither `id` nor `name`");
    check(r#"{"servers": [{"id": "", "command": "x"}]}"#, "servers[0]: its id must not be empty");
    check(r#"{"servers": [{"id": 1, "command": "x"}]}"#, "servers[0]: its id must be a string");
    check(r#"{"mcpServers": {"a,b": {"command": "x"}}}"#, "mcpServers.a,b: its id must not");
    check(r#"{"mcpServers": {"Off": {"command": "x"}}}"#, "mcpServers.Off: no server can be called `off`");
    check(r#"{"mcpServers": {"a": "npx"}}"#, "mcpServers.a: must be an object");
    check(r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#, "mcpServers.a: another server is called `a` too");
    check(r#"{"servers": [{"id": "a", "command": "x"}, {"id": "A", "command": "y"}]}"#, "servers[1]: another server is called `A` too");
}

#[test]
fn what_is_wrong_with_a_server_is_told_with_its_key() {
    let check = |fields: &str, expected: &str| {
        let problem = problem(&format!(r#"{{"servers": [{{"id": "a", {fields}}}]}}"#));
        assert!(problem.starts_with(&format!("f.json: servers[0]{expected}")), "{fields}: {problem}");
    };
    check(r#""args": []"#, ": has neither `command` nor `url`");
    check(r#""command": "x", "url": "http://h/""#, ": has both `command` and `url`");
    check(r#""type": "stdio", "url": "http://h/""#, ".url: is for a server over HTTP");
    check(r#""transport": "http", "command": "x""#, ".command: is for a server over stdio");
    check(r#""type": "sse", "url": "http://h/sse""#, ".type: is the old transport of server-sent events, which is not supported");
    check(r#""type": "ws", "url": "http://h/""#, r#".type: must be "stdio" or "http""#);
    check(r#""type": 1, "url": "http://h/""#, ".type: must be");
    check(r#""command": 1"#, ".command: must be a string");
    check(r#""command": " ""#, ".command: must not be empty");
    check(r#""command": "x", "args": "y""#, ".args: must be a list of strings");
    check(r#""command": "x", "args": ["y", 1]"#, ".args: must be a list of strings");
    check(r#""command": "x", "args": ["a\u0000b"]"#, ".args[0]: must not have NUL");
    check(r#""command": "x", "env": ["A=1"]"#, ".env: must be an object of strings");
    check(r#""command": "x", "env": {"A": true}"#, ".env: must be an object of strings");
    check(r#""command": "x", "env": {"A=B": "1"}"#, ".env.A=B: is no name of a variable");
    check(r#""command": "x", "cwd": 1"#, ".cwd: must be a string");
    check(r#""command": "x", "disabled": "no""#, ".disabled: must be true or false");
    check(r#""command": "x", "tags": "y""#, ".tags: must be a list of strings");
    check(r#""command": "x", "max_concurrent": 0"#, ".max_concurrent: must be a whole number");
    check(r#""command": "x", "timeout_seconds": 0"#, ".timeout_seconds: must be a number of seconds");
    check(r#""command": "x", "timeout_seconds": "30""#, ".timeout_seconds: must be a number of seconds");
    check(r#""url": 1"#, ".url: must be a string");
    check(r#""url": "example.com/mcp""#, ".url: must be a URL");
    check(r#""url": "file:///etc/passwd""#, ".url: must be a URL");
    check(r#""url": "http://u:p@h/""#, ".url: must not hold a password");
    check(r#""url": "http://h/", "headers": {"a b": "1"}"#, ".headers.a b: is no name of a header");
    check(r#""url": "http://h/", "headers": {"a": "1\n2"}"#, ".headers.a: holds characters");
    check(r#""url": "http://h/", "headers": {"A": "1", "a": "2"}"#, ".headers.a: is there twice");
    check(r#""url": "http://h/", "headers": {"Mcp-Session-Id": "1"}"#, ".headers.Mcp-Session-Id: is a header that toolgate sets");
}

#[test]
fn variables_are_looked_up_where_they_are_used() {
    let text = r#"{"mcpServers": {
        "s": {"command": "${BIN}/run", "args": ["--key=${KEY}", "${NONE:-d}"], "env": {"K": "${env:KEY}"}, "cwd": "${BIN}"},
        "h": {"url": "https://${HOST}/mcp", "headers": {"A": "Token ${KEY}", "B": "bearer mcp_server_api_key_hub"}}
    }}"#;
    let env = [("BIN", "/opt"), ("KEY", "sk-1"), ("HOST", "h"), ("MCP_SERVER_API_KEY_HUB", "sk-2")];
    let servers = servers(text, &env);
    let Transport::Stdio { command, args, env: own, cwd } = &servers[0].transport else { panic!("{servers:?}") };
    assert_eq!((command.as_str(), cwd.as_deref()), ("/opt/run", Some(Path::new("/opt"))));
    assert_eq!(args.iter().map(|text| filled(text, &env)).collect::<Vec<_>>(), ["--key=sk-1", "d"]);
    assert_eq!(filled(&own["K"], &env), "sk-1");
    let Transport::Http { url, headers, .. } = &servers[1].transport else { panic!("{servers:?}") };
    assert_eq!(filled(url, &env), "https://h/mcp");
    assert_eq!((filled(&headers["A"], &env), filled(&headers["B"], &env)), ("Token sk-1".to_owned(), "bearer sk-2".to_owned()));
    assert!(!format!("{servers:?}").contains("sk-"), "{servers:?}");
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_server() {
    let check = |fields: &str, expected: &str| {
        let problem = problem(&format!(r#"{{"servers": [{{"id": "hub", {fields}}}]}}"#));
        assert_eq!(problem, format!("f.json: servers[0].{expected}, and the server `hub` needs it"));
    };
    check(r#""command": "x", "args": ["a", "${KEY}"]"#, "args[1]: ${KEY} is not set");
    check(r#""command": "x", "env": {"K": "${env:KEY}"}"#, "env.K: ${KEY} is not set");
    check(r#""command": "${BIN}/x""#, "command: ${BIN} is not set");
    check(r#""url": "http://h/${KEY}""#, "url: ${KEY} is not set");
    check(
        r#""url": "http://h/", "headers": {"A": "Bearer MCP_SERVER_API_KEY_my_hub"}"#,
        "headers.A: ${MCP_SERVER_API_KEY_MY_HUB} is not set",
    );
    check(r#""url": "http://h/", "headers": {"A": "Bearer ${input:key}"}"#, "headers.A: ${input:key} is no variable of the environment");
}

#[test]
fn what_a_variable_holds_is_not_told() {
    let text = r#"{"servers": [{"id": "a", "url": "${URL}", "headers": {"A": "${KEY}", "B": "Bearer MCP_SERVER_API_KEY_A"}}]}"#;
    let env = [("URL", "sk-1 sk-1"), ("KEY", "sk-2\n"), ("MCP_SERVER_API_KEY_A", "Bearer sk-3")];
    let (_, problems) = read_text(text, &env);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(!problems.concat().contains("sk-"), "{problems:?}");
    assert!(problems[2].contains("begins with `Bearer` too"));
}

#[test]
fn keys_of_other_programs_are_ignored_and_named() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "autoApprove": [], "description": "d", "timeout": 60}}}"#;
    let (file, problems) = read_text(text, &[]);
    assert_eq!((file.ignored, problems), (vec!["mcpServers.a.autoApprove".to_owned(), "mcpServers.a.timeout".to_owned()], vec![]));
}

#[test]
fn a_tool_is_named_by_the_longest_id() {
    let text = r#"{"mcpServers": {"com": {"command": "x"}, "com.example": {"command": "x"}, "a b": {"command": "x", "disabled": true}}}"#;
    let (file, _) = read_text(text, &[]);
    let check = |name: &str, expected: Option<(&str, &str)>| assert_eq!(file.split(name), expected, "{name}");
    check("com.example.read", Some(("com.example", "read")));
    check("com.read.all", Some(("com", "read.all")));
    check("a b.read", Some(("a b", "read")));
    check("com.", None);
    check("com", None);
    check("comic.read", None);
    let check = |pattern: &str, expected: bool| assert_eq!(file.may_match(pattern), expected, "{pattern}");
    check("*", true);
    check("com.*", true);
    check("c*.read", true);
    check("com.example.read_*", true);
    check("*.read", true);
    check("com", false);
    check("comic.*", false);
    check("com_*", false);
}

#[test]
fn the_first_file_that_exists_counts() {
    let folder = env::temp_dir().join(format!("toolgate-servers-{}", std::process::id()));
    let (project, home) = (folder.join("project"), folder.join("home"));
    let own = home.join(".config/toolgate");
    for folder in [&project, &own] {
        fs::create_dir_all(folder).unwrap();
    }
    let env = |named: Option<&str>| {
        let named = named.map(|named| ("TOOLGATE_MCP_SERVERS".to_owned(), named.to_owned()));
        named.into_iter().chain([("HOME".to_owned(), home.display().to_string())]).collect::<HashMap<_, _>>()
    };
    let read = |named: Option<&str>| {
        let env = env(named);
        let mut keys = Keys::new(toml::Table::new(), &env, BTreeMap::new());
        let file = read_file(&mut keys, Search::Folder(&project));
        (file.servers.into_iter().map(|server| server.id).collect::<Vec<_>>(), keys.finish())
    };
    let text = |id: &str| format!(r#"{{"servers": [{{"id": "{id}", "command": "x"}}]}}"#);

    assert_eq!(read(None), (vec![], vec![]));
    fs::write(own.join(FILE), text("own")).unwrap();
    assert_eq!(read(None), (vec!["own".to_owned()], vec![]));
    fs::write(project.join(FILE), text("project")).unwrap();
    assert_eq!(read(None), (vec!["project".to_owned()], vec![]));
    let named = folder.join("named.json");
    fs::write(&named, text("named")).unwrap();
    assert_eq!(read(named.to_str()), (vec!["named".to_owned()], vec![]));
    assert_eq!(read(Some("")), (vec![], vec![]));

    fs::write(project.join(FILE), "{").unwrap();
    let (servers, problems) = read(None);
    assert!(servers.is_empty() && problems[0].message.contains("is not a JSON object"), "{problems:?}");
    let (servers, problems) = read(folder.join("missing.json").to_str());
    assert!(servers.is_empty() && problems[0].message.contains("cannot be read"), "{problems:?}");
    fs::remove_file(project.join(FILE)).unwrap();
    fs::create_dir(project.join(FILE)).unwrap();
    assert!(read(None).1[0].message.contains("cannot be read"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_shipped_file_starts_nothing() {
    let (file, problems) = read_text(include_str!("../../../config/mcp_servers.json"), &[]);
    assert_eq!((file.servers, problems, file.disabled.len()), (vec![], vec![], 3));
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let text = r#"{"mcpServers": {
        "a": {"command": "sh"}, "b": {"command": "/bin/sh"}, "c": {"command": "no-such-program"}, "d": {"command": "./no/such"},
        "e": {"command": "no-such-program", "disabled": true}, "f": {"url": "http://h/"}
    }}"#;
    let env = HashMap::from([("PATH".to_owned(), "/no/such/folder:/usr/bin:/bin".to_owned())]);
    let (mut config, _) = crate::config::from_text("", &env);
    config.tools.servers = servers(text, &[]);
    let missing = without_program(&config.tools);
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("the MCP server `c` ") && missing[1].ends_with("there is no program `./no/such`"), "{missing:?}");
}
