//! `[mcp]`: the MCP servers, their tools and the limits of a run.

use std::{path::PathBuf, time::Duration};

use toml::Value;

use super::{backends, keys::Keys, mcp_servers, units};
use crate::{
    agent,
    resilience::breaker,
    tools::{
        self,
        config::{Approval, Changed, Images, Named, Policy},
        selector::embed,
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// The servers of `file` and their tools.
pub(super) fn tools(keys: &mut Keys<'_>, file: &mcp_servers::File) -> tools::Config {
    tools::Config {
        servers: file.servers.clone(),
        // Whoever configures servers wants their tools used.
        attach: keys.take("mcp.attach", true, units::flag),
        overlaps: overlaps(keys, file),
        approvals: approvals(keys, file),
        embedder: embedder(keys),
        // Long enough not to be noticed, short enough that a new tool is there soon.
        list_ttl: keys.take("mcp.list_ttl", 300 * SECOND, units::duration),
        // A day: what nobody could confirm since then may be gone.
        stale_after: keys.take("mcp.stale_after", 24 * 3600 * SECOND, units::duration),
        // What starting a server with npx takes.
        start_timeout: keys.take("mcp.start_timeout", 10 * SECOND, units::duration),
        changed: keys.take("mcp.changed_tools", Changed::Withhold, |value| {
            units::word(value, &[("report", Changed::Report), ("withhold", Changed::Withhold)])
        }),
        // Nowhere: where a service may write is the operator's to say.
        pins: keys.take("mcp.pins", None, |value| units::text(value).map(|path| Some(PathBuf::from(path)))),
        // Four times what a model could read.
        message_bytes_max: keys.take("mcp.max_message", 4 << 20, units::bytes),
        // Some 8,000 tokens: more fills the context of a small model.
        result_bytes_max: keys.take("mcp.max_result", 32 << 10, units::bytes),
        images: keys.take("mcp.images", Images::Note, |value| units::word(value, &[("note", Images::Note), ("content", Images::Content)])),
        breaker: breaker::Config {
            // Tools fail for reasons of their own more often than model servers do; only faults of the transport count.
            failures_max: keys.take("mcp.breaker_failures", 3, |value| units::count(value, 0, 1 << 20)),
            // As long as a server takes that is started anew and reads its data.
            open_for: keys.take("mcp.breaker_open", 60 * SECOND, units::duration),
        },
        variables: keys.variables(),
    }
}

/// The limits of a run.
pub(super) fn agent(keys: &mut Keys<'_>) -> agent::Config {
    let count = |value: &Value| units::count(value, 1, 1 << 20).and_then(|count| usize::try_from(count).map_err(|error| error.to_string()));
    agent::Config {
        // More is a model that goes round in circles.
        turns_max: keys.take("mcp.max_turns", 10, count),
        calls_max: keys.take("mcp.max_calls", 50, count),
        // What one reply may hold of calls that wait for the network.
        parallel_max: keys.take("mcp.max_parallel", 8, count),
        // As long as a person waits for an answer that has tools in it.
        wall_clock: keys.take("mcp.max_time", 300 * SECOND, units::duration),
        // Ten turns at the end of a context of 100,000 tokens.
        tokens_max: keys.take("mcp.max_tokens", 1_000_000, |value| units::count(value, 0, u32::MAX).map(u64::from)),
        // A working day's pause and then some.
        session_ttl: keys.take("mcp.session_ttl", 24 * 3600 * SECOND, units::duration),
    }
}

/// `[[overlap]]`: tools that do the same.
fn overlaps(keys: &mut Keys<'_>, file: &mcp_servers::File) -> Vec<Vec<Named>> {
    let mut overlaps = Vec::new();
    for table in keys.tables("overlap") {
        let path = format!("{table}.tools");
        let missing = "it lists tools such as [\"filesystem.read_file\", \"github.get_file_contents\"]";
        let Some(names) = keys.require(&path, missing, several) else { continue };
        let mut group = Vec::new();
        for name in &names {
            match file.split(name) {
                Some((server, tool)) => group.push(Named { server: server.to_owned(), tool: tool.to_owned() }),
                None => keys.fault(&path, format!("`{name}` is not the id of a server, a dot and a tool")),
            }
        }
        overlaps.push(group);
    }
    overlaps
}

/// `[[approval]]`: who decides about which tools.
fn approvals(keys: &mut Keys<'_>, file: &mcp_servers::File) -> Vec<Approval> {
    let policies = [("allow", Policy::Allow), ("ask", Policy::Ask), ("deny", Policy::Deny)];
    let mut approvals = Vec::new();
    for table in keys.tables("approval") {
        let path = format!("{table}.tools");
        let missing = "it says which tools are meant, such as \"filesystem.write_*\"";
        let patterns = keys.require(&path, missing, one_or_more).unwrap_or_default();
        // A rule that matches nothing protects nothing.
        for pattern in patterns.iter().filter(|pattern| !file.may_match(pattern)) {
            let expected = "it must be the id of a server, a dot and a tool, with * for any characters";
            keys.fault(&path, format!("`{pattern}` matches no tool: {expected}"));
        }
        let policy = |value: &Value| units::word(value, &policies);
        if let Some(policy) = keys.require(&format!("{table}.policy"), "it is \"allow\", \"ask\" or \"deny\"", policy) {
            approvals.extend(patterns.into_iter().map(|pattern| Approval { pattern, policy }));
        }
    }
    approvals
}

/// A tool alone is no alternative.
fn several(value: &Value) -> Result<Vec<String>, String> {
    units::texts(value).and_then(|names| if names.len() > 1 { Ok(names) } else { Err("must list two tools at least".to_owned()) })
}

fn one_or_more(value: &Value) -> Result<Vec<String>, String> {
    let patterns = value.as_str().map_or_else(|| units::texts(value), |one| Ok(vec![one.to_owned()]));
    patterns.ok().filter(|patterns| !patterns.is_empty()).ok_or_else(|| "must be a string or a list of strings".to_owned())
}

/// `[mcp.embedder]`: how near a description is to what the user says.
fn embedder(keys: &mut Keys<'_>) -> embed::Config {
    // It needs nobody, and the same words give the same answer everywhere.
    let kinds = [("hashing", None), ("openai", Some(embed::Kind::OpenAi)), ("voyage", Some(embed::Kind::Voyage))];
    let kind = keys.take("mcp.embedder.kind", None, |value| units::word(value, &kinds));
    let model = keys.take("mcp.embedder.model", String::new(), units::text);
    let url = keys.take("mcp.embedder.url", None, |value| backends::url(value).map(Some));
    let api_key = backends::api_key(keys, "mcp.embedder.api_key");
    // An answer waits for it, and there is another way to choose.
    let timeout = keys.take("mcp.embedder.timeout", 2 * SECOND, units::duration);
    let Some(kind) = kind else { return embed::Config::Hashing };
    if model.is_empty() {
        keys.fault("mcp.embedder.model", "is missing: it is the model that makes the embeddings");
    }
    match url {
        Some(url) => embed::Config::Remote { kind, url, model, api_key, timeout },
        None => {
            keys.fault("mcp.embedder.url", "is missing: it says where the embeddings are made");
            embed::Config::Hashing
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::from_text;

    /// What `text` sets, beside the servers `fs` and `com.example.hub`.
    fn resolved(text: &str) -> Result<tools::Config, Vec<String>> {
        let name = format!("toolgate-mcp-{}-{:?}.json", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, r#"{"mcpServers": {"fs": {"command": "x"}, "com.example.hub": {"url": "http://h/"}}}"#).unwrap();
        let env = HashMap::from([("TOOLGATE_MCP_SERVERS".to_owned(), path.display().to_string()), ("KEY".to_owned(), "k".to_owned())]);
        let (config, problems) = from_text(text, &env);
        std::fs::remove_file(&path).unwrap();
        if problems.is_empty() { Ok(config.tools) } else { Err(problems.iter().map(ToString::to_string).collect()) }
    }

    #[test]
    fn overlaps_and_approvals_name_tools_by_their_server() {
        let text = r#"
            [[overlap]]
            tools = ["fs.read_file", "com.example.hub.get.contents"]
            [[approval]]
            tools = "fs.read_*"
            policy = "allow"
            [[approval]]
            tools = ["fs.*", "com.example.hub.drop"]
            policy = "deny"
        "#;
        let config = resolved(text).unwrap();
        let named = |server: &str, tool: &str| Named { server: server.to_owned(), tool: tool.to_owned() };
        assert_eq!(config.overlaps, [[named("fs", "read_file"), named("com.example.hub", "get.contents")]]);
        let approvals: Vec<_> = config.approvals.iter().map(|approval| (approval.pattern.as_str(), approval.policy)).collect();
        assert_eq!(approvals, [("fs.read_*", Policy::Allow), ("fs.*", Policy::Deny), ("com.example.hub.drop", Policy::Deny)]);
        let ids: Vec<_> = config.servers.iter().map(|server| server.id.as_str()).collect();
        assert_eq!(ids, ["fs", "com.example.hub"]);
    }

    #[test]
    fn what_names_nothing_is_a_mistake() {
        let check = |text: &str, expected: &str| {
            let problems = resolved(text).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with(expected), "{text}: {problems:?}");
        };
        check("[[overlap]]\ntools = [\"fs.a\", \"web.b\"]", "overlap.tools: `web.b` is not the id of a server");
        check("[[overlap]]\ntools = [\"fs.a\"]", "overlap.tools: must list two tools");
        check("[[overlap]]\ntools = [\"fs.a\", \"fs\"]", "overlap.tools: `fs` is not");
        check("[[overlap]]\ntools = 1", "overlap.tools: must be a list");
        check("[[approval]]\ntools = \"web.*\"\npolicy = \"deny\"", "approval.tools: `web.*` matches no tool");
        check("[[approval]]\ntools = \"fs\"\npolicy = \"deny\"", "approval.tools: `fs` matches no tool");
        check("[[approval]]\ntools = \"fs.*\"\npolicy = \"never\"", "approval.policy: must be");
        check("[[approval]]\ntools = \"fs.*\"", "approval.policy: is missing");
        check("[[approval]]\npolicy = \"ask\"", "approval.tools: is missing");
        check("[[approval]]\ntool = \"fs.*\"\ntools = \"fs.*\"\npolicy = \"ask\"", "approval.tool: is not a setting");
    }

    #[test]
    fn embeddings_may_come_from_elsewhere() {
        assert_eq!(resolved("").unwrap().embedder, embed::Config::Hashing);
        let text = "[mcp.embedder]\nkind = \"openai\"\nurl = \"http://h:1/v1\"\nmodel = \"m\"\napi_key = \"${KEY}\"\ntimeout = \"1s\"";
        let embed::Config::Remote { kind, url, model, api_key, timeout } = resolved(text).unwrap().embedder else { panic!("hashing") };
        assert_eq!((kind, url.to_string().as_str(), model.as_str(), timeout), (embed::Kind::OpenAi, "http://h:1/", "m", SECOND));
        assert_eq!(api_key.unwrap().bare(), "k");
        let voyage = resolved(&text.replace("openai", "voyage")).unwrap().embedder;
        assert!(matches!(voyage, embed::Config::Remote { kind: embed::Kind::Voyage, .. }), "{voyage:?}");
        let problems = resolved("[mcp.embedder]\nkind = \"openai\"").unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
