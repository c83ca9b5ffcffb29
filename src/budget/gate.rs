//! One question before anything costs: given all that was spent, may this still run?
//!
//! The gate of a process: what the operator allows, and where the books are kept. Each request has a [`Meter`] of it.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;

use super::{
    Account, Meter, Store,
    cycles::{self, Cycles, Lease},
    journal::Journal,
    ledger::{Action, Caps, Error, Request, Reserved, StoreError, place, reservation_id},
    meter::Run,
    policy::Policy,
    settle::{Kept, Pending, Settlement, Settler},
};
use crate::resilience::tasks::Tasks;

/// Asks before anything costs. Cloning it shares everything.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Clone, Default)]
struct Inner {
    policy: Policy,
    store: Option<Arc<Store>>,
    tasks: Tasks,
    journal: Option<Arc<Journal<Pending>>>,
    cycles: Option<Cycles>,
}

/// How often what was never settled is given back.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
impl Gate {
    /// A gate that keeps to `policy`. Without a `store` it keeps no books, and knows the ceilings of a request only.
    pub fn new(policy: Policy, store: Option<Arc<Store>>, tasks: Tasks) -> Self {
        Self(Arc::new(Inner { policy, store, tasks, journal: None, cycles: None }))
    }

    /// The same gate, whose costs wait in `journal` for a ledger that does not answer, and survive the process there.
    #[must_use]
    pub fn with_journal(self, journal: Journal<Pending>) -> Self {
        Self(Arc::new(Inner { journal: Some(Arc::new(journal)), ..Inner::clone(&self.0) }))
    }

    /// The same gate, which asks `cycles` as well.
    #[must_use]
    pub fn with_cycles(self, cycles: Cycles) -> Self {
        Self(Arc::new(Inner { cycles: Some(cycles), ..Inner::clone(&self.0) }))
    }

