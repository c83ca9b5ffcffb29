//! The end of a reservation: what was done is charged, what was not is given back, and neither is given up while somebody can take it.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::{
    Amount, Store,
    journal::Journal,
    ledger::{Code, Error, Event, Overage, Refusal, Request},
};
use crate::resilience::tasks::Tasks;

/// The first wait before a settlement is tried again; it doubles with each that follows.
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// The longest.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// How often a reservation that nobody knows of is looked for, before it is taken for one that was never made.
const ABSENT_MAX: u32 = 4;

/// How a reservation ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Settlement {
    /// What was done cost so much.
    Commit(Vec<Amount>),
    /// It was not done.
    Release,
    /// It was not done, and nobody knows whether anything was put aside for it: the ledger did not answer, and may do it yet.
    TakeBack,
}

/// What was put aside, and with which words.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The id of the reservation; `None` where the ledger could not be asked, and the call was made all the same.
    pub(super) id: Option<String>,
    /// What was asked for.
    pub(super) request: Request,
}

/// A reservation whose end is known and that the ledger does not know of yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pending {
    pub(super) kept: Kept,
    pub(super) settlement: Settlement,
}

impl Pending {
    /// What it is called in the journal. A call that is made although the ledger did not answer has a cost beside what is taken back.
    fn key(&self) -> String {
        let key = &self.kept.request.idempotency_key;
        if self.is_taken_back() { format!("take-back:{key}") } else { key.clone() }
    }

    fn is_taken_back(&self) -> bool {
        matches!(self.settlement, Settlement::TakeBack)
    }
}

/// Tells a ledger how reservations end.
pub(super) struct Settler {
    pub(super) store: Arc<Store>,
    pub(super) tasks: Tasks,
    /// Where that is kept meanwhile, so that it survives the process; for a ledger that outlives it.
    pub(super) journal: Option<Arc<Journal<Pending>>>,
}

impl Settler {
    /// Settles `pending`: at once where that waits for nobody, else on its own, until it is done.
    pub(super) fn settle(self, pending: Pending) {
        if tokio::runtime::Handle::try_current().is_err() {
            // The process is over: nobody is there to wait for anything.
            let key = &pending.kept.request.idempotency_key;
            if !matches!(settle(&self.store, &pending).now_or_never(), Some(Ok(()))) {
                tracing::error!(key, "a cost is not in the books");
            }
            return;
        }
        let tasks = self.tasks.clone();
        let mut work = Box::pin(async move { self.finish(Arc::new(pending)).await });
        // A local ledger answers at the first poll.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if work.as_mut().poll(&mut context).is_pending() {
            tasks.spawn_if_possible(work);
        }
    }

    async fn finish(self, pending: Arc<Pending>) {
        if self.store.is_local() {
            return self.repeat(&pending).await;
        }
        self.with_journal(&pending, |journal, key, pending| journal.put(key, pending)).await;
        self.repeat(&pending).await;
    }

    /// Settles `pending`, as often as it takes while the process lives.
    async fn repeat(&self, pending: &Arc<Pending>) {
        let key = &pending.kept.request.idempotency_key;
        let (mut wait, mut absent) = (RETRY_FIRST, 0);
        loop {
            let is_ending = match settle(&self.store, pending).await {
                Ok(()) => break,
                Err(Error::Refused(refusal)) if pending.is_taken_back() => {
                    absent += 1;
                    if refusal.code != Code::NotFound || absent == ABSENT_MAX {
                        break;
                    }
                    self.rest(wait).await
                }
                Err(Error::Refused(refusal)) => {
                    tracing::error!(refusal = &refusal as &dyn std::error::Error, key, "a cost is not in the books");
                    break;
                }
                Err(Error::Store(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the ledger cannot be settled with now, it is tried again");
                    self.rest(wait).await
                }
            };
            wait = (wait * 2).min(RETRY_MAX);
            if is_ending {
                let last = settle(&self.store, pending).await;
                if last.is_ok() || pending.is_taken_back() && matches!(last, Err(Error::Refused(_))) {
                    break;
                }
                // What is in a journal is settled by the next process.
                tracing::error!(key, is_kept = self.journal.is_some(), "a cost is not in the books");
                return;
            }
        }
        if !self.store.is_local() {
            self.with_journal(pending, |journal, key, _| journal.remove(key)).await;
        }
    }

    /// Waits for so long. Returns whether the process is about to end.
    async fn rest(&self, wait: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => false,
            () = self.tasks.ending() => true,
        }
    }

    /// Does something with the journal, on a thread that may wait for the disk.
    async fn with_journal(
        &self,
        pending: &Arc<Pending>,
        act: impl FnOnce(&Journal<Pending>, &str, &Pending) -> std::io::Result<()> + Send + 'static,
    ) {
        let Some(journal) = self.journal.clone() else { return };
        let pending = Arc::clone(pending);
        let done = tokio::task::spawn_blocking(move || act(&journal, &pending.key(), &pending)).await;
        if let Ok(Err(error)) = done {
            tracing::error!(%error, "the journal of costs cannot be written");
        }
    }
}

