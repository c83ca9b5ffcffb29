//! Many at once.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::opened::{Place, TENANT};
use crate::budget::ledger::{Code, Overage};

/// 200 callers on several threads want one of 37 each. The time is that of the machine: what a test says holds on its own thread.
pub(super) fn reserves_do_not_overshoot(place: Place) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    let ledger = Arc::new(runtime.block_on(place.with((37, 0), None)));
    let outcomes: Vec<_> = runtime.block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..200 {
            let ledger = ledger.clone();
            callers.spawn(async move { ledger.reserve(1, Overage::default()).await });
        }
        callers.join_all().await
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 37);
    assert!(outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).all(|code| *code == Code::BudgetExceeded));
    assert_eq!(runtime.block_on(ledger.balance(TENANT)).reserved, 37);
}
