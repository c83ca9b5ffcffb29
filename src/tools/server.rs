//! One MCP server: what is known of it, and who may call it now.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::Notify;

use super::{config, definition::Definition, mcp};
use crate::resilience::{
    breaker::{self, Breaker, Phase},
    bulkhead::{self, Bulkhead, Full, Place},
};

/// A server and its connection.
#[derive(Debug)]
pub struct Server {
    /// Its settings.
    pub config: config::Server,
    view: ArcSwap<View>,
    breaker: Mutex<Breaker>,
    bulkhead: Bulkhead,
    /// Told when somebody wants to know more of it than is known.
    wanted: Notify,
}

/// What is known of a server at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// How it is.
    pub state: State,
    /// Why it is not better.
    pub reason: Option<String>,
    /// Its tools, as last listed.
    pub tools: Arc<[Definition]>,
    /// When they were listed.
    pub listed: Option<Instant>,
    /// The connection, where there is one.
    pub connection: Option<mcp::Connection>,
}

/// How a server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was not reached yet.
    #[default]
    Starting,
    /// It is connected and its tools are known.
    Ready,
    /// It is connected and has no tools.
    Empty,
    /// Its tools are known, but only from long ago, or from a connection that is gone.
    Stale,
    /// It wants a credential that it did not get.
    AuthNeeded,
    /// It cannot be reached, or does not speak as it should.
    Broken,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Starting, Self::Ready, Self::Empty, Self::Stale, Self::AuthNeeded, Self::Broken];

    /// The word in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Empty => "empty",
            Self::Stale => "stale",
            Self::AuthNeeded => "auth_needed",
            Self::Broken => "broken",
        }
    }
}

/// How many calls may wait for a place at one server: several turns of a busy hour.
const WAITING_MAX: usize = 1024;

impl Server {
    /// A server that is not connected yet.
    pub fn new(config: config::Server, breaker: breaker::Config) -> Self {
        let places = bulkhead::Config { inside_max: config.concurrent_max, waiting_max: WAITING_MAX, wait_max: config.timeout };
        let view = ArcSwap::from_pointee(View::default());
        Self { config, view, breaker: Mutex::new(Breaker::new(breaker)), bulkhead: Bulkhead::new(places), wanted: Notify::new() }
    }

    /// What is known of it now.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Makes `view` what is known.
    pub(super) fn publish(&self, view: View) {
        self.view.store(Arc::new(view));
    }

    /// Asks for it to be looked at: connected where it is not, its tools listed where it is. However often it is asked for, it is done once.
    pub fn refresh(&self) {
        self.wanted.notify_one();
    }

    /// Ready once it is to be looked at.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Whether it can be expected to answer: connected, and not left alone by its breaker.
    pub fn is_up(&self) -> bool {
        self.view.load().connection.is_some() && self.phase() != Phase::Open
    }

    /// The phase of its breaker.
    pub fn phase(&self) -> Phase {
        self.breaker().phase(Instant::now())
    }

    /// A call that its breaker lets through now, if it does; the first after an open time is the trial.
    pub(super) fn enter(&self) -> Option<Passage<'_>> {
        let now = Instant::now();
        let mut breaker = self.breaker();
        let is_trial = breaker.phase(now) != Phase::Closed;
        // Made only when it is let through: its end takes the lock.
        breaker.try_enter(now).then(|| Passage { server: self, is_trial, is_told: false })
    }

    /// A place among the calls that it serves at once.
    pub(super) async fn place(&self) -> Result<Place, Full> {
        self.bulkhead.enter().await
    }

    /// How long a call of it may take.
    pub(super) fn timeout(&self) -> Duration {
        self.config.timeout
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        // A breaker is whole after any panic: each change is one assignment.
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that the breaker let through. Dropped before the breaker was told how it went, it tells nothing.
#[derive(Debug)]
pub(super) struct Passage<'a> {
    server: &'a Server,
    is_trial: bool,
    is_told: bool,
}

impl Passage<'_> {
    /// Tells the breaker whether the server and the way to it `worked`.
    pub(super) fn tell(mut self, worked: bool) {
        self.is_told = true;
        if worked {
            self.server.breaker().succeeded();
        } else {
            self.server.breaker().failed(Instant::now());
            self.server.refresh();
        }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if self.is_trial && !self.is_told {
            self.server.breaker().trial_abandoned(Instant::now());
        }
    }
}
