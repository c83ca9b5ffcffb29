//! Several units at once, the budgets that policy makes, and those that are made so that use is known.

use super::opened::{AGENT, Place, TENANT, UNIT, at, event, key, request, since_begin};
use crate::budget::{
    Amount, Unit,
    amount::AMOUNT_MAX,
    ledger::{Code, Error, Event, Overage, Quota, Request},
};

const DAY_MS: u64 = 24 * 3600 * 1000;
const LIMIT: &str = "limit:searches/key:k";

/// A request for credits and tokens.
fn both(credits: u64, tokens: u64) -> Request {
    let estimates = vec![Amount::new(UNIT, credits), Amount::new(Unit::Tokens, tokens)];
    Request { estimates, ..request(0, Overage::default()) }
}

/// A quota of so many credits that ends after so long.
fn quota(allocated: u64, until: u64) -> Quota {
    Quota { scope: LIMIT.to_owned(), unit: UNIT, allocated, until_ms: since_begin(until) }
}

fn limited(amount: u64, quota: Quota) -> Request {
    Request { quotas: vec![quota], ..request(amount, Overage::default()) }
}

pub(super) async fn several_units_at_once_or_none(place: Place) {
    let ledger = place.with((100, 0), None).await;
    ledger.budget(TENANT, Unit::Tokens, (1000, 0)).await;
    assert_eq!(ledger.ask(&both(10, 1001)).await, Err(Code::BudgetExceeded));
    assert_eq!(ledger.ask(&both(101, 10)).await, Err(Code::BudgetExceeded));
    let tokens = async || ledger.find(TENANT, Unit::Tokens).await.unwrap().reserved;
    assert_eq!((ledger.balance(TENANT).await.reserved, tokens().await), (0, 0));
    let reserved = ledger.store.reserve(&both(10, 1000)).await.unwrap();
    assert_eq!(reserved.affected_scopes, [TENANT], "each scope once");
    assert_eq!((ledger.balance(TENANT).await.reserved, tokens().await), (10, 1000));
}

pub(super) async fn a_commit_settles_every_unit(place: Place) {
    let ledger = place.with((100, 0), None).await;
    ledger.budget(TENANT, Unit::Tokens, (1000, 0)).await;
    let id = ledger.ask(&both(10, 500)).await.unwrap();
    // A unit that is not told costs what was estimated.
    let committed = ledger.store.commit(&id, &key(), &[Amount::new(Unit::Tokens, 200)]).await.unwrap();
    assert_eq!(committed.charged, [Amount::new(UNIT, 10), Amount::new(Unit::Tokens, 200)]);
    assert_eq!(committed.released, [Amount::new(Unit::Tokens, 300)]);
    let id = ledger.ask(&both(10, 500)).await.unwrap();
    let released = ledger.store.release(&id, &key()).await.unwrap();
    assert_eq!(released.released, [Amount::new(UNIT, 10), Amount::new(Unit::Tokens, 500)]);
    let (credits, tokens) = (ledger.balance(TENANT).await, ledger.find(TENANT, Unit::Tokens).await.unwrap());
    assert_eq!((credits.spent, credits.reserved, tokens.spent, tokens.reserved), (10, 0, 200, 0));
}

pub(super) async fn a_quota_counts_beside_the_budgets(place: Place) {
    let ledger = place.with((100, 0), Some((100, 0))).await;
    let reserved = ledger.store.reserve(&limited(3, quota(5, 60_000))).await.unwrap();
    assert_eq!(reserved.affected_scopes, [TENANT, AGENT, LIMIT]);
    assert_eq!(ledger.ask(&limited(3, quota(5, 60_000))).await, Err(Code::BudgetExceeded));
    assert_eq!(ledger.balance(TENANT).await.reserved, 3, "all or none");
    ledger.commit(&reserved.reservation_id, 1).await.unwrap();
    assert_eq!((ledger.balance(LIMIT).await.spent, ledger.balance(LIMIT).await.reserved), (1, 0));
    let applied = Event { quotas: vec![quota(5, 60_000)], ..event(4, Overage::default()) };
    ledger.store.event(&applied).await.unwrap();
    assert_eq!(ledger.balance(LIMIT).await.remaining(), 0);
    // A quota of a unit that is not estimated takes nothing.
    let tokens = Quota { unit: Unit::Tokens, ..quota(0, 60_000) };
    assert!(ledger.ask(&limited(1, tokens)).await.is_ok());
    assert_eq!(ledger.find(LIMIT, Unit::Tokens).await, None);
}

