//! Scopes, keys, time, administration and the books.

use super::opened::{AGENT, Place, TENANT, UNIT, at, code, event, key, request, since_begin, subject, sum};
use crate::budget::{
    Amount, Subject, Unit,
    amount::AMOUNT_MAX,
    ledger::{Action, Caps, Code, Overage, Request, Status, Terms},
};

const DAY_MS: u64 = 24 * 3600 * 1000;

pub(super) async fn all_scopes_or_none(place: Place) {
    let ledger = place.with((100, 0), Some((1000, 0))).await;
    assert_eq!(ledger.reserve(150, Overage::default()).await, Err(Code::BudgetExceeded));
    assert_eq!((ledger.balance(TENANT).await.reserved, ledger.balance(AGENT).await.reserved), (0, 0));
}

pub(super) async fn the_same_key_is_one_operation(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let asked = request(60, Overage::default());
    let first = ledger.store.reserve(&asked).await.unwrap();
    assert_eq!(ledger.store.reserve(&asked).await.unwrap(), first);
    assert_eq!(ledger.balance(TENANT).await.reserved, 60);
    let other = Request { estimates: vec![Amount::new(UNIT, 1)], ..asked.clone() };
    assert_eq!(ledger.ask(&other).await, Err(Code::IdempotencyMismatch));
    // Another tenant's key is another key.
    let elsewhere = Request { subject: Subject { tenant: Some("u".into()), ..Subject::default() }, opens: true, ..asked };
    assert!(ledger.ask(&elsewhere).await.is_ok());
    let event = event(7, Overage::default());
    let charged = ledger.store.event(&event).await.unwrap();
    assert_eq!(ledger.store.event(&event).await.unwrap(), charged);
    assert_eq!(ledger.balance(TENANT).await.spent, 7);
}

pub(super) async fn a_key_is_forgotten_after_a_day(place: Place) {
    let ledger = place.with((100, 0), None).await;
    for (ms, allocated) in [(0, 101), (DAY_MS, 101), (DAY_MS + 1, 102), (DAY_MS + 2, 102)] {
        at(ms);
        ledger.store.fund(TENANT, Amount::new(UNIT, 1), "k").await.unwrap();
        assert_eq!(ledger.balance(TENANT).await.allocated, allocated, "after {ms} ms");
    }
}

pub(super) async fn a_budget_in_another_unit_is_named(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let asked = Request { estimates: vec![Amount::new(Unit::Tokens, 1)], ..request(1, Overage::default()) };
    assert_eq!(ledger.ask(&asked).await, Err(Code::UnitMismatch));
    assert_eq!(ledger.store.decide(&asked).await.map_err(code), Err(Code::UnitMismatch));
    assert_eq!(place.empty().await.ask(&asked).await, Err(Code::NotFound));
    let id = ledger.reserve(1, Overage::default()).await.unwrap();
    let other = ledger.store.commit(&id, &key(), &[Amount::new(Unit::Tokens, 1)]).await.map(drop).map_err(code);
    assert_eq!(other, Err(Code::UnitMismatch));
}

pub(super) async fn a_subject_is_checked(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let named = |tenant: String| Subject { tenant: Some(tenant), ..Subject::default() };
    let wrong =
        [Subject::default(), named(String::new()), named("a/b".into()), named("a:b".into()), named("a\nb".into()), named("x".repeat(129))];
    for subject in wrong {
        let asked = Request { subject: subject.clone(), opens: true, ..request(1, Overage::default()) };
        assert_eq!(ledger.ask(&asked).await, Err(Code::InvalidRequest), "{subject:?}");
        assert_eq!(ledger.store.decide(&asked).await.map_err(code), Err(Code::InvalidRequest), "{subject:?}");
        let applied = crate::budget::ledger::Event { subject, opens: true, ..event(1, Overage::default()) };
        assert_eq!(ledger.store.event(&applied).await.map(drop).map_err(code), Err(Code::InvalidRequest));
    }
    assert_eq!(ledger.store.balances().await.unwrap().len(), 1, "nothing was made for them");
}

pub(super) async fn time_and_grace_end_a_reservation(place: Place) {
    let cases = [
        (60_000, Ok(since_begin(61_000)), Ok(())),
        (65_000, Err(Code::ReservationExpired), Ok(())),
        (65_001, Err(Code::ReservationExpired), Err(Code::ReservationExpired)),
    ];
    for (ms, extended, released) in cases {
        let ledger = place.with((100, 0), None).await;
        let id = ledger.reserve(60, Overage::default()).await.unwrap();
        at(ms);
        assert_eq!(ledger.store.extend(&id, "x", 1000).await.map(|extended| extended.expires_at_ms).map_err(code), extended);
        assert_eq!(ledger.store.release(&id, "y").await.map(drop).map_err(code), released);
    }
}

