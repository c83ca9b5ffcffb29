//! Takes back a question that was perhaps acted upon, when the call that it was about is not made.
//!
//! The same question is asked under the same key until it is known which reservation it made, and that is released. Here alone something is
//! released whose fate was unclear: the call was certainly not begun.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError},
};

use bytes::Bytes;

use super::{
    Inner,
    asking::{self, Meaning},
};
use crate::budget::ledger::StoreError;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being found out what there is to release. Who asks for the same may have it.
    Asking,
    /// It is being released. It is too late to have it.
    Releasing,
}

impl Inner {
    /// Finds out what came of the `question` under `key`, and gives it back.
    pub(super) fn undo(self: &Arc<Self>, key: String, question: Bytes) {
        self.undoing().insert(key.clone(), Stage::Asking);
        let inner = Arc::clone(self);
        self.tasks.spawn_if_possible(async move {
            if let Some(reservation) = inner.find(&key, question).await {
                inner.give_back(&reservation, &key).await;
            }
            inner.undoing().remove(&key);
        });
    }

    /// Ends an undoing of what was asked under `key`, since it is asked for again. Fails when that comes too late.
    pub(super) fn take_over(&self, key: &str) -> Result<(), StoreError> {
        let mut undoing = self.undoing();
        match undoing.get(key) {
            Some(Stage::Releasing) => Err(asking::unusable("what was put aside for this call is being given back")),
            Some(Stage::Asking) => {
                undoing.remove(key);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The reservation that `question` made, which nobody else can have from now on. `None` when there is none, it cannot be found out, or
    /// it was asked for again.
    async fn find(&self, key: &str, question: Bytes) -> Option<String> {
        for tries in 1..=self.retries.tries_max {
            if !self.rest(self.retries.pause(tries)).await || !self.undoing().contains_key(key) {
                return None;
            }
            let answer = self.peer.send("/v1/reservations", question.clone()).await;
            match answer.as_ref().map(asking::meaning) {
                Ok(Meaning::No(_)) => return None,
                Ok(Meaning::Decided(decided)) => {
                    let reservation = decided.reservation().map(str::to_owned)?;
                    return self.claim(key).then_some(reservation);
                }
                Ok(Meaning::Busy(_) | Meaning::Locked | Meaning::Unclear) | Err(_) => {}
            }
        }
        tracing::warn!(key, "it cannot be found out whether something was put aside; it would run out by itself");
        None
    }

    /// Whether what was asked under `key` is still to be released; from now on it will be.
    fn claim(&self, key: &str) -> bool {
        self.undoing().get_mut(key).map(|stage| *stage = Stage::Releasing).is_some()
    }

    fn undoing(&self) -> MutexGuard<'_, BTreeMap<String, Stage>> {
        // The map is whole after any panic: entries only come and go.
        self.undoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
