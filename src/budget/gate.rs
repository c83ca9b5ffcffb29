//! One question before anything costs: given all that was spent, may this still run?
//!
//! The gate of a process: what the operator allows, and where the books are kept. Each request has a [`Meter`] of it.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;

use super::{
    Account, Denial, Meter, Store,
    ledger::{Action, Code, Error, Event, Refusal, Request, Reserved, StoreError},
    meter::Run,
    policy::Policy,
};
use crate::{budget::Amount, resilience::tasks::Tasks};

/// Asks before anything costs. Cloning it shares everything.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    policy: Policy,
    store: Option<Arc<Store>>,
    tasks: Tasks,
}

/// How often what was never settled is given back.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// The first wait before a settlement is tried again; it doubles with each that follows.
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// The longest.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// How a reservation ends.
#[derive(Debug, Clone)]
pub(super) enum Settlement {
    /// What was done cost so much.
    Commit(Vec<Amount>),
    /// It was not done.
    Release,
}

/// What was put aside, and with which words.
#[derive(Debug)]
pub(super) struct Kept {
    /// The id of the reservation; `None` where the ledger could not be asked, and the call was made all the same.
    pub(super) id: Option<String>,
    /// What was asked for.
    pub(super) request: Request,
}

impl Gate {
    /// A gate that keeps to `policy`. Without a `store` it keeps no books, and knows the ceilings of a request only.
    pub fn new(policy: Policy, store: Option<Arc<Store>>, tasks: Tasks) -> Self {
        Self(Arc::new(Inner { policy, store, tasks }))
    }

