//! `[mcp]`: the MCP servers, their tools and the limits of a run.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{keys::Keys, units};
use crate::{
    agent,
    resilience::breaker,
    tools::{
        self,
        config::{Changed, Images, Variables},
        selector::embed,
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// The servers and their tools.
pub(super) fn tools(keys: &mut Keys<'_>) -> tools::Config {
    tools::Config {
        servers: Vec::new(),
        // Whoever configures servers wants their tools used.
        attach: keys.take("mcp.attach", true, units::flag),
        overlaps: Vec::new(),
        approvals: Vec::new(),
        embedder: embed::Config::Hashing,
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
        breaker: breaker::Config { failures_max: 3, open_for: 60 * SECOND },
        variables: Variables(Arc::new(|_| None)),
    }
}

/// The limits of a run.
pub(super) fn agent(keys: &mut Keys<'_>) -> agent::Config {
    let count =
        |value: &toml::Value| units::count(value, 1, 1 << 20).and_then(|count| usize::try_from(count).map_err(|error| error.to_string()));
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