pub(super) async fn a_quota_has_what_it_has_now(place: Place) {
    let ledger = place.with((100, 0), None).await;
    assert!(ledger.ask(&limited(4, quota(5, 60_000))).await.is_ok());
    assert_eq!(ledger.ask(&limited(2, quota(5, 60_000))).await, Err(Code::BudgetExceeded));
    assert!(ledger.ask(&limited(2, quota(6, 50_000))).await.is_ok());
    let after = ledger.balance(LIMIT).await;
    assert_eq!((after.allocated, after.reserved, after.until_ms), (6, 6, Some(since_begin(60_000))));
    assert_eq!(ledger.ask(&limited(1, quota(3, 60_000))).await, Err(Code::BudgetExceeded));
    assert_eq!(ledger.balance(LIMIT).await.allocated, 6, "a refusal changes nothing");
}

pub(super) async fn a_quota_that_is_raised_is_over_its_limit_no_more(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.ask(&limited(4, quota(5, 60_000))).await.unwrap();
    assert_eq!(ledger.commit(&id, 9).await, Ok((5, None)));
    assert!(ledger.balance(LIMIT).await.is_over_limit);
    assert_eq!(ledger.ask(&limited(0, quota(5, 60_000))).await, Err(Code::OverdraftLimitExceeded));
    assert_eq!(ledger.ask(&limited(2, quota(6, 60_000))).await, Err(Code::BudgetExceeded), "there is room for one");
    assert!(ledger.ask(&limited(1, quota(6, 60_000))).await.is_ok());
    assert!(!ledger.balance(LIMIT).await.is_over_limit);
}

pub(super) async fn a_refusal_names_its_unit(place: Place) {
    let ledger = place.with((100, 0), None).await;
    ledger.budget(TENANT, Unit::Tokens, (5, 0)).await;
    let Err(Error::Refused(refusal)) = ledger.store.reserve(&both(1, 6)).await else { panic!("it is allowed") };
    let expected = (Some(Unit::Tokens), "The budget of tenant:t in tokens does not have so much left.");
    assert_eq!((refusal.unit, refusal.message.as_str()), expected);
    let id = ledger.reserve(1, Overage::Reject).await.unwrap();
    let Err(Error::Refused(refusal)) = ledger.store.commit(&id, &key(), &[Amount::new(UNIT, 2)]).await else { panic!("it is allowed") };
    assert_eq!((refusal.unit, refusal.scope.as_deref()), (Some(UNIT), Some(TENANT)));
}

pub(super) async fn a_quota_is_forgotten_a_day_after_its_end(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.ask(&limited(4, quota(5, 60_000))).await.unwrap();
    ledger.store.extend(&id, &key(), 2 * DAY_MS).await.unwrap();
    let is_known = async |ms: u64| {
        at(ms);
        ledger.store.expire().await.unwrap();
        ledger.find(LIMIT, UNIT).await.is_some()
    };
    assert!(is_known(DAY_MS + 60_001).await, "something is put aside in it");
    ledger.commit(&id, 4).await.unwrap();
    assert!(is_known(DAY_MS + 60_000).await);
    assert!(!is_known(DAY_MS + 60_001).await);
    assert!(ledger.find(TENANT, UNIT).await.is_some(), "a budget without an end stays");
}

pub(super) async fn a_subject_is_opened_that_has_no_budget(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let asked = Request { opens: true, ..both(10, 7) };
    let reserved = ledger.store.reserve(&asked).await.unwrap();
    assert_eq!(reserved.affected_scopes, [TENANT, AGENT]);
    ledger.store.commit(&reserved.reservation_id, &key(), &[]).await.unwrap();
    let agent = ledger.balance(AGENT).await;
    assert_eq!((agent.allocated, agent.spent, ledger.balance(TENANT).await.allocated), (AMOUNT_MAX, 10, 100));
    assert_eq!(ledger.find(TENANT, Unit::Tokens).await.unwrap().spent, 7);
    assert_eq!(ledger.ask(&Request { opens: true, ..both(91, 0) }).await, Err(Code::BudgetExceeded), "a budget that is there counts");
    let applied = Event { opens: true, actuals: vec![Amount::new(Unit::RiskPoints, 2)], ..event(0, Overage::default()) };
    ledger.store.event(&applied).await.unwrap();
    assert_eq!(ledger.find(AGENT, Unit::RiskPoints).await.unwrap().spent, 2);
}