    /// Begins to give back what is never settled. For use once there is a runtime.
    pub fn start(&self) {
        let Some(store) = self.0.store.clone() else { return };
        let tasks = self.0.tasks.clone();
        self.0.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = tasks.ending() => return,
                    () = tokio::time::sleep(SWEEP_EVERY) => {}
                }
                if let Err(error) = store.expire().await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "reservations that are over were not given back");
                }
            }
        });
    }

    /// The books, where there are any.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.0.store.as_ref()
    }

    /// What the operator allows.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Whether anything is counted.
    pub fn is_on(&self) -> bool {
        let Policy { ceilings, limits, .. } = &self.0.policy;
        // A ceiling of money is reached where something has a price, and then there are books.
        let has_ceiling = ceilings.tokens.is_some() || ceilings.calls.is_some() || ceilings.deadline.is_some();
        self.0.store.is_some() || has_ceiling || !limits.is_empty()
    }

    /// A meter of the request `request_id` of the conversation `session_id` that `account` makes.
    pub fn meter(&self, account: &Arc<Account>, request_id: &str, session_id: &str) -> Meter {
        if !self.is_on() {
            return Meter::default();
        }
        Meter::new(self.clone(), Run::new(Arc::clone(account), request_id, session_id))
    }

    /// Puts aside what `request` asks for.
    pub(super) async fn reserve(&self, request: Request) -> Result<(Kept, Option<Arc<super::ledger::Caps>>), Error> {
        let Some(store) = &self.0.store else { return Ok((Kept { id: None, request }, None)) };
        match self.ask(store, &request).await {
            Ok(reserved) => Ok((Kept { id: Some(reserved.reservation_id), request }, reserved.caps.map(Arc::new))),
            Err(Error::Store(error)) if self.0.policy.fails_open => {
                tracing::error!(error = &error as &dyn std::error::Error, "the ledger cannot be asked: the call is made all the same");
                Ok((Kept { id: None, request }, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Why [`Self::reserve`] would fail now, if it would; writes nothing.
    pub(super) async fn would_refuse(&self, request: &Request) -> Option<Denial> {
        match self.0.store.as_ref()?.decide(request).await {
            Ok(()) => None,
            Err(Error::Store(_)) if self.0.policy.fails_open => None,
            Err(error) => Some(error.into()),
        }
    }

    /// Asks the ledger. Where nobody waits for its answer any more, what it puts aside is given back as soon as it comes.
    async fn ask(&self, store: &Arc<Store>, request: &Request) -> Result<Reserved, Error> {
        if store.is_local() {
            return store.reserve(request).await;
        }
        let (asked, own) = (request.clone(), Arc::clone(store));
        let asking = self.0.tasks.spawn(async move { own.reserve(&asked).await });
        Waiting { gate: self, request, asking: Some(asking) }.answer().await
    }

    /// Settles `kept`: at once where that waits for nobody, else on its own, until it is done.
    pub(super) fn settle(&self, kept: Kept, settlement: Settlement) {
        let Some(store) = self.0.store.clone() else { return };
        let tasks = self.0.tasks.clone();
        let mut work = Box::pin(async move { finish(&store, &kept, &settlement, &tasks).await });
        // A local ledger answers at the first poll.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if work.as_mut().poll(&mut context).is_pending() {
            self.0.tasks.spawn_if_possible(work);
        }
    }
}

/// A question to the ledger that is under way.
struct Waiting<'a> {
    gate: &'a Gate,
    request: &'a Request,
    asking: Option<JoinHandle<Result<Reserved, Error>>>,
}

impl Waiting<'_> {
    async fn answer(mut self) -> Result<Reserved, Error> {
        let answer = match &mut self.asking {
            Some(asking) => asking.await,
            None => return Err(StoreError("it was asked before".to_owned()).into()),
        };
        self.asking = None;
        answer.unwrap_or_else(|error| Err(StoreError(error.to_string()).into()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        let (gate, request) = (self.gate.clone(), self.request.clone());
        self.gate.0.tasks.spawn_if_possible(async move {
            if let Ok(Ok(reserved)) = asking.await {
                gate.settle(Kept { id: Some(reserved.reservation_id), request }, Settlement::Release);
            }
        });
    }
}

/// Settles `kept`, as often as it takes while the process lives.
async fn finish(store: &Store, kept: &Kept, settlement: &Settlement, tasks: &Tasks) {
    let mut wait = RETRY_FIRST;
    loop {
        match settle(store, kept, settlement).await {
            Ok(()) => return,
            Err(Error::Refused(refusal)) => {
                tracing::error!(
                    refusal = &refusal as &dyn std::error::Error,
                    key = kept.request.idempotency_key,
                    "a cost is not in the books"
                );
                return;
            }
            Err(Error::Store(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the ledger cannot be settled with now, it is tried again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY_MAX),
            () = tasks.ending() => {
                if let Err(error) = settle(store, kept, settlement).await {
                    tracing::error!(error = &error as &dyn std::error::Error, key = kept.request.idempotency_key, "a cost is not in the books");
                }
                return;
            }
        }
    }
}

async fn settle(store: &Store, kept: &Kept, settlement: &Settlement) -> Result<(), Error> {
    let key = &kept.request.idempotency_key;
    match (settlement, &kept.id) {
        (Settlement::Release, None) => Ok(()),
        (Settlement::Release, Some(id)) => match store.release(id, &format!("release:{key}")).await {
            // Its time was over, and it was given back.
            Err(Error::Refused(Refusal { code: Code::ReservationExpired | Code::NotFound, .. })) => Ok(()),
            released => released.map(drop),
        },
        (Settlement::Commit(actuals), Some(id)) => match store.commit(id, &format!("commit:{key}"), actuals).await {
            // It took longer than it was put aside for, and has happened all the same.
            Err(Error::Refused(Refusal { code: Code::ReservationExpired | Code::NotFound, .. })) => {
                store.event(&event(&kept.request, actuals)).await.map(drop)
            }
            // It cost more than the budget stands: what was put aside for it is charged at least.
            Err(Error::Refused(Refusal { code: Code::BudgetExceeded | Code::OverdraftLimitExceeded, message, .. })) => {
                tracing::error!(%message, key, "a cost is in the books only as far as it was reserved");
                store.commit(id, &format!("commit:{key}:reserved"), &lesser(actuals, &kept.request.estimates)).await.map(drop)
            }
            committed => committed.map(drop),
        },
        (Settlement::Commit(actuals), None) => store.event(&event(&kept.request, actuals)).await.map(drop),
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

fn event(request: &Request, actuals: &[Amount]) -> Event {
    Event {
        idempotency_key: format!("commit:{}", request.idempotency_key),
        subject: request.subject.clone(),
        action: request.action.clone(),
        actuals: actuals.to_vec(),
        quotas: request.quotas.clone(),
        opens: request.opens,
        overage_policy: request.overage_policy,
    }
}

/// What a call is known as in the books.
pub(super) fn action(run: &Run, kind: &str, name: &str) -> Action {
    Action {
        kind: kind.to_owned(),
        name: name.to_owned(),
        key: run.account.key.clone(),
        request_id: run.request_id.clone(),
        session_id: run.session_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Unit, ledger::Overage, store::memory::Memory};

    #[tokio::test(start_paused = true)]
    async fn what_is_put_aside_for_nobody_is_given_back() {
        let store = Arc::new(Store::Memory(Memory::default()));
        let gate = Gate::new(Policy::default(), Some(Arc::clone(&store)), Tasks::default());
        let request = Request {
            idempotency_key: "k".to_owned(),
            subject: Account::anonymous().subject,
            action: Action::default(),
            estimates: vec![Amount::new(Unit::Credits, 1)],
            quotas: Vec::new(),
            opens: true,
            ttl_ms: 60_000,
            grace_period_ms: 0,
            overage_policy: Overage::default(),
        };
        // A ledger that takes its time.
        let (asked, own) = (request.clone(), Arc::clone(&store));
        let asking = gate.0.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            own.reserve(&asked).await
        });
        let waiting = Waiting { gate: &gate, request: &request, asking: Some(asking) };
        assert!(tokio::time::timeout(Duration::from_millis(10), waiting.answer()).await.is_err());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let balances = store.balances().await.unwrap();
        assert_eq!(balances.iter().map(|(.., balance)| (balance.reserved, balance.spent)).collect::<Vec<_>>(), [(0, 0)]);
    }
}