pub(super) async fn what_is_never_settled_comes_back(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.reserve(60, Overage::default()).await.unwrap();
    let extended = ledger.reserve(40, Overage::default()).await.unwrap();
    ledger.store.extend(&extended, &key(), 1000).await.unwrap();
    for (ms, count, reserved) in [(65_000, 0, 100), (65_001, 1, 40), (65_002, 0, 40), (66_000, 0, 40), (66_001, 1, 0)] {
        at(ms);
        assert_eq!(ledger.store.expire().await.unwrap(), count, "after {ms} ms");
        assert_eq!(ledger.balance(TENANT).await.reserved, reserved, "after {ms} ms");
    }
    assert_eq!(ledger.commit(&id, 1).await, Err(Code::ReservationExpired));
}

pub(super) async fn it_is_extended_ten_times(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.reserve(1, Overage::default()).await.unwrap();
    for n in 1..=10 {
        let extended = ledger.store.extend(&id, &key(), 1000).await.unwrap();
        assert_eq!(extended.expires_at_ms, since_begin(60_000 + n * 1000));
    }
    let once_more = ledger.store.extend(&id, &key(), 1000).await.map(drop).map_err(code);
    assert_eq!(once_more, Err(Code::MaxExtensionsExceeded));
}

pub(super) async fn what_is_settled_stays_settled(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.reserve(10, Overage::default()).await.unwrap();
    let first = ledger.commit_as("a", &id, 5).await.unwrap();
    assert_eq!(ledger.commit_as("a", &id, 5).await, Ok(first));
    assert_eq!(ledger.commit_as("a", &id, 6).await, Err(Code::IdempotencyMismatch));
    assert_eq!(ledger.commit_as("b", &id, 5).await, Err(Code::ReservationFinalized));
    assert_eq!(ledger.store.release(&id, "c").await.map(drop).map_err(code), Err(Code::ReservationFinalized));
    assert_eq!(ledger.balance(TENANT).await.spent, 5);
    // When its time is over, nothing comes back a second time.
    at(65_001);
    assert_eq!(ledger.store.expire().await.unwrap(), 0);
}

pub(super) async fn a_frozen_budget_and_one_that_is_funded(place: Place) {
    let ledger = place.with((100, 0), None).await;
    ledger.store.set_status(TENANT, UNIT, Status::Frozen).await.unwrap();
    assert_eq!(ledger.reserve(1, Overage::default()).await, Err(Code::BudgetFrozen));
    ledger.store.set_status(TENANT, UNIT, Status::Active).await.unwrap();
    let id = ledger.reserve(1, Overage::default()).await.unwrap();
    ledger.commit(&id, 1000).await.unwrap();
    assert_eq!(ledger.reserve(1, Overage::default()).await, Err(Code::OverdraftLimitExceeded));
    ledger.store.fund(TENANT, Amount::new(UNIT, 10), &key()).await.unwrap();
    assert!(ledger.reserve(10, Overage::default()).await.is_ok());
}

pub(super) async fn what_is_put_in_under_one_key_is_put_in_once(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let fund = async |scope: &str, amount: u64, key: &str| {
        let funded = ledger.store.fund(scope, Amount::new(UNIT, amount), key).await;
        funded.map(|balance| balance.allocated).map_err(code)
    };
    for (amount, key, allocated) in [(10, "a", 110), (10, "a", 110), (10, "b", 120), (10, "a", 110)] {
        assert_eq!(fund(TENANT, amount, key).await, Ok(allocated), "{key}");
    }
    assert_eq!(fund(TENANT, 11, "a").await, Err(Code::IdempotencyMismatch));
    assert_eq!(fund(AGENT, 10, "a").await, Err(Code::IdempotencyMismatch));
    assert_eq!(fund(TENANT, AMOUNT_MAX, "c").await, Err(Code::InvalidRequest));
    assert_eq!(ledger.balance(TENANT).await.allocated, 120);
}

pub(super) async fn what_is_closed_stays_closed(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let id = ledger.reserve(10, Overage::default()).await.unwrap();
    ledger.store.set_status(TENANT, UNIT, Status::Closed).await.unwrap();
    assert_eq!(ledger.reserve(1, Overage::default()).await, Err(Code::BudgetClosed));
    let applied = ledger.store.event(&event(1, Overage::default())).await.map(drop).map_err(code);
    assert_eq!(applied, Err(Code::BudgetClosed));
    for status in [Status::Active, Status::Frozen] {
        assert_eq!(ledger.store.set_status(TENANT, UNIT, status).await.map(drop).map_err(code), Err(Code::BudgetClosed));
    }
    ledger.store.set_status(TENANT, UNIT, Status::Closed).await.unwrap();
    // What was begun before is settled all the same.
    assert_eq!(ledger.commit(&id, 5).await, Ok((5, Some(5))));
}

pub(super) async fn what_nobody_knows_is_not_found(place: Place) {
    let ledger = place.empty().await;
    assert_eq!(ledger.commit("rsv_x", 1).await, Err(Code::NotFound));
    assert_eq!(ledger.store.release("rsv_x", &key()).await.map(drop).map_err(code), Err(Code::NotFound));
    assert_eq!(ledger.store.extend("rsv_x", &key(), 1).await.map(drop).map_err(code), Err(Code::NotFound));
    let frozen = ledger.store.set_status(TENANT, UNIT, Status::Frozen).await.map(drop).map_err(code);
    assert_eq!(frozen, Err(Code::NotFound));
    assert_eq!(ledger.reserve(1, Overage::default()).await, Err(Code::NotFound));
}

