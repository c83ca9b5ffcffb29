//! What the operations and the thread that writes the database share.

use std::{
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{
    SWEPT_MIN, Sync,
    database::{Database, Reader, Sweep},
    journal::Journal,
    rows::Rows,
    sync::Synced,
};
use crate::budget::{ledger::StoreError, store::now_ms};

pub(super) struct Shared {
    pub(super) path: PathBuf,
    sync: Sync,
    state: Mutex<State>,
    /// Told when there is something to write, and when it ends.
    changed: Condvar,
    synced: Synced,
}

pub(super) struct State {
    journal: Journal,
    /// What was changed since the journal turned.
    pub(super) dirty: Rows,
    /// What was changed before, and may not be in the database yet.
    pub(super) frozen: Arc<Rows>,
    /// The generation of the journal, and how many operations there were, when it was frozen.
    frozen_at: Option<(u64, u64)>,
    opened: Result<Opened, StoreError>,
    /// How many operations were written.
    pub(super) operations: u64,
    is_ending: bool,
}

/// The database, and what is in it.
#[derive(Clone)]
struct Opened {
    database: Arc<Database>,
    reader: Arc<Reader>,
}

/// A journal that is longer is taken over before its time, so that little is kept in memory.
const JOURNAL_EARLY: u64 = 16 << 20;
/// Nothing is written to a journal that is longer: the database has not taken over anything for a while, and does not seem to.
const JOURNAL_MAX: u64 = 256 << 20;

impl Shared {
    pub(super) fn new(path: PathBuf, sync: Sync, journal: Journal, database: Database) -> Result<Self, StoreError> {
        let state = State {
            journal,
            dirty: Rows::new(),
            frozen: Arc::default(),
            frozen_at: None,
            opened: Opened::new(database),
            operations: 0,
            is_ending: false,
        };
        Ok(Self { path, sync, state: Mutex::new(state), changed: Condvar::new(), synced: Synced::default() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after any panic: rows are taken over in one step, after they were written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what an operation changed to the journal, and takes it over.
    pub(super) fn keep(&self, state: &mut State, written: Rows) -> Result<(), StoreError> {
        if let Some(failure) = self.synced.failure() {
            return Err(StoreError(format!("the disk did not confirm the journal: {failure}")));
        }
        if state.journal.bytes() > JOURNAL_MAX {
            return Err(StoreError("the database takes over nothing, and the journal is full".to_owned()));
        }
        state.journal.append(&written).map_err(|error| StoreError(format!("the journal cannot be written: {error}")))?;
        state.operations += 1;
        if state.dirty.is_empty() || state.journal.bytes() > JOURNAL_EARLY {
            self.changed.notify_all();
        }
        state.dirty.extend(written);
        Ok(())
    }

    /// Waits until so many operations are as safe as was asked for.
    pub(super) fn settle(&self, operations: u64) -> Result<(), StoreError> {
        match self.sync {
            Sync::Every(_) => Ok(()),
            Sync::Always => {
                let newest = || {
                    let state = self.lock();
                    (state.journal.file(), state.operations)
                };
                let unconfirmed = |failure| StoreError(format!("the disk did not confirm the journal: {failure}"));
                self.synced.wait(operations, newest).map_err(unconfirmed)
            }
        }
    }

    /// Writes the database whenever something was changed, until it ends.
    pub(super) fn run(&self) {
        let mut is_well = true;
        loop {
            let is_ending = self.rest();
            // The second time for what was changed since the first began, where that is what could not be written before.
            match self.checkpoint(now_ms()).and_then(|()| if is_ending { self.checkpoint(now_ms()) } else { Ok(()) }) {
                Ok(()) => is_well = true,
                Err(error) => {
                    // Once, not ten times a second.
                    if is_well || is_ending {
                        tracing::error!(path = %self.path.display(), %error, "the ledger's database cannot be written; its journal is kept");
                    }
                    is_well = false;
                }
            }
            if is_ending {
                return;
            }
        }
    }

    /// Waits for a change, and then for more of them. Returns whether this is the end.
    fn rest(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| !state.is_ending && !self.is_waiting(state));
        let is_early = |state: &mut State| state.is_ending || state.frozen_at.is_none() && state.journal.bytes() > JOURNAL_EARLY;
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, self.sync.interval(), |state| !is_early(state));
        waited.unwrap_or_else(PoisonError::into_inner).0.is_ending
    }

    fn is_waiting(&self, state: &State) -> bool {
        !state.dirty.is_empty() || state.frozen_at.is_some() || state.opened.is_err() || self.synced.failure().is_some()
    }

    /// Lets the thread write for the last time.
    pub(super) fn stop(&self) {
        self.lock().is_ending = true;
        self.changed.notify_all();
    }

    /// Brings all that was answered until now into the database. When it fails, the journal and the memory still have it.
    pub(super) fn checkpoint(&self, now_ms: u64) -> Result<(), StoreError> {
        let Some((database, rows, (generation, operations))) = self.freeze()? else { return Ok(()) };
        let sweep = Sweep { now_ms, rows_max: SWEPT_MIN.max(2 * rows.len()) };
        let written = database.take_over(&rows, generation, sweep).and_then(|()| database.reader());
        let mut state = self.lock();
        match written {
            Ok(reader) => {
                state.opened = Ok(Opened { database, reader: Arc::new(reader) });
                state.frozen = Arc::default();
                state.frozen_at = None;
                self.synced.mend(operations);
                // What stays in it is of an old generation.
                let _ = state.journal.empty_other();
                Ok(())
            }
            Err(error) => {
                // After a failure redb answers nothing until the file is opened anew.
                state.opened = Err(error.clone());
                Err(error)
            }
        }
    }

    /// What is to be written: what could not be before, or all that is dirty.
    #[expect(clippy::type_complexity, reason = "the parts of one step, told apart at once")]
    pub(super) fn freeze(&self) -> Result<Option<(Arc<Database>, Arc<Rows>, (u64, u64))>, StoreError> {
        let mut state = self.lock();
        if state.opened.is_err() {
            state.opened = Database::open(&self.path).and_then(Opened::new);
        }
        let database = state.opened.clone()?.database;
        if state.frozen_at.is_none() {
            if state.dirty.is_empty() && self.synced.failure().is_none() {
                return Ok(None);
            }
            if self.sync == Sync::Always {
                // Whoever waits for a record asks only for the file that is written.
                self.synced.all(&state.journal.file(), state.operations);
            }
            let generation = state.journal.generation();
            state.journal.turn().map_err(|error| StoreError(format!("the journal cannot be turned: {error}")))?;
            state.frozen_at = Some((generation, state.operations));
            state.frozen = Arc::new(std::mem::take(&mut state.dirty));
        }
        Ok(state.frozen_at.map(|at| (database, state.frozen.clone(), at)))
    }
}

impl State {
    /// What is in the database. Fails while it cannot be opened.
    pub(super) fn reader(&self) -> Result<Arc<Reader>, StoreError> {
        match &self.opened {
            Ok(opened) => Ok(opened.reader.clone()),
            Err(error) => Err(error.clone()),
        }
    }
}

impl Opened {
    fn new(database: Database) -> Result<Self, StoreError> {
        let reader = Arc::new(database.reader()?);
        Ok(Self { database: Arc::new(database), reader })
    }
}
