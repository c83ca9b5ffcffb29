//! `toolgate serve`, and the log that it writes.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use super::runtime;
use crate::{
    app,
    config::{Config, LogFormat},
};

/// Serves until it is told to stop.
pub(super) fn run(config: Config) -> anyhow::Result<ExitCode> {
    start_log(&config);
    log_servers(&config);
    let runtime = runtime()?;
    let code = runtime.block_on(app::serve(config));
    // Waits for nothing: a name look-up under way may take many seconds.
    runtime.shutdown_background();
    code
}

/// Says where the MCP servers are from: which file counts depends on where this was started.
fn log_servers(config: &Config) {
    if let Some(file) = &config.servers_file.path {
        let servers: Vec<&str> = config.tools.servers.iter().map(|server| server.id.as_str()).collect();
        tracing::info!(file = %file.display(), ?servers, "MCP servers");
    }
    for key in &config.servers_file.ignored {
        tracing::debug!(%key, "a key of the file of MCP servers is ignored");
    }
}

fn start_log(config: &Config) {
    // rmcp tells of each message at info, with all that it carries. What matters of it is told by `tools::mcp`; a filter may name rmcp.
    let filter = format!("rmcp=error,{}", config.log.level);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    match config.log.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
