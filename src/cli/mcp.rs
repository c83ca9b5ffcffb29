//! `toolgate mcp`: the tools of MCP servers.

use std::{io, process::ExitCode};

use clap::Subcommand;

use super::{Settings, report, with_config};
use crate::{app, config::Config};

#[derive(Debug, Subcommand)]
pub(super) enum Mcp {
    /// Accept tools whose definition is not what it was when it was first seen; exits 1 if there is none.
    Accept {
        /// The tool, where `*` stands for any characters: `filesystem.*`
        #[arg(value_name = "SERVER.TOOL")]
        tool: String,
        #[command(flatten)]
        settings: Settings,
    },
}

/// Does `command`.
pub(super) fn run(command: Mcp) -> ExitCode {
    match command {
        Mcp::Accept { tool, settings } => with_config(settings, |config| accept(&config, &tool)),
    }
}

fn accept(config: &Config, pattern: &str) -> anyhow::Result<ExitCode> {
    let accepted = app::accept(config, pattern)?;
    if accepted.is_empty() {
        report(&mut io::stderr(), &[format!("no tool {pattern} has changed")]);
        return Ok(ExitCode::FAILURE);
    }
    let lines: Vec<String> = accepted.iter().map(|tool| format!("{tool} is accepted")).collect();
    report(&mut io::stdout(), &lines);
    Ok(ExitCode::SUCCESS)
}
