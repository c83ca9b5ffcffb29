//! A child process with all that it started: its process group, which ends with it, and with us.

use std::{io, process::ExitStatus};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::process::{Child, Command};

/// A running child that leads a process group of its own. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    /// Its number, until the child is reaped: after that it may become another's.
    id: Option<Pid>,
}

impl Group {
    /// Starts `command` in a new process group: a signal from the terminal does not reach it.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Self { child, id })
    }

    /// The child itself, to take its pipes.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the end of the child and reaps it; what is left of its group is killed. Dropping the future changes nothing.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.kill();
        self.id = None;
        status
    }

    /// Asks the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Ends the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // It fails when there is nobody left.
            let _ = killpg(id, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
