//! What a ledger in a Redis promises beyond what each does: exact numbers, several processes, outages and kills.

mod answers;
mod kept;
mod killed;
mod outage;
mod processes;
pub(super) mod server;

use std::process::Command;

/// This program with these variables, as a process that runs one test alone: `name`, which is ignored otherwise.
fn process(name: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", &format!("budget::store::tests::redis::{name}")]);
    command.envs(variables.iter().copied());
    command
}

/// A variable of a process that a test started.
fn variable(name: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "a test is no part of the program")]
    std::env::var(name).unwrap()
}
