//! `[mcp]`: the MCP servers, their tools and the limits of a run.

use std::time::Duration;

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
        pins: None,
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
        let names = keys.take(&path, Vec::new(), backends::texts);
        if names.len() < 2 {
            keys.fault(path, "must list two tools at least, such as [\"filesystem.read_file\", \"github.get_file_contents\"]");
            continue;
        }
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
        let patterns =
            keys.take(&path, Vec::new(), |value| value.as_str().map_or_else(|| backends::texts(value), |one| Ok(vec![one.to_owned()])));
        if patterns.is_empty() {
            keys.fault(&path, "is missing: it says which tools are meant, such as \"filesystem.write_*\"");
        }
        // A rule that matches nothing protects nothing.
        for pattern in patterns.iter().filter(|pattern| !file.may_match(pattern)) {
            keys.fault(
                &path,
                format!("`{pattern}` matches no tool: it must be the id of a server, a dot and a tool, with * for any characters"),
            );
        }
        match keys.take(&format!("{table}.policy"), None, |value| units::word(value, &policies).map(Some)) {
            Some(policy) => approvals.extend(patterns.into_iter().map(|pattern| Approval { pattern, policy })),
            None => keys.fault(format!("{table}.policy"), "is missing: it is \"allow\", \"ask\" or \"deny\""),
        }
    }
    approvals
}

/// `[mcp.embedder]`: how near a description is to what the user says.
fn embedder(keys: &mut Keys<'_>) -> embed::Config {
    // It needs nobody, and the same words give the same answer everywhere.
    let is_remote = keys.take("mcp.embedder.kind", false, |value| units::word(value, &[("hashing", false), ("openai", true)]));
    let model = keys.take("mcp.embedder.model", String::new(), units::text);
    let url = keys.take("mcp.embedder.url", None, |value| backends::url(value).map(Some));
    let api_key = backends::api_key(keys, "mcp.embedder.api_key");
    // An answer waits for it, and there is another way to choose.
    let timeout = keys.take("mcp.embedder.timeout", 2 * SECOND, units::duration);
    if !is_remote {
        return embed::Config::Hashing;
    }
    if model.is_empty() {
        keys.fault("mcp.embedder.model", "is missing: it is the model that makes the embeddings");
    }
    match url {
        Some(url) => embed::Config::Remote { url, model, api_key, timeout },
        None => {
            keys.fault("mcp.embedder.url", "is missing: it says where the embeddings are made");
            embed::Config::Hashing
        }
    }
}
