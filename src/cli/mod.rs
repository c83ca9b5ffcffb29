//! The commands: `serve`, `check`, `health`, `report cost`, `mcp accept`.

mod cost;

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use toml::Value;

use crate::{
    app,
    config::{self, Config, LogFormat, Problem, Typed, env, mcp_servers},
};

/// An OpenAI-compatible proxy that makes small local models call tools correctly.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients in front of a model server.
    Serve(Settings),
    /// Report everything that is wrong with the configuration, the file of MCP servers or the backend; exits 2 if anything is.
    Check(Settings),
    /// Ask the running toolgate whether it answers; exits 1 if not. For container health checks.
    Health(Settings),
    /// Report on what was done.
    Report {
        #[command(subcommand)]
        command: cost::Report,
    },
    /// Look after the tools of MCP servers.
    Mcp {
        #[command(subcommand)]
        command: Mcp,
    },
}

#[derive(Debug, Subcommand)]
enum Mcp {
    /// Accept tools whose definition is not what it was when it was first seen; exits 1 if there is none.
    Accept {
        /// The tool, where `*` stands for any characters: `filesystem.*`
        #[arg(value_name = "SERVER.TOOL")]
        tool: String,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Debug, Default, Args)]
struct Settings {
    /// The configuration file [env: TOOLGATE_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen [env: TOOLGATE_LISTEN] [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The model server [env: TOOLGATE_BACKEND_URL] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    backend_url: Option<String>,
}

/// A configuration that is wrong; distinct from a failure while running.
const EXIT_CONFIGURATION: u8 = 2;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(settings) => with_config(settings, serve),
        Command::Check(settings) => check(settings),
        Command::Health(settings) => with_config(settings, health),
        Command::Report { command } => cost::run(command),
        Command::Mcp { command: Mcp::Accept { tool, settings } } => with_config(settings, |config| accept(&config, &tool)),
    }
}

fn load(settings: Settings) -> (Config, Vec<Problem>) {
    let flags = [("listen", settings.listen), ("backend.url", settings.backend_url)];
    let flags: BTreeMap<_, _> = flags.into_iter().filter_map(|(path, value)| Some((path, Value::from(value?)))).collect();
    config::load(Typed { file: settings.config, flags }, &env::Process)
}

fn with_config(settings: Settings, command: impl FnOnce(Config) -> anyhow::Result<ExitCode>) -> ExitCode {
    let (config, problems) = load(settings);
    if !problems.is_empty() {
        report(&mut io::stderr(), &problems);
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    command(config).unwrap_or_else(|error| {
        report(&mut io::stderr(), &[format!("{error:#}")]);
        ExitCode::FAILURE
    })
}

fn serve(config: Config) -> anyhow::Result<ExitCode> {
    start_log(&config);
    log_servers(&config);
    let runtime = runtime()?;
    let code = runtime.block_on(app::serve(config));
    // Waits for nothing: a name look-up under way may take many seconds.
    runtime.shutdown_background();
    code
}

fn health(config: Config) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(app::health(config))?;
    Ok(ExitCode::SUCCESS)
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

fn check(settings: Settings) -> ExitCode {
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

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")
}

/// One line each. There is nobody to tell when the stream is closed.
fn report<T: Display>(to: &mut impl Write, lines: &[T]) {
    for line in lines {
        let _ = writeln!(to, "toolgate: {line}");
    }
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
