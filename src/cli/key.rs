//! `toolgate key`: keys for clients.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use anyhow::{Context, anyhow};
use clap::Subcommand;

use super::report;
use crate::{
    budget::keys::{self, Digest},
    config::access_keys,
};

#[derive(Debug, Subcommand)]
pub(super) enum Key {
    /// Print a fresh key, and the table for the configuration by which toolgate knows it.
    New {
        /// What you call the key: letters, digits, `-`, `_` and `.`
        name: String,
    },
    /// Print the hash of a key, which is read from standard input.
    Hash,
}

/// Does `command`.
pub(super) fn run(command: Key) -> anyhow::Result<ExitCode> {
    match command {
        Key::New { name } => new(name),
        Key::Hash => hash(),
    }
}

fn new(name: String) -> anyhow::Result<ExitCode> {
    let name = access_keys::name(name).map_err(|fault| anyhow!("the name of a key {fault}"))?;
    let secret = keys::fresh().context("make a key")?;
    let hash = Digest::of(secret.expose());
    print(&format!("{}\n\n[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\n", secret.expose())).context("print the key")?;
    report(
        &mut io::stderr(),
        &["give the first line to whoever is to use the key, and put the table into the configuration; it is not shown again"],
    );
    Ok(ExitCode::SUCCESS)
}

fn hash() -> anyhow::Result<ExitCode> {
    let mut secret = String::new();
    io::stdin().read_to_string(&mut secret).context("read the key")?;
    let digest = access_keys::digest(&secret).map_err(|fault| anyhow!("a key {fault}"))?;
    print(&format!("{digest}\n")).context("print the hash")?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `text` in one piece. A reader that goes when it has what it wants, as `head -n 1` does, is no failure.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
