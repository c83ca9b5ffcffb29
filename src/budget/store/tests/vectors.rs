//! The vectors of the protocol's reference server: what is charged, given back and owed.

use super::opened::{AGENT, Place, TENANT, event, sum};
use crate::budget::ledger::{Code, Overage};

pub(super) async fn v1_what_was_not_used_is_given_back(place: Place) {
    let ledger = place.with((10_000, 0), None).await;
    let id = ledger.reserve(5000, Overage::default()).await.unwrap();
    assert_eq!(ledger.commit(&id, 3000).await, Ok((3000, Some(2000))));
    let after = ledger.balance(TENANT).await;
    assert_eq!((after.remaining(), after.spent, after.reserved), (7000, 3000, 0));
}

pub(super) async fn v2_an_overage_is_charged_as_far_as_there_is_something(place: Place) {
    let ledger = place.with((10_000, 0), None).await;
    let id = ledger.reserve(1000, Overage::AllowIfAvailable).await.unwrap();
    assert_eq!(ledger.commit(&id, 50_000).await, Ok((10_000, None)));
    let after = ledger.balance(TENANT).await;
    assert_eq!((after.remaining(), after.is_over_limit), (0, true));
    assert_eq!(ledger.reserve(0, Overage::default()).await, Err(Code::OverdraftLimitExceeded));
}

pub(super) async fn v3_v4_debt_is_made_up_to_its_limit(place: Place) {
    let ledger = place.with((1000, 500), None).await;
    let id = ledger.reserve(800, Overage::AllowWithOverdraft).await.unwrap();
    assert_eq!(ledger.commit(&id, 1600).await, Err(Code::OverdraftLimitExceeded));
    let before = ledger.balance(TENANT).await;
    assert_eq!((before.remaining(), before.reserved), (200, 800));
    assert_eq!(ledger.commit(&id, 1300).await, Ok((1300, None)));
    let after = ledger.balance(TENANT).await;
    assert_eq!((after.remaining(), after.spent, after.debt), (-300, 1000, 300));
    assert_eq!(ledger.reserve(1, Overage::default()).await, Err(Code::BudgetExceeded));
}

pub(super) async fn v5_without_a_limit_there_is_no_debt(place: Place) {
    let ledger = place.with((1000, 0), None).await;
    let id = ledger.reserve(800, Overage::AllowWithOverdraft).await.unwrap();
    assert_eq!(ledger.commit(&id, 1300).await, Ok((1000, None)));
    assert!(ledger.balance(TENANT).await.is_over_limit);
}

pub(super) async fn v6_v11_only_the_scope_that_had_too_little_is_over_its_limit(place: Place) {
    for (tenant, agent, estimate, charged) in [(100, 1000, 50, 100), (150, 1000, 100, 150)] {
        let ledger = place.with((tenant, 0), Some((agent, 0))).await;
        let id = ledger.reserve(estimate, Overage::AllowIfAvailable).await.unwrap();
        assert_eq!(ledger.commit(&id, 200).await, Ok((charged, None)));
        assert_eq!((ledger.balance(TENANT).await.is_over_limit, ledger.balance(AGENT).await.is_over_limit), (true, false));
    }
}

pub(super) async fn v7_what_is_reserved_is_not_there_for_others(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.reserve(100, Overage::default()).await.unwrap();
    assert_eq!(ledger.reserve(1, Overage::default()).await, Err(Code::BudgetExceeded));
    assert_eq!(ledger.commit(&id, 100).await, Ok((100, None)));
}

pub(super) async fn v8_nothing_can_always_be_reserved(place: Place) {
    let ledger = place.with((0, 0), None).await;
    assert!(ledger.reserve(0, Overage::default()).await.is_ok());
}

pub(super) async fn v9_a_scope_without_debt_caps_one_with(place: Place) {
    let ledger = place.with((1000, 500), Some((100, 0))).await;
    let id = ledger.reserve(50, Overage::AllowWithOverdraft).await.unwrap();
    assert_eq!(ledger.commit(&id, 200).await, Ok((100, None)));
    assert_eq!((ledger.balance(TENANT).await.is_over_limit, ledger.balance(AGENT).await.is_over_limit), (false, true));
}

pub(super) async fn v10_a_refused_overage_leaves_the_reservation(place: Place) {
    let ledger = place.with((1000, 0), None).await;
    let id = ledger.reserve(10, Overage::Reject).await.unwrap();
    assert_eq!(ledger.commit(&id, 11).await, Err(Code::BudgetExceeded));
    assert_eq!(ledger.commit(&id, 10).await, Ok((10, None)));
}

pub(super) async fn v12_an_event_is_charged_as_far_as_there_is_something(place: Place) {
    let ledger = place.with((50, 0), Some((950, 0))).await;
    let applied = ledger.store.event(&event(100, Overage::AllowIfAvailable)).await.unwrap();
    assert_eq!(sum(&applied.charged), 50);
    assert_eq!(ledger.balance(AGENT).await.spent, 50);
}
