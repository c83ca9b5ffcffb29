//! A child process with all that it started: its process group, which ends with it, and with us.

use std::{io, process::ExitStatus};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::process::{Child, Command};

use crate::resilience::tasks::Tasks;

/// A running child that leads a process group of its own. Dropping it kills the group, and leaves a task that waits for its end.
#[derive(Debug)]
pub(super) struct Group {
    /// Gone once it is dropped.
    child: Option<Child>,
    /// Its number, until the child is reaped: after that it may become another's.
    id: Option<Pid>,
    tasks: Tasks,
}

impl Group {
    /// Starts `command` in a new process group: a signal from the terminal does not reach it.
    pub(super) fn spawn(command: &mut Command, tasks: &Tasks) -> io::Result<Self> {
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Self { child: Some(child), id, tasks: tasks.clone() })
    }

    /// The child itself, to take its pipes.
    pub(super) fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Waits for the end of the child and reaps it; what is left of its group is killed. Dropping the future changes nothing.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = match &mut self.child {
            Some(child) => child.wait().await,
            None => Ok(ExitStatus::default()),
        };
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
        // A process that was killed is still there for a moment, and the end of ours waits for it.
        if let (Some(mut child), Some(_)) = (self.child.take(), self.id) {
            self.tasks.spawn_if_possible(async move { drop(child.wait().await) });
        }
    }
}
