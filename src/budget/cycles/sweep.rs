//! Tries again what is left in the journal: by a former process, or because the server did not take it in good time.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt;

use super::{
    Inner,
    settle::{Pending, Tried},
};
use crate::budget::store::now_ms;

/// The shortest pause between two passes over the journal.
const PAUSE_MIN: Duration = Duration::from_millis(20);

impl Inner {
    /// Sees to it that what is in the journal is tried again from then on, until the process ends.
    pub(super) fn keep_sweeping(self: &Arc<Self>, first: Duration) {
        if self.is_sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::clone(self);
        self.tasks.spawn_if_possible(async move {
            let mut pause = first;
            while inner.rest(pause).await {
                pause = inner.sweep().await;
            }
        });
    }

    /// Tries once what may be tried now. Returns when to look again.
    async fn sweep(self: &Arc<Self>) -> Duration {
        let slow = self.retries.slow;
        let records = match self.on_disk(|journal| journal.all()).await {
            Ok(records) => self.own(records),
            Err(error) => {
                tracing::error!(%error, "the journal of the Cycles server cannot be read");
                return slow;
            }
        };
        let mut pause = slow;
        for pending in records {
            let wait = Duration::from_millis(pending.not_before_ms.saturating_sub(now_ms()));
            if !wait.is_zero() {
                pause = pause.min(wait);
                continue;
            }
            if self.tasks.ending().now_or_never().is_some() {
                break;
            }
            let Some(mut settlement) = self.resume(pending) else { continue };
            match settlement.attempt().await {
                Tried::Done | Tried::Later => {}
                Tried::Again(wait) if wait.is_zero() => {}
                Tried::Again(wait) => pause = pause.min(wait),
                // The others would wait for the same silence.
                Tried::Unheard => break,
            }
        }
        pause.max(PAUSE_MIN)
    }

    /// Those for this server. Others stay until there is a configuration with theirs.
    fn own(&self, mut records: Vec<Pending>) -> Vec<Pending> {
        let all = records.len();
        records.retain(|pending| pending.server == self.peer.address);
        let foreign = all - records.len();
        if foreign != self.foreign.swap(foreign, Ordering::Relaxed) && foreign > 0 {
            tracing::warn!(foreign, "costs for another Cycles server are in the journal, and stay there");
        }
        records
    }
}
