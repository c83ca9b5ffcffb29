//! The commands: `serve`, `check`, `health`, `budget …`, `key new`, `key hash`, `mcp accept`, `report cost`. Each group has a file of its own.

mod budget;
mod check;
mod cost;
mod key;
mod mcp;
mod running;
mod serve;

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use toml::Value;

use self::{budget::Budget, key::Key, mcp::Mcp};
use crate::{
    app,
    config::{self, Config, Problem, Typed, access_keys, env},
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
    /// See and change budgets: those of the toolgate that runs, or where none does, those in its ledger.
    Budget {
        #[command(subcommand)]
        command: Budget,
    },
    /// Make keys for clients.
    Key {
        #[command(subcommand)]
        command: Key,
    },
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
        Command::Serve(settings) => {
            let (config, problems) = load(settings);
            unless(&problems, || serve::run(config))
        }
        Command::Check(settings) => check::run(settings),
        Command::Health(settings) => with_config(settings, health),
        Command::Budget { command } => budget::run(command),
        Command::Key { command } => told(key::run(command)),
        Command::Report { command } => cost::run(command),
        Command::Mcp { command } => mcp::run(command),
    }
}

fn load(settings: Settings) -> (Config, Vec<Problem>) {
    let flags = [("listen", settings.listen), ("backend.url", settings.backend_url)];
    let flags: BTreeMap<_, _> = flags.into_iter().filter_map(|(path, value)| Some((path, Value::from(value?)))).collect();
    config::load(Typed { file: settings.config, flags }, &env::Process)
}

/// Does a command that does not listen.
fn with_config(settings: Settings, command: impl FnOnce(Config) -> anyhow::Result<ExitCode>) -> ExitCode {
    let (config, mut problems) = load(settings);
    problems.retain(|problem| !access_keys::is_of_open_listener(problem));
    unless(&problems, || command(config))
}

/// Does a command unless there are problems, which are told.
fn unless(problems: &[Problem], command: impl FnOnce() -> anyhow::Result<ExitCode>) -> ExitCode {
    if problems.is_empty() {
        return told(command());
    }
    report(&mut io::stderr(), problems);
    ExitCode::from(EXIT_CONFIGURATION)
}

/// Says what a command failed with, if it did.
fn told(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        report(&mut io::stderr(), &[format!("{error:#}")]);
        ExitCode::FAILURE
    })
}

fn health(config: Config) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(app::health(config))?;
    Ok(ExitCode::SUCCESS)
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