async fn settle(store: &Store, pending: &Pending) -> Result<(), Error> {
    let Pending { kept: Kept { id, request }, settlement } = pending;
    let key = &request.idempotency_key;
    match (settlement, id) {
        (Settlement::Release | Settlement::TakeBack, None) => Ok(()),
        (Settlement::TakeBack, Some(id)) => match store.release(id, &format!("release:{key}")).await {
            Err(Error::Refused(Refusal { code: Code::ReservationExpired, .. })) => Ok(()),
            released => released.map(drop),
        },
        (Settlement::Release, Some(id)) => match store.release(id, &format!("release:{key}")).await {
            // Its time was over, and it was given back.
            Err(Error::Refused(Refusal { code: Code::ReservationExpired | Code::NotFound, .. })) => Ok(()),
            released => released.map(drop),
        },
        (Settlement::Commit(actuals), Some(id)) => match store.commit(id, &format!("commit:{key}"), actuals).await {
            // It took longer than it was put aside for, and has happened all the same.
            Err(Error::Refused(Refusal { code: Code::ReservationExpired | Code::NotFound, .. })) => book(store, request, actuals).await,
            // It cost more than the budget stands: what was put aside for it is charged at least.
            Err(Error::Refused(Refusal { code: Code::BudgetExceeded | Code::OverdraftLimitExceeded, message, .. })) => {
                tracing::error!(%message, key, "a cost is in the books only as far as it was reserved");
                store.commit(id, &format!("commit:{key}:reserved"), &lesser(actuals, &request.estimates)).await.map(drop)
            }
            committed => committed.map(drop),
        },
        (Settlement::Commit(actuals), None) => book(store, request, actuals).await,
    }
}

/// Books a cost for which nothing is put aside any more: all of it where it may be owed, else as much as there is.
async fn book(store: &Store, request: &Request, actuals: &[Amount]) -> Result<(), Error> {
    let whole = event(request, actuals, request.overage_policy.afterwards());
    let booked = match store.event(&whole).await {
        Err(Error::Refused(Refusal { code: Code::OverdraftLimitExceeded, .. })) => {
            // Under the same key, so that it is one or the other.
            store.event(&Event { overage_policy: Overage::AllowIfAvailable, ..whole }).await
        }
        booked => booked,
    };
    match booked {
        // It is booked already, in the other way.
        Err(Error::Refused(Refusal { code: Code::IdempotencyMismatch, .. })) => Ok(()),
        booked => booked.map(drop),
    }
}

/// Each of `actuals`, but no more than was put aside.
fn lesser(actuals: &[Amount], estimates: &[Amount]) -> Vec<Amount> {
    let least = |actual: &Amount| {
        let estimate = estimates.iter().find(|estimate| estimate.unit == actual.unit);
        Amount::new(actual.unit, estimate.map_or(0, |estimate| estimate.amount).min(actual.amount))
    };
    actuals.iter().map(least).collect()
}

fn event(request: &Request, actuals: &[Amount], overage_policy: Overage) -> Event {
    Event {
        idempotency_key: format!("commit:{}", request.idempotency_key),
        subject: request.subject.clone(),
        action: request.action.clone(),
        actuals: actuals.to_vec(),
        quotas: request.quotas.clone(),
        opens: request.opens,
        overage_policy,
    }
}