    /// Begins to give back what is never settled, and settles what a former process could not. For use once, when there is a runtime.
    pub fn start(&self) {
        if let Some(cycles) = self.0.cycles.clone() {
            self.0.tasks.spawn(async move { cycles.replay().await });
        }
        self.replay();
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

    /// Settles what a former process left in the journal.
    fn replay(&self) {
        let Some(journal) = self.0.journal.clone() else { return };
        let gate = self.clone();
        self.0.tasks.spawn(async move {
            match tokio::task::spawn_blocking(move || journal.all()).await {
                Ok(Ok(left)) => left.into_iter().for_each(|Pending { kept, settlement }| gate.settle(kept, settlement)),
                Ok(Err(error)) => tracing::error!(%error, "the journal of costs cannot be read"),
                Err(error) => tracing::error!(%error, "the journal of costs was not read"),
            }
        });
    }

    /// What outlives requests.
    pub fn tasks(&self) -> &Tasks {
        &self.0.tasks
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
    pub(super) async fn reserve(&self, request: Request) -> Result<(Kept, Option<Arc<Caps>>), Error> {
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

    /// Puts aside what `request` asks for with the Cycles server, where there is one.
    pub(super) async fn lease(&self, request: &Request) -> Result<Option<Lease>, Error> {
        let Some(cycles) = &self.0.cycles else { return Ok(None) };
        match cycles.reserve(&question(cycles, request)).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Error::Store(error)) if self.0.policy.fails_open => {
                tracing::error!(error = &error as &dyn std::error::Error, "the Cycles server cannot be asked, and is not told of the call");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What the call that `request` is for would have to keep to now; writes nothing. Fails as [`Self::reserve`] and [`Self::lease`] would.
    pub(super) async fn decide(&self, request: &Request) -> Result<Vec<Caps>, Error> {
        let tolerated = |decided: Result<Option<Caps>, Error>| match decided {
            Err(Error::Store(_)) if self.0.policy.fails_open => Ok(None),
            decided => decided,
        };
        let own = match &self.0.store {
            Some(store) => tolerated(store.decide(request).await)?,
            None => None,
        };
        let elsewhere = match &self.0.cycles {
            Some(cycles) => tolerated(cycles.decide(&question(cycles, request)).await)?,
            None => None,
        };
        Ok(own.into_iter().chain(elsewhere).collect())
    }

    /// Asks the ledger. Where nobody waits for its answer any more, what it puts aside is given back as soon as it comes.
    async fn ask(&self, store: &Arc<Store>, request: &Request) -> Result<Reserved, Error> {
        if store.is_local() {
            return store.reserve(request).await;
        }
        let (asked, own) = (request.clone(), Arc::clone(store));
        let asking = self.0.tasks.spawn(async move {
            let may_be_done = !own.is_left_alone();
            Asked { answer: own.reserve(&asked).await, may_be_done }
        });
        Waiting { gate: self, request, asking: Some(asking) }.answer().await
    }

    /// Takes back what was perhaps put aside for `request`, whose answer is lost.
    fn take_back(&self, request: Request) {
        let id = reservation_id(&place("reserve", &request.subject, &request.idempotency_key));
        self.settle(Kept { id: Some(id), request }, Settlement::TakeBack);
    }

    /// Settles `kept`: at once where that waits for nobody, else on its own, until it is done.
    pub(super) fn settle(&self, kept: Kept, settlement: Settlement) {
        if let Some(store) = &self.0.store {
            let settler = Settler { store: Arc::clone(store), tasks: self.0.tasks.clone(), journal: self.0.journal.clone() };
            settler.settle(Pending { kept, settlement });
        }
    }
}

/// What came of a question to the ledger.
struct Asked {
    answer: Result<Reserved, Error>,
    /// Whether it was asked at all.
    may_be_done: bool,
}

impl Asked {
    /// Whether something may be put aside of which nothing is known.
    fn is_lost(&self) -> bool {
        self.may_be_done && matches!(self.answer, Err(Error::Store(_)))
    }
}

/// A question to the ledger that is under way.
struct Waiting<'a> {
    gate: &'a Gate,
    request: &'a Request,
    asking: Option<JoinHandle<Asked>>,
}

impl Waiting<'_> {
    async fn answer(mut self) -> Result<Reserved, Error> {
        let answer = match &mut self.asking {
            Some(asking) => asking.await,
            None => return Err(StoreError("it was asked before".to_owned()).into()),
        };
        self.asking = None;
        let asked = answer.map_err(|error| StoreError(error.to_string()))?;
        if asked.is_lost() {
            self.gate.take_back(self.request.clone());
        }
        asked.answer
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        let (gate, request) = (self.gate.clone(), self.request.clone());
        self.gate.0.tasks.spawn_if_possible(async move {
            match asking.await {
                Ok(asked) if asked.is_lost() => gate.take_back(request),
                Ok(Asked { answer: Ok(reserved), .. }) => {
                    gate.settle(Kept { id: Some(reserved.reservation_id), request }, Settlement::Release);
                }
                Ok(_) | Err(_) => {}
            }
        });
    }
}

/// What the Cycles server is asked for `request`.
fn question(cycles: &Cycles, request: &Request) -> cycles::Ask {
    let estimate = request.estimates.iter().find(|estimate| estimate.unit == cycles.unit());
    cycles::Ask {
        idempotency_key: request.idempotency_key.clone(),
        subject: request.subject.clone(),
        action: request.action.clone(),
        estimate: estimate.map_or(0, |estimate| estimate.amount),
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
    use crate::budget::{Amount, Unit, ledger::Overage, store::memory::Memory};

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
            Asked { answer: own.reserve(&asked).await, may_be_done: true }
        });
        let waiting = Waiting { gate: &gate, request: &request, asking: Some(asking) };
        assert!(tokio::time::timeout(Duration::from_millis(10), waiting.answer()).await.is_err());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let balances = store.balances().await.unwrap();
        assert_eq!(balances.iter().map(|(.., balance)| (balance.reserved, balance.spent)).collect::<Vec<_>>(), [(0, 0)]);
    }
}
