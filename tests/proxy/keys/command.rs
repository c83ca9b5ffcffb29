//! `toolgate key`, and what `serve` and `check` say of a listener without keys.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use toolgate::{budget::keys::Digest, config};

fn toolgate(arguments: &[&str], variables: &[(&str, &str)], said: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(arguments)
        .env("TOOLGATE_MCP_SERVERS", "")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn who_is_reachable_from_the_network_does_not_start_without_a_key() {
    for arguments in [&["serve", "--listen", "0.0.0.0:0"][..], &["check", "--listen", "[::]:0"]] {
        let output = toolgate(arguments, &[], "");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("listen: ") && said.contains("toolgate key new NAME") && said.contains("TOOLGATE_API_KEY"), "{said}");
    }
    let output =
        toolgate(&["check"], &[("TOOLGATE_LISTEN", "0.0.0.0:1"), ("TOOLGATE_API_KEY", "s3cret"), ("TOOLGATE_BACKEND_URL", "x")], "");
    let said = text(&output.stderr);
    assert!(said.contains("backend.url: ") && !said.contains("listen: ") && !said.contains("s3cret"), "{said}");
}

#[test]
fn a_command_that_does_not_listen_needs_no_key_of_the_service() {
    // Nothing listens there, which is what they fail for.
    let reachable = [("TOOLGATE_LISTEN", "0.0.0.0:1")];
    for arguments in [&["budget", "show"][..], &["health"], &["mcp", "accept", "files.*"]] {
        let output = toolgate(arguments, &reachable, "");
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && !said.contains("nobody is asked for a key"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_its_line_may_go() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_toolgate")).args(["key", "new", "default"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_new_key_opens_what_its_table_says() {
    let output = toolgate(&["key", "new", "chat"], &[], "");
    assert_eq!(output.status.code(), Some(0));
    let (secret, table) = text(&output.stdout).split_once('\n').unwrap();
    assert!(secret.starts_with("tg_") && secret.len() == 46, "{secret}");
    let (read, problems) = config::from_text(table, &std::collections::HashMap::new());
    assert_eq!(problems, []);
    let account = read.keys.find(secret, std::time::SystemTime::now()).unwrap();
    assert_eq!((account.key.as_str(), account.subject.scopes()), ("chat", vec!["tenant:chat".to_owned()]));
    assert!(!text(&output.stderr).contains(secret));

    let wrong = toolgate(&["key", "new", "a b"], &[], "");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(wrong.stdout.is_empty() && text(&wrong.stderr).contains("the name of a key must be"), "{}", text(&wrong.stderr));
}

#[test]
fn a_key_that_is_there_is_hashed() {
    let output = toolgate(&["key", "hash"], &[], "my-own-key\n");
    assert_eq!(text(&output.stdout).trim_end(), Digest::of("my-own-key").to_string());
    assert_eq!(toolgate(&["key", "hash"], &[], "\n").status.code(), Some(1));
}
