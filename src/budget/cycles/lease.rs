//! What a call may use: a reservation that is kept alive until the call's cost is known.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Inner, Metrics,
    heartbeat::{Heartbeat, Pace},
    key,
    settle::{Mode, Pending},
    wire,
};
use crate::budget::{Amount, Subject, Unit, amount::AMOUNT_MAX, ledger::Caps};

/// One reservation of the server's. It is extended while it lives, and is to be settled: dropped without that, it is extended no more and
/// runs out, and if the call was made its cost is nowhere.
#[derive(Debug)]
pub struct Lease {
    /// Gone once it is settled.
    held: Option<Held>,
    caps: Option<Caps>,
    unit: Unit,
    _heart: DropGuard,
}

/// What is needed to settle it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) inner: Arc<Inner>,
    pub(super) reservation: String,
    /// What it was asked for under.
    pub(super) key: String,
    pub(super) subject: Subject,
    pub(super) action: wire::Action,
}

impl Lease {
    /// The lease of what is `held` until then at least, by an answer that took so long.
    pub(super) fn new(held: Held, caps: Option<Caps>, until: Instant, round_trip: Duration) -> Self {
        let pace = Pace { timeout: held.inner.peer.timeout, round_trip_max: round_trip };
        let heart = Heartbeat { reservation: held.reservation.clone(), key: held.key.clone(), pace, until };
        let (inner, stop) = (Arc::clone(&held.inner), CancellationToken::new());
        let stopped = stop.clone();
        held.inner.tasks.spawn_if_possible(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = heart.beat(&inner) => {}
            }
        });
        let unit = held.inner.unit;
        Self { held: Some(held), caps, unit, _heart: stop.drop_guard() }
    }

    /// What the server asks the call to keep to.
    pub fn caps(&self) -> Option<&Caps> {
        self.caps.as_ref()
    }

    /// What is counted.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The call was made, or perhaps made, and cost `actual`. Returns at once: the cost is written to the journal and then told to the server
    /// in the background until it is booked, at the latest by the next process.
    pub fn commit(mut self, actual: u64, metrics: Metrics) {
        let Some(Held { inner, reservation, key, subject, action }) = self.held.take() else { return };
        let pending = Pending {
            server: inner.peer.address.clone(),
            reservation,
            key: key::commit(&key),
            subject,
            action,
            actual: Amount::new(inner.unit, actual.min(AMOUNT_MAX)),
            overage: inner.overage,
            metrics: metrics.bounded(),
            mode: Mode::Commit,
            not_before_ms: 0,
        };
        inner.settle(pending);
    }

    /// The call was certainly not made: all of it is given back, in the background.
    pub fn release(mut self) {
        if let Some(Held { inner, reservation, key, .. }) = self.held.take() {
            inner.release(reservation, &key);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(Held { reservation, .. }) = &self.held {
            tracing::warn!(reservation, "a reservation was left unsettled; it runs out by itself");
        }
    }
}
