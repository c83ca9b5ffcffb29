//! `toolgate check`: everything that is wrong, before anything is served.

use std::{io, process::ExitCode};

use super::{EXIT_CONFIGURATION, Settings, load, report, runtime};
use crate::{
    app,
    config::{self, Problem, mcp_servers},
};

/// Reports what is wrong with the configuration, the file of MCP servers or the backend.
pub(super) fn run(settings: Settings) -> ExitCode {
    let (config, problems) = load(settings);
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.extend(mcp_servers::without_program(&config.tools));
    // Asking a backend other than the one that was meant would tell nothing.
    let knows_backend = |problem: &Problem| {
        !problem.path.starts_with("backend") && !problem.path.starts_with("model") && problem.path != config::WHOLE_FILE
    };
    if problems.iter().all(knows_backend) {
        match runtime() {
            Ok(runtime) => lines.extend(runtime.block_on(app::check(config))),
            Err(error) => lines.push(format!("{error:#}")),
        }
    }
    if lines.is_empty() {
        report(&mut io::stdout(), &["configuration and backend are fine"]);
        return ExitCode::SUCCESS;
    }
    report(&mut io::stderr(), &lines);
    ExitCode::from(EXIT_CONFIGURATION)
}
