//! Gives back what was put aside for a call that was certainly not made. As good as can be: what is not given back runs out.

use std::{sync::Arc, time::Duration};

use super::{Inner, key, peer, wire::Release};

impl Inner {
    /// Gives the reservation back in the background. It was asked for under `key`.
    pub(super) fn release(self: &Arc<Self>, reservation: String, key: &str) {
        let (inner, key) = (Arc::clone(self), key.to_owned());
        self.tasks.spawn_if_possible(async move { inner.give_back(&reservation, &key).await });
    }

    /// Tries to give it back, under the same key each time.
    pub(super) async fn give_back(&self, reservation: &str, key: &str) {
        let path = peer::reservation_path(reservation, "release");
        let question = Release { idempotency_key: key::release(key), reason: "the call was not made" };
        for tries in 1..=self.retries.tries_max {
            let answer = self.peer.post(&path, &question).await;
            let (why, wait) = match &answer {
                Ok(answer) if answer.status == 200 => return,
                Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => {
                    let why = self.peer.said(answer);
                    return tracing::warn!(reservation, why, "a reservation is not given back; it runs out by itself");
                }
                Ok(busy) => (self.peer.said(busy), busy.retry_after.unwrap_or_default()),
                Err(_) => (self.why(&answer), Duration::ZERO),
            };
            tracing::debug!(reservation, why, tries, "giving a reservation back failed");
            let wait = wait.max(self.retries.pause(tries));
            if wait > self.retries.longest || !self.rest(wait).await {
                break;
            }
        }
        tracing::warn!(reservation, "a reservation is not given back; it runs out by itself");
    }
}
