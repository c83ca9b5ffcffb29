//! What happened, one line of JSON each: every tool call and every attempt of a model.
//!
//! Everyone writes to it, nobody reads from it, and writing never waits: a record goes into a bounded queue, from which one thread takes it,
//! makes a line of it and appends that to the file. What there is no room for is dropped and counted.

pub mod config;
mod file;
mod line;
pub mod metrics;
mod turn;
mod writer;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, SyncSender},
    },
    time::Duration,
};

use serde_json::value::to_raw_value;
use tokio::sync::oneshot;

pub use self::config::{Config, Sink};
pub use self::turn::{Run, Turn};
use self::{line::Line, metrics::Metrics};
use crate::{chat::CallRecord, secret::Secret};

/// Takes records. Cloning it shares the file; without one it takes nothing.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    metrics: Arc<Metrics>,
    journal: Option<Arc<Journal>>,
}

/// A queue and the thread that empties it.
struct Journal {
    /// Gone once it is closed.
    queue: RwLock<Option<SyncSender<Line>>>,
    /// Ready when the thread has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
    dropped: Arc<AtomicU64>,
    is_verbose: bool,
}

/// How many records wait to be written: 200,000 a second over the time in which they gather, and some 3 MiB.
const WAITING_MAX: usize = 4096;

/// The credentials that must not get into a line. Asked for when a line is written that might hold one, since they may change.
pub type Credentials = dyn Fn() -> Vec<Secret> + Send + Sync;

impl Recorder {
    /// A recorder that writes as `config` says, with none of `credentials` in what it writes. Nothing is opened before there is something
    /// to write.
    pub fn new(config: Config, credentials: Box<Credentials>) -> Self {
        let (queue, items) = mpsc::sync_channel(WAITING_MAX);
        let (end, ended) = oneshot::channel();
        let dropped = Arc::new(AtomicU64::new(0));
        let is_verbose = config.is_verbose;
        let Some(writer) = writer::Writer::new(config, credentials, Arc::clone(&dropped)) else { return Self::default() };
        let thread = std::thread::Builder::new().name("trace".to_owned()).spawn(move || {
            writer.run(&items);
            drop(end);
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "nothing is traced: no thread for it");
            return Self::default();
        }
        let journal = Journal { queue: RwLock::new(Some(queue)), ended: Mutex::new(Some(ended)), dropped, is_verbose };
        Self { journal: Some(Arc::new(journal)), ..Self::default() }
    }

    /// How many records were not written: there was no room in the queue, or the file could not be written.
    pub fn dropped(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.dropped.load(Ordering::Relaxed))
    }

    /// Takes no more records and waits until those that wait are written, for `grace` at most. Returns whether they were.
    pub async fn close(&self, grace: Duration) -> bool {
        let Some(journal) = &self.journal else { return true };
        drop(journal.queue.write().unwrap_or_else(PoisonError::into_inner).take());
        let ended = journal.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(ended) = ended else { return true };
        // It never sends: its end is the news.
        tokio::time::timeout(grace, ended).await.is_ok()
    }

    /// Whether records are taken.
    pub fn is_on(&self) -> bool {
        self.journal.is_some()
    }

    /// Takes the record of a tool call that has ended, or that never began.
    pub fn call(&self, run: &Run, record: &CallRecord) {
        self.metrics.call(record);
        if !self.is_on() {
            return;
        }
        let arguments = record.arguments.as_ref().filter(|_| self.is_verbose()).and_then(|arguments| to_raw_value(arguments).ok());
        self.send(line::call(run, record, arguments.as_deref()));
    }

    /// The counts of what was recorded, and of more.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What takes the attempts at the turn of `run` that is number `number`, counted from 1.
    pub fn turn(&self, run: &Arc<Run>, number: usize) -> Turn {
        Turn::new(self, run, number)
    }

    fn is_verbose(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_verbose)
    }

    fn send(&self, item: Line) {
        let Some(journal) = &self.journal else { return };
        let queue = journal.queue.read().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.as_ref().is_some_and(|queue| queue.try_send(item).is_ok());
        if !taken {
            journal.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
