//! Work that outlives who began it, and that the end of the process waits for.

use std::{future::Future, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Spawns tasks and knows which of them still run. Cloning it shares them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl Tasks {
    /// Runs `task` on its own. Dropping the handle leaves it running.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tracker.spawn(task)
    }

    /// Runs `task` on its own where there is a runtime to run it; where there is none any more, it is dropped. For use in `Drop`.
    pub fn spawn_if_possible(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tracker.spawn_on(task, &runtime);
        }
    }

    /// Ready once the process is about to end: what waits for ever ends with it.
    pub async fn ending(&self) {
        self.ending.cancelled().await;
    }

    /// Says that the end has come, and waits for the tasks. Returns how many still ran after `grace`.
    pub async fn end(&self, grace: Duration) -> usize {
        self.ending.cancel();
        self.tracker.close();
        // Past the grace the runtime cuts them.
        let _ = tokio::time::timeout(grace, self.tracker.wait()).await;
        self.tracker.len()
    }
}
