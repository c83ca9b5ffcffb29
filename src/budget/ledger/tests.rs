use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::budget::{Amount, Subject, store::memory::Memory};

const UNIT: Unit = Unit::Credits;
static NEXT: AtomicU64 = AtomicU64::new(0);

fn key() -> String {
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

fn subject() -> Subject {
    Subject { tenant: Some("t".into()), agent: Some("a".into()), ..Subject::default() }
}

const TENANT: &str = "tenant:t";
const AGENT: &str = "tenant:t/agent:a";

fn budget(memory: &Memory, scope: &str, allocated: u64, overdraft_limit: u64) {
    memory
        .with(0, |ledger| Ok(ledger.book.put_balance(scope, UNIT, Balance { allocated, overdraft_limit, ..Balance::default() })?))
        .unwrap();
}

fn balance(memory: &Memory, scope: &str) -> Balance {
    memory.with(0, |ledger| Ok(ledger.book.balance(scope, UNIT)?.unwrap())).unwrap()
}

fn request(amount: u64, overage_policy: Overage) -> Request {
    Request {
        idempotency_key: key(),
        subject: subject(),
        action: Action::default(),
        estimates: vec![Amount::new(UNIT, amount)],
        quotas: Vec::new(),
        opens: false,
        ttl_ms: 60_000,
        grace_period_ms: 5_000,
        overage_policy,
    }
}

fn event(amount: u64, overage_policy: Overage) -> Event {
    Event {
        idempotency_key: key(),
        subject: subject(),
        action: Action::default(),
        actuals: vec![Amount::new(UNIT, amount)],
        quotas: Vec::new(),
        opens: false,
        overage_policy,
    }
}

fn reserve(memory: &Memory, amount: u64, overage: Overage) -> Result<String, Code> {
    let request = request(amount, overage);
    memory.with(0, |mut ledger| ledger.reserve(&request)).map(|reserved| reserved.reservation_id).map_err(code)
}

fn commit(memory: &Memory, id: &str, amount: u64) -> Result<(u64, Option<u64>), Code> {
    let committed = memory.with(0, |mut ledger| ledger.commit(id, &key(), &[Amount::new(UNIT, amount)])).map_err(code)?;
    Ok((sum(&committed.charged), committed.released.first().map(|released| released.amount)))
}

fn sum(amounts: &[Amount]) -> u64 {
    amounts.iter().map(|amount| amount.amount).sum()
}

fn code(error: Error) -> Code {
    match error {
        Error::Refused(refusal) => refusal.code,
        Error::Store(error) => panic!("{error}"),
    }
}

/// A ledger with these budgets: allocated and overdraft limit of the tenant, and of the agent where there is one.
fn with(tenant: (u64, u64), agent: Option<(u64, u64)>) -> Memory {
    let memory = Memory::default();
    budget(&memory, TENANT, tenant.0, tenant.1);
    if let Some((allocated, limit)) = agent {
        budget(&memory, AGENT, allocated, limit);
    }
    memory
}

#[test]
fn v1_what_was_not_used_is_given_back() {
    let memory = with((10_000, 0), None);
    let id = reserve(&memory, 5000, Overage::default()).unwrap();
    assert_eq!(commit(&memory, &id, 3000), Ok((3000, Some(2000))));
    let after = balance(&memory, TENANT);
    assert_eq!((after.remaining(), after.spent, after.reserved), (7000, 3000, 0));
}

#[test]
fn v2_an_overage_is_charged_as_far_as_there_is_something() {
    let memory = with((10_000, 0), None);
    let id = reserve(&memory, 1000, Overage::AllowIfAvailable).unwrap();
    assert_eq!(commit(&memory, &id, 50_000), Ok((10_000, None)));
    let after = balance(&memory, TENANT);
    assert_eq!((after.remaining(), after.is_over_limit), (0, true));
    assert_eq!(reserve(&memory, 0, Overage::default()), Err(Code::OverdraftLimitExceeded));
}

#[test]
fn v3_v4_debt_is_made_up_to_its_limit() {
    let memory = with((1000, 500), None);
    let id = reserve(&memory, 800, Overage::AllowWithOverdraft).unwrap();
    assert_eq!(commit(&memory, &id, 1600), Err(Code::OverdraftLimitExceeded));
    let before = balance(&memory, TENANT);
    assert_eq!((before.remaining(), before.reserved), (200, 800));
    assert_eq!(commit(&memory, &id, 1300), Ok((1300, None)));
    let after = balance(&memory, TENANT);
    assert_eq!((after.remaining(), after.spent, after.debt), (-300, 1000, 300));
    assert_eq!(reserve(&memory, 1, Overage::default()), Err(Code::BudgetExceeded));
}

#[test]
fn v5_without_a_limit_there_is_no_debt() {
    let memory = with((1000, 0), None);
    let id = reserve(&memory, 800, Overage::AllowWithOverdraft).unwrap();
    assert_eq!(commit(&memory, &id, 1300), Ok((1000, None)));
    assert!(balance(&memory, TENANT).is_over_limit);
}

#[test]
fn v6_v11_only_the_scope_that_had_too_little_is_over_its_limit() {
    let check = |tenant: u64, agent: u64, estimate: u64, charged: u64| {
        let memory = with((tenant, 0), Some((agent, 0)));
        let id = reserve(&memory, estimate, Overage::AllowIfAvailable).unwrap();
        assert_eq!(commit(&memory, &id, 200), Ok((charged, None)));
        assert_eq!((balance(&memory, TENANT).is_over_limit, balance(&memory, AGENT).is_over_limit), (true, false));
    };
    check(100, 1000, 50, 100);
    check(150, 1000, 100, 150);
}

#[test]
fn v7_what_is_reserved_is_not_there_for_others() {
    let memory = with((100, 0), None);
    let id = reserve(&memory, 100, Overage::default()).unwrap();
    assert_eq!(reserve(&memory, 1, Overage::default()), Err(Code::BudgetExceeded));
    assert_eq!(commit(&memory, &id, 100), Ok((100, None)));
}

#[test]
fn v8_nothing_can_always_be_reserved() {
    let memory = with((0, 0), None);
    assert!(reserve(&memory, 0, Overage::default()).is_ok());
}

#[test]
fn v9_a_scope_without_debt_caps_one_with() {
    let memory = with((1000, 500), Some((100, 0)));
    let id = reserve(&memory, 50, Overage::AllowWithOverdraft).unwrap();
    assert_eq!(commit(&memory, &id, 200), Ok((100, None)));
    assert_eq!((balance(&memory, TENANT).is_over_limit, balance(&memory, AGENT).is_over_limit), (false, true));
}

#[test]
fn v10_a_refused_overage_leaves_the_reservation() {
    let memory = with((1000, 0), None);
    let id = reserve(&memory, 10, Overage::Reject).unwrap();
    assert_eq!(commit(&memory, &id, 11), Err(Code::BudgetExceeded));
    assert_eq!(commit(&memory, &id, 10), Ok((10, None)));
}

#[test]
fn v12_an_event_is_charged_as_far_as_there_is_something() {
    let memory = with((50, 0), Some((950, 0)));
    let event = event(100, Overage::AllowIfAvailable);
    let applied = memory.with(0, |mut ledger| ledger.event(&event)).unwrap();
    assert_eq!(sum(&applied.charged), 50);
    assert_eq!(balance(&memory, AGENT).spent, 50);
}

#[test]
fn all_scopes_or_none() {
    let memory = with((100, 0), Some((1000, 0)));
    assert_eq!(reserve(&memory, 150, Overage::default()), Err(Code::BudgetExceeded));
    assert_eq!((balance(&memory, TENANT).reserved, balance(&memory, AGENT).reserved), (0, 0));
}

#[test]
fn the_same_key_is_one_operation() {
    let memory = with((100, 0), None);
    let asked = request(60, Overage::default());
    let reserve = |asked: &Request| memory.with(0, |mut ledger| ledger.reserve(asked));
    let first = reserve(&asked).unwrap();
    assert_eq!(reserve(&asked).unwrap(), first);
    assert_eq!(balance(&memory, TENANT).reserved, 60);
    let other = Request { estimates: vec![Amount::new(UNIT, 1)], ..asked };
    assert_eq!(reserve(&other).map_err(code), Err(Code::IdempotencyMismatch));
}

#[test]
fn a_budget_in_another_unit_is_named() {
    let memory = with((100, 0), None);
    let asked = Request { estimates: vec![Amount::new(Unit::Tokens, 1)], ..request(1, Overage::default()) };
    assert_eq!(memory.with(0, |mut ledger| ledger.reserve(&asked)).map_err(code), Err(Code::UnitMismatch));
    assert_eq!(memory.with(0, |ledger| ledger.decide(&asked)).map_err(code), Err(Code::UnitMismatch));
    assert_eq!(Memory::default().with(0, |mut ledger| ledger.reserve(&asked)).map_err(code), Err(Code::NotFound));
}

#[test]
fn time_and_grace_end_a_reservation() {
    let settle = |now: u64| {
        let memory = with((100, 0), None);
        let id = reserve(&memory, 60, Overage::default()).unwrap();
        let extended = memory.with(now, |mut ledger| ledger.extend(&id, "x", 1000)).map_err(code);
        let released = memory.with(now, |mut ledger| ledger.release(&id, "y")).map(drop).map_err(code);
        (extended.map(|extended| extended.expires_at_ms), released)
    };
    assert_eq!(settle(60_000), (Ok(61_000), Ok(())));
    assert_eq!(settle(65_000), (Err(Code::ReservationExpired), Ok(())));
    assert_eq!(settle(65_001), (Err(Code::ReservationExpired), Err(Code::ReservationExpired)));
}

#[test]
fn what_is_never_settled_comes_back() {
    let memory = with((100, 0), None);
    let id = reserve(&memory, 60, Overage::default()).unwrap();
    let expire = |now: u64| memory.with(now, |mut ledger| ledger.expire()).unwrap();
    assert_eq!((expire(65_000), expire(65_001), expire(65_002)), (0, 1, 0));
    assert_eq!(balance(&memory, TENANT).reserved, 0);
    assert_eq!(commit(&memory, &id, 1), Err(Code::ReservationExpired));
}

#[test]
fn it_is_extended_ten_times() {
    let memory = with((100, 0), None);
    let id = reserve(&memory, 1, Overage::default()).unwrap();
    let extend = || memory.with(0, |mut ledger| ledger.extend(&id, &key(), 1000)).map(|extended| extended.expires_at_ms).map_err(code);
    for n in 1..=10 {
        assert_eq!(extend(), Ok(60_000 + n * 1000));
    }
    assert_eq!(extend(), Err(Code::MaxExtensionsExceeded));
}

#[test]
fn what_is_settled_stays_settled() {
    let memory = with((100, 0), None);
    let id = reserve(&memory, 10, Overage::default()).unwrap();
    let commit_as = |key: &str| memory.with(0, |mut ledger| ledger.commit(&id, key, &[Amount::new(UNIT, 5)])).map_err(code);
    let first = commit_as("a").unwrap();
    assert_eq!(commit_as("a"), Ok(first));
    assert_eq!(commit_as("b").map(drop), Err(Code::ReservationFinalized));
    assert_eq!(balance(&memory, TENANT).spent, 5);
}

#[test]
fn a_frozen_budget_and_one_that_is_funded() {
    let memory = with((100, 0), None);
    memory.with(0, |mut ledger| ledger.set_status(TENANT, UNIT, Status::Frozen)).unwrap();
    assert_eq!(reserve(&memory, 1, Overage::default()), Err(Code::BudgetFrozen));
    memory.with(0, |mut ledger| ledger.set_status(TENANT, UNIT, Status::Active)).unwrap();
    let id = reserve(&memory, 1, Overage::default()).unwrap();
    commit(&memory, &id, 1000).unwrap();
    assert_eq!(reserve(&memory, 1, Overage::default()), Err(Code::OverdraftLimitExceeded));
    memory.with(0, |mut ledger| ledger.fund(TENANT, Amount::new(UNIT, 10), &key())).unwrap();
    assert!(reserve(&memory, 10, Overage::default()).is_ok());
}

#[test]
fn what_is_put_in_under_one_key_is_put_in_once() {
    let memory = with((100, 0), None);
    let fund = |scope: &str, amount: u64, key: &str| {
        let funded = memory.with(0, |mut ledger| ledger.fund(scope, Amount::new(UNIT, amount), key));
        funded.map(|balance| balance.allocated).map_err(code)
    };
    assert_eq!((fund(TENANT, 10, "a"), fund(TENANT, 10, "a"), fund(TENANT, 10, "b")), (Ok(110), Ok(110), Ok(120)));
    assert_eq!(fund(TENANT, 11, "a"), Err(Code::IdempotencyMismatch));
    assert_eq!(fund(AGENT, 10, "a"), Err(Code::IdempotencyMismatch));
    assert_eq!(fund(TENANT, crate::budget::amount::AMOUNT_MAX, "c"), Err(Code::InvalidRequest));
    assert_eq!(balance(&memory, TENANT).allocated, 120);
}

/// One step of a random life.
#[derive(Debug, Clone)]
enum Step {
    Reserve(u64, Overage),
    Commit(usize, u64),
    Release(usize),
    Event(u64, Overage),
    Expire(u64),
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

proptest! {
    #[test]
    fn nothing_is_lost_or_counted_twice(steps in proptest::collection::vec(step(), 1..80), limits in (0u64..400, 0u64..400)) {
        let memory = with((1000, limits.0), Some((800, limits.1)));
        let (mut now, mut ids, mut charged) = (0, Vec::new(), 0);
        for step in steps {
            match step {
                Step::Reserve(amount, overage) => {
                    let asked = request(amount, overage);
                    ids.extend(memory.with(now, |mut ledger| ledger.reserve(&asked)).map(|reserved| reserved.reservation_id));
                }
                Step::Commit(which, amount) if !ids.is_empty() => {
                    let id = &ids[which % ids.len()];
                    let committed = memory.with(now, |mut ledger| ledger.commit(id, &key(), &[Amount::new(UNIT, amount)]));
                    charged += committed.map_or(0, |committed| sum(&committed.charged));
                }
                Step::Release(which) if !ids.is_empty() => {
                    let id = &ids[which % ids.len()];
                    let _ = memory.with(now, |mut ledger| ledger.release(id, &key()));
                }
                Step::Event(amount, overage_policy) => {
                    let event = event(amount, overage_policy);
                    charged += memory.with(now, |mut ledger| ledger.event(&event)).map_or(0, |applied| sum(&applied.charged));
                }
                Step::Expire(by) => {
                    now += by;
                    memory.with(now, |mut ledger| ledger.expire()).unwrap();
                }
                Step::Commit(..) | Step::Release(_) => {}
            }
            for (scope, limit) in [(TENANT, limits.0), (AGENT, limits.1)] {
                let balance = balance(&memory, scope);
                let active = |id: &String| memory.with(now, |ledger| Ok(ledger.book.reservation(id)?.filter(|r| r.state == State::Active))).unwrap();
                let standing: u64 = ids.iter().filter_map(active).map(|reservation| reservation.holds[0].estimate.amount).sum();
                prop_assert_eq!(balance.reserved, standing, "what is put aside is what stands");
                prop_assert_eq!(balance.spent + balance.debt, charged, "what was charged is spent or owed");
                prop_assert!(balance.debt <= limit);
                prop_assert!(balance.spent + balance.reserved <= balance.allocated, "{:?}", balance);
            }
        }
    }
}
