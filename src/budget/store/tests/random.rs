//! Random lives of a ledger: whatever happens, nothing is lost and nothing is counted twice.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    test_runner::{TestCaseResult, TestRunner},
};

use super::opened::{AGENT, Opened, Place, TENANT, at, event, key, sum};
use crate::budget::ledger::Overage;

/// One step of a random life.
#[derive(Debug, Clone)]
enum Step {
    Reserve(u64, Overage),
    Commit(usize, u64),
    Release(usize),
    Event(u64, Overage),
    Expire(u64),
}

/// What must be in the books, told from the answers alone.
#[derive(Default)]
struct Told {
    now_ms: u64,
    ids: Vec<String>,
    /// What stands: the estimate, and until when it may be settled.
    standing: BTreeMap<String, (u64, u64)>,
    charged: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let overage = prop_oneof![Just(Overage::Reject), Just(Overage::AllowIfAvailable), Just(Overage::AllowWithOverdraft)];
    prop_oneof![
        (0u64..300, overage.clone()).prop_map(|(amount, overage)| Step::Reserve(amount, overage)),
        (any::<usize>(), 0u64..600).prop_map(|(which, amount)| Step::Commit(which, amount)),
        any::<usize>().prop_map(Step::Release),
        (0u64..300, overage).prop_map(|(amount, overage)| Step::Event(amount, overage)),
        (0u64..40_000).prop_map(Step::Expire),
    ]
}

pub(super) fn nothing_is_lost_or_counted_twice(place: Place) {
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(place.lives()) });
    let lives = (proptest::collection::vec(step(), 1..80), (0u64..400, 0u64..400));
    let runtime = super::runtime();
    runner.run(&lives, |(steps, limits)| runtime.block_on(live(place, steps, limits))).unwrap();
}

async fn live(place: Place, steps: Vec<Step>, limits: (u64, u64)) -> TestCaseResult {
    let ledger = place.with((1000, limits.0), Some((800, limits.1))).await;
    let mut told = Told::default();
    for step in steps {
        at(told.now_ms);
        told.take(&ledger, step).await;
        for (scope, limit) in [(TENANT, limits.0), (AGENT, limits.1)] {
            let balance = ledger.balance(scope).await;
            let standing: u64 = told.standing.values().map(|(estimate, _)| estimate).sum();
            prop_assert_eq!(balance.reserved, standing, "what is put aside is what stands");
            prop_assert_eq!(balance.spent + balance.debt, told.charged, "what was charged is spent or owed");
            prop_assert!(balance.debt <= limit);
            prop_assert!(balance.spent + balance.reserved <= balance.allocated, "{:?}", balance);
        }
    }
    Ok(())
}

impl Told {
    async fn take(&mut self, ledger: &Opened, step: Step) {
        match step {
            Step::Reserve(amount, overage) => {
                if let Ok(id) = ledger.reserve(amount, overage).await {
                    self.standing.insert(id.clone(), (amount, self.now_ms + 65_000));
                    self.ids.push(id);
                }
            }
            Step::Commit(which, amount) if !self.ids.is_empty() => {
                let id = &self.ids[which % self.ids.len()];
                if let Ok((charged, _)) = ledger.commit(id, amount).await {
                    self.charged += charged;
                    assert!(self.standing.remove(id).is_some(), "it was settled before");
                }
            }
            Step::Release(which) if !self.ids.is_empty() => {
                let id = &self.ids[which % self.ids.len()];
                if ledger.store.release(id, &key()).await.is_ok() {
                    assert!(self.standing.remove(id).is_some(), "it was settled before");
                }
            }
            Step::Event(amount, overage) => {
                let applied = ledger.store.event(&event(amount, overage)).await;
                self.charged += applied.map_or(0, |applied| sum(&applied.charged));
            }
            Step::Expire(by_ms) => {
                self.now_ms += by_ms;
                at(self.now_ms);
                let before = self.standing.len();
                self.standing.retain(|_, (_, settle_by_ms)| *settle_by_ms >= self.now_ms);
                assert_eq!(ledger.store.expire().await.unwrap(), before - self.standing.len());
            }
            Step::Commit(..) | Step::Release(_) => {}
        }
    }
}
