//! A Cycles server as the authority: it is asked before a call, by the protocol 0.1.25 over HTTP, and told afterwards what the call cost.
//!
//! ```text
//! Cycles::reserve ── asking: the same question until the answer is clear
//!   │ no answer: the call is not made, and undo finds out whether something was put aside, and gives it back
//!   ▼
//! Lease ── heartbeat extends it while the call runs
//!   │ Lease::release: the call was certainly not made ── release
//!   ▼
//! Lease::commit ── journal, then settle: the same key until the server says that it is booked, be it after a restart
//! ```
//!
//! - **A cost is on the disk before the server is told of it**, and stays there until the server has it or says in words that are understood
//!   that it will not take it.
//! - **What was perhaps done is never released**: only who knows that nothing was begun gives back.
//! - **An answer that is not understood is a no** before a call, and no answer after it.
//! - A cost that is not known yet when the process dies is not recovered: its reservation runs out.

mod asking;
mod heartbeat;
mod key;
mod lease;
mod peer;
mod release;
mod settle;
mod sweep;
mod undo;
mod wire;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    error, io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};

use hyper::Uri;

pub use self::{asking::Ask, lease::Lease, peer::BadKey, wire::Metrics};
use self::{
    peer::{Answer, Peer, Unheard},
    settle::Pending,
};
use super::{Unit, journal::Journal, ledger::Overage};
use crate::{resilience::tasks::Tasks, secret::Secret};

/// Where the server is and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Scheme, host, port and perhaps a path, with or without `/v1`.
    pub url: Uri,
    /// Says who asks. The server knows its tenant by it.
    pub api_key: Option<Secret>,
    /// How long one request may take. A reservation whose answer is lost is asked for again, and takes at most twice as long.
    pub timeout: Duration,
    /// How long a reservation stands unless it is extended: 1 s to 24 h.
    pub ttl: Duration,
    /// How long after that it may still be settled: at most a minute.
    pub grace: Duration,
    /// The folder in which costs are kept until the server has them.
    pub journal: PathBuf,
    /// What is counted.
    pub unit: Unit,
    /// What becomes of a cost that is higher than what was put aside.
    pub overage: Overage,
}

/// Why there is no client of the server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Costs could not be kept.
    #[error("the journal of the Cycles server cannot be made in {}", .folder.display())]
    Journal {
        /// Where it was to be.
        folder: PathBuf,
        /// Why it cannot.
        #[source]
        source: io::Error,
    },
    /// The key cannot be sent.
    #[error(transparent)]
    Key(#[from] BadKey),
}

/// The client of one server. Cloning it shares what is under way.
#[derive(Debug, Clone)]
pub struct Cycles {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    peer: Peer,
    tasks: Tasks,
    journal: Arc<Journal<Pending>>,
    unit: Unit,
    overage: Overage,
    ttl: Duration,
    grace: Duration,
    retries: Retries,
    /// The reservations whose cost a task is telling to the server now.
    settling: Mutex<BTreeSet<String>>,
    /// The questions that are taken back, by their key.
    undoing: Mutex<BTreeMap<String, undo::Stage>>,
    /// Whether there is a task that tries again what is left in the journal.
    is_sweeping: AtomicBool,
    /// How many records of another server were last seen in the journal.
    foreign: AtomicUsize,
}

/// When something that failed is tried again.
#[derive(Debug, Clone, Copy)]
struct Retries {
    /// The pause after the first try; each further one is twice as long.
    first: Duration,
    /// The longest of them.
    longest: Duration,
    /// How many tries are made at this pace.
    tries_max: u32,
    /// The pause between tries after those, until the end.
    slow: Duration,
}

/// As the makers of the protocol do it: five tries in some eight seconds outlast a restart of the server.
const RETRIES: Retries =
    Retries { first: Duration::from_millis(500), longest: Duration::from_secs(30), tries_max: 5, slow: Duration::from_secs(60) };
/// The limits of the protocol.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const GRACE_MAX: Duration = Duration::from_secs(60);

impl Cycles {
    /// A client that does in `tasks` what outlives who asked for it. Asks nothing yet. Fails when the folder of the journal cannot be made,
    /// or the key cannot be sent.
    pub fn new(config: Config, tasks: Tasks) -> Result<Self, Error> {
        Self::with_retries(config, tasks, RETRIES)
    }

    fn with_retries(config: Config, tasks: Tasks, retries: Retries) -> Result<Self, Error> {
        let Config { url, api_key, timeout, ttl, grace, journal: folder, unit, overage } = config;
        let peer = Peer::new(&url, api_key, timeout)?;
        let journal = Journal::open(folder.clone()).map_err(|source| Error::Journal { folder, source })?;
        let inner = Inner {
            peer,
            tasks,
            journal: Arc::new(journal),
            unit,
            overage,
            ttl: ttl.clamp(TTL_MIN, TTL_MAX),
            grace: grace.min(GRACE_MAX),
            retries,
            settling: Mutex::default(),
            undoing: Mutex::default(),
            is_sweeping: AtomicBool::new(false),
            foreign: AtomicUsize::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What is counted.
    pub fn unit(&self) -> Unit {
        self.inner.unit
    }

    /// Begins to tell the server the costs that a former process left in the journal, none before the server wants to be asked again. Goes on
    /// in the background until there are none, and beyond: what cannot be settled at once later on is tried again there. To be called once,
    /// at the start.
    pub async fn replay(&self) {
        self.inner.keep_sweeping(Duration::ZERO);
    }
}

impl Retries {
    /// How long to wait after so many tries, from 1.
    fn pause(&self, tries: u32) -> Duration {
        self.first.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(self.longest)
    }
}

impl Inner {
    /// Why there is no good answer, for the log.
    fn why(&self, answer: &Result<Answer, Unheard>) -> String {
        match answer {
            Ok(answer) => self.peer.said(answer),
            Err(unheard) => match error::Error::source(unheard) {
                Some(cause) => format!("{unheard}: {cause}"),
                None => unheard.to_string(),
            },
        }
    }

    /// Waits. Whether the process goes on.
    async fn rest(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.tasks.ending() => false,
        }
    }
}

/// In whole milliseconds.
fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
