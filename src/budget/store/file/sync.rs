//! Bringing the journal to the disk, once for all that wait for it.

use std::{
    fs, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// How far the journal is on the disk. One of those that wait asks the disk; the others take part in it.
#[derive(Debug, Default)]
pub(super) struct Synced {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// So many operations are on the disk.
    operations: u64,
    is_asking: bool,
    /// Why the disk may not have what it was given. It tells so once: asked again, it would say yes to what is lost.
    failure: Option<String>,
}

impl Synced {
    /// Waits until so many operations are on the disk. `newest` tells the file and how many there are by now.
    pub(super) fn wait(&self, operations: u64, newest: impl Fn() -> (Arc<fs::File>, u64)) -> Result<(), String> {
        let mut progress = self.lock();
        loop {
            if progress.operations >= operations {
                return Ok(());
            }
            if let Some(failure) = &progress.failure {
                return Err(failure.clone());
            }
            if progress.is_asking {
                progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            progress.is_asking = true;
            drop(progress);
            let (file, count) = newest();
            let outcome = file.sync_data();
            progress = self.lock();
            progress.is_asking = false;
            progress.note(outcome, count);
            self.changed.notify_all();
        }
    }

    /// Brings all of the file to the disk, in which the last of so many operations is.
    pub(super) fn all(&self, file: &fs::File, operations: u64) {
        let outcome = file.sync_data();
        self.lock().note(outcome, operations);
        self.changed.notify_all();
    }

    /// The database has so many operations. What the disk said of the journal does not matter any more.
    pub(super) fn mend(&self, operations: u64) {
        let mut progress = self.lock();
        progress.failure = None;
        progress.operations = progress.operations.max(operations);
        self.changed.notify_all();
    }

    /// Why the disk may not have what it was given.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn note(&mut self, outcome: io::Result<()>, operations: u64) {
        match outcome {
            Ok(()) if self.failure.is_none() => self.operations = self.operations.max(operations),
            Ok(()) => {}
            Err(error) => self.failure = Some(error.to_string()),
        }
    }
}
