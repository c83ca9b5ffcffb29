//! A ledger in one file, for one process.
//!
//! ```text
//! File::with ── Ledger over Changes: own writes → dirty → frozen → the database
//!    │ Journal::append, one write of the changed rows; then they are dirty
//!    │ Sync::Always: Synced::wait
//!    ▼
//! answered
//!
//! thread, every interval in which something was changed: Shared::checkpoint
//!    freeze: dirty becomes frozen, the journal turns to its other file
//!    Database::take_over: one durable transaction with all of frozen; old rows are removed on the way
//!    thaw: frozen is in the database, its journal is emptied
//! ```
//!
//! The database is written in the background alone, so that no operation waits for its disk; the journal has what it does not.

mod book;
mod checkpoint;
mod database;
mod journal;
mod reading;
mod rows;
mod sync;

#[cfg(test)]
mod tests;

use std::{
    fmt, fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

pub use self::{book::Changes, reading::Reading};
use self::{
    book::Layers,
    checkpoint::Shared,
    database::{Database, Sweep},
    journal::{Journal, Left},
    rows::Rows,
};
use crate::budget::{
    ledger::{Error, Ledger, StoreError},
    store::now_ms,
};

/// The ledger of one process, in a [redb] file and two files beside it, `<path>.journal-a` and `<path>.journal-b`.
///
/// **What was answered outlives the process**, however it ends: it was handed to the operating system before. **Loss of power** takes at
/// most what was answered within the last interval of [`Sync::Every`] and the time that the disk needed, and nothing with [`Sync::Always`].
/// The ledger is then as it was after some operation, all of it: never half of one, never damaged.
///
/// An operation that cannot be written, such as on a full disk, fails and changes nothing; operations work again once they can be written.
/// With [`Sync::Always`] one that was written and that the disk did not confirm fails too, although it may have been done: asked again
/// under the same key it gives the same answer.
///
/// Dropping it brings all of it into the database.
pub struct File {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

/// When what was answered is safe from a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// After so long.
    Every(Duration),
    /// Before it is answered. Operations of several threads wait for the disk together.
    Always,
}

impl Sync {
    /// How long the database waits for more to write at once.
    fn interval(self) -> Duration {
        match self {
            Self::Every(interval) => interval.max(Duration::from_millis(1)),
            Self::Always => Duration::from_millis(100),
        }
    }
}

impl File {
    /// Opens the ledger at `path`, with all that was answered, or makes one that nobody else may read, in a folder that is made where it is
    /// not there. Fails when another process has it open, or it cannot be read or written.
    pub fn open(path: impl Into<PathBuf>, sync: Sync) -> Result<Self, StoreError> {
        let path = path.into();
        let mut journal = open_journal(&path)?;
        let database = Database::open(&path)?;
        recover(&path, &mut journal, &database)?;
        let shared = Arc::new(Shared::new(path, sync, journal, database)?);
        let run = {
            let shared = shared.clone();
            move || shared.run()
        };
        let writer = std::thread::Builder::new().name("ledger".to_owned()).spawn(run);
        let writer = writer.map_err(|error| StoreError(format!("no thread for it: {error}")))?;
        Ok(Self { shared, writer: Some(writer) })
    }

    /// Does one operation at `now_ms`. An operation that fails leaves no trace.
    pub fn with<T>(&self, now_ms: u64, operation: impl FnOnce(Ledger<'_, Changes<'_>>) -> Result<T, Error>) -> Result<T, Error> {
        let mut state = self.shared.lock();
        let reader = state.reader()?;
        let below = Layers { reader: &reader, rows: [&state.dirty, &state.frozen] };
        let mut changes = Changes { below, written: Rows::new(), now_ms };
        let outcome = operation(Ledger { book: &mut changes, now_ms })?;
        let written = changes.written;
        if !written.is_empty() {
            self.shared.keep(&mut state, written)?;
        }
        // An answer that is given again may not be on the disk yet either.
        let operations = state.operations;
        drop(state);
        self.shared.settle(operations)?;
        Ok(outcome)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(path = %self.shared.path.display(), "the ledger's writer failed; its journal has what the database does not");
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("File").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

/// Opens the journal beside `path`, before the database: whoever has it has both.
fn open_journal(path: &Path) -> Result<Journal, StoreError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| StoreError(format!("the folder {} cannot be made: {error}", folder.display())))?;
    }
    Journal::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StoreError(format!("{} is in use by another process", path.display())),
        _ => StoreError(format!("the journal of {} cannot be opened: {error}", path.display())),
    })
}

/// Brings what the journal has into the database, and empties it.
fn recover(path: &Path, journal: &mut Journal, database: &Database) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError(format!("the journal of {} cannot be read or written: {error}", path.display()));
    let Left { rows, records, generation, newest, is_torn, is_damaged } = journal.left(database.taken_over()?).map_err(failed)?;
    if is_damaged {
        let aside = journal.set_aside(&format!("damaged-{generation}")).map_err(failed)?;
        tracing::error!(path = %path.display(), operations = records, ?aside, "the ledger's journal is damaged: what comes after the damage is left out");
    } else if records > 0 {
        tracing::info!(path = %path.display(), operations = records, is_torn, "the ledger was not closed: its journal was read");
    }
    // The next generation is one that neither file has had.
    let generation = newest + 1;
    database.take_over(&rows, generation, Sweep { now_ms: now_ms(), rows_max: SWEPT_MIN })?;
    journal.begin(generation).map_err(failed)?;
    // The files themselves, not only what is in them, are there after a loss of power.
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .map_or_else(|| fs::File::open("."), fs::File::open)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

/// At least so many old rows are removed at once, where there are so many.
const SWEPT_MIN: usize = 1000;