pub(super) async fn caps_are_those_of_the_deepest_scope(place: Place) {
    let ledger = place.with((100, 0), Some((100, 0))).await;
    let caps = |max_tokens| Caps { max_tokens: Some(max_tokens), ..Caps::default() };
    let cap = async |scope: &str, caps: Caps| {
        let terms = Terms { caps: Some(caps), ..Terms::default() };
        ledger.store.allocate(scope, UNIT, &terms).await.unwrap();
    };
    let told = async || ledger.store.reserve(&request(1, Overage::default())).await.unwrap().caps;
    assert_eq!(told().await, None);
    cap(TENANT, caps(10)).await;
    assert_eq!(told().await, Some(caps(10)));
    cap(AGENT, caps(20)).await;
    assert_eq!(told().await, Some(caps(20)));
    cap(AGENT, Caps::default()).await;
    assert_eq!(told().await, Some(caps(10)), "caps that say nothing are none");
    assert_eq!(ledger.balance(TENANT).await.allocated, 100, "what is not said stays");
}

pub(super) async fn the_books_have_each_cost_once(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let action = Action { kind: "tool.read".into(), name: "files.read".into(), key: "k".into(), ..Action::default() };
    let asked = Request { action: action.clone(), ..request(10, Overage::default()) };
    let id = ledger.ask(&asked).await.unwrap();
    ledger.ask(&asked).await.unwrap();
    let entries = async || ledger.store.entries(0, u64::MAX).await.unwrap();
    assert_eq!(entries().await, [], "nothing was used yet");
    at(5);
    ledger.commit_as("a", &id, 500).await.unwrap();
    ledger.commit_as("a", &id, 500).await.unwrap();
    let released = ledger.reserve(0, Overage::default()).await;
    assert_eq!(released, Err(Code::OverdraftLimitExceeded));
    ledger.store.fund(TENANT, Amount::new(UNIT, 100), &key()).await.unwrap();
    let event = event(3, Overage::default());
    ledger.store.event(&event).await.unwrap();
    ledger.store.event(&event).await.unwrap();
    let id = ledger.reserve(1, Overage::default()).await.unwrap();
    ledger.store.release(&id, &key()).await.unwrap();
    let [first, second] = &entries().await[..] else { panic!("two costs") };
    assert_eq!((first.at_ms, &first.subject, &first.action), (since_begin(5), &subject(), &action));
    assert_eq!((sum(&first.cost), sum(&first.charged)), (500, 100));
    assert_eq!((sum(&second.cost), sum(&second.charged)), (3, 3));
}

pub(super) async fn a_book_is_read_by_time(place: Place) {
    let ledger = place.with((100, 0), None).await;
    // Two lines of the same moment stay two.
    for (ms, cost) in [(1, 10), (1, 11), (2, 12), (4, 13)] {
        at(ms);
        ledger.store.event(&event(cost, Overage::default())).await.unwrap();
    }
    for (since, until, costs) in [(0, 10, &[10, 11, 12, 13][..]), (1, 2, &[10, 11]), (2, 4, &[12]), (3, 4, &[]), (4, 5, &[13]), (5, 4, &[])]
    {
        let entries = ledger.store.entries(since_begin(since), since_begin(until)).await.unwrap();
        assert_eq!(entries.iter().map(|entry| sum(&entry.cost)).collect::<Vec<_>>(), costs, "{since}..{until}");
        for limit in [0, 1, 3] {
            let first = ledger.store.first_entries(since_begin(since), since_begin(until), limit).await.unwrap();
            assert_eq!(first, entries.get(..limit).unwrap_or(&entries), "{since}..{until}, {limit}");
        }
    }
}

pub(super) async fn budgets_are_looked_up_one_by_one(place: Place) {
    let ledger = place.with((100, 0), None).await;
    let terms = Terms { allocated: Some(7), overdraft_limit: None, caps: Some(Caps { max_tokens: Some(10), ..Caps::default() }) };
    ledger.store.allocate("tenant:other", Unit::Tokens, &terms).await.unwrap();
    let asked = [("tenant:other", Unit::Tokens), ("tenant:other", Unit::Credits), (TENANT, UNIT), ("tenant:nobody", UNIT)];
    let found = ledger.store.balances_of(&asked.map(|(scope, unit)| (scope.to_owned(), unit))).await.unwrap();
    let all = ledger.store.balances().await.unwrap();
    let expected =
        asked.map(|(scope, unit)| all.iter().find(|known| (known.0.as_str(), known.1) == (scope, unit)).map(|known| known.2.clone()));
    assert_eq!((&found[..], found.iter().flatten().count()), (&expected[..], 2));
    assert_eq!(ledger.store.balances_of(&[]).await.unwrap(), []);
}
