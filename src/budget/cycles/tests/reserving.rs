//! How it is asked whether a call may be made.

use super::{server::caps, *};
use crate::budget::{
    Amount, Gate, Policy,
    ledger::{self, Code},
};

fn refused<T>(outcome: Result<T, ledger::Error>) -> Code {
    match outcome {
        Err(ledger::Error::Refused(refusal)) => refusal.code,
        Err(ledger::Error::Store(error)) => panic!("{error}"),
        Ok(_) => panic!("allowed"),
    }
}

fn unusable<T>(outcome: Result<T, ledger::Error>) -> String {
    match outcome {
        Err(ledger::Error::Store(error)) => error.to_string(),
        Err(ledger::Error::Refused(refusal)) => panic!("{refusal}"),
        Ok(_) => panic!("allowed"),
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_again_under_the_same_key() {
    let bench = Bench::new("lost").await;
    bench.server.fault("reservations", [Fault::LoseAnswer, Fault::LoseQuestion]);
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    assert_eq!(keys(&bench.server, &["reservations"]), ["k"; 3]);
    bench.balanced(0, 5_000).await;
    commit(lease);
    bench.settled().await;
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn what_stays_unclear_is_no_yes_and_is_given_back() {
    let bench = Bench::new("unclear").await;
    bench.server.fault("reservations", [Fault::LoseAnswer, Fault::Silence, Fault::Silence, Fault::LoseAnswer]);
    let said = unusable(bench.client().reserve(&ask("k")).await);
    assert!(said.contains("the Cycles server"), "{said}");
    bench.asked("release", 1).await;
    bench.balanced(0, 0).await;
    assert_eq!(keys(&bench.server, &["release"]), ["release:k"]);
    assert!(bench.journal().is_empty());
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_any_more_is_taken_back() {
    let bench = Bench::new("dropped").await;
    bench.server.fault("reservations", [Fault::Late(Duration::from_millis(200))]);
    let client = bench.client();
    let call = ask("k");
    let outcome = tokio::time::timeout(Duration::from_millis(100), client.reserve(&call)).await;
    assert!(outcome.is_err());
    bench.balanced(0, 5_000).await;
    bench.asked("release", 1).await;
    bench.balanced(0, 0).await;
}

#[tokio::test]
async fn who_asks_again_keeps_what_would_be_taken_back() {
    let bench = Bench::new("taken-over").await;
    bench.server.fault("reservations", vec![Fault::LoseAnswer; 3]);
    let client = bench.client();
    unusable(client.reserve(&ask("k")).await);
    let lease = client.reserve(&ask("k")).await.unwrap();
    tokio::time::sleep(RETRIES.slow).await;
    assert!(bench.server.asked("release").is_empty());
    commit(lease);
    bench.settled().await;
    bench.balanced(3_000, 0).await;
}

#[tokio::test]
async fn a_no_is_a_no_at_once() {
    for (status, code, expected) in [
        (409, "BUDGET_EXCEEDED", Code::BudgetExceeded),
        (409, "OVERDRAFT_LIMIT_EXCEEDED", Code::OverdraftLimitExceeded),
        (404, "NOT_FOUND", Code::NotFound),
        (400, "UNIT_MISMATCH", Code::UnitMismatch),
        (403, "FORBIDDEN", Code::InvalidRequest),
        (409, "SOMETHING_NEW", Code::BudgetExceeded),
    ] {
        let bench = Bench::new(&format!("no-{code}")).await;
        bench.server.fault("reservations", [Fault::Say(status, error(code))]);
        assert_eq!(refused(bench.client().reserve(&ask("k")).await), expected, "{code}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(bench.server.operations(), ["reservations"], "{code}");
    }
}

#[tokio::test]
async fn a_refusal_repeats_nothing_of_the_servers_but_its_code() {
    let bench = Bench::new("words").await;
    bench.server.fault("reservations", [Fault::Say(409, error("BUDGET_EXCEEDED")), Fault::Say(409, error("<b> of <i>"))]);
    let client = bench.client();
    for expected in ["The budget server does not allow it (BUDGET_EXCEEDED).", "The budget server does not allow it."] {
        let Err(ledger::Error::Refused(refused)) = client.reserve(&ask("k")).await else { panic!() };
        // The unit is the one that was asked for.
        assert_eq!((refused.to_string().as_str(), refused.unit), (expected, Some(Unit::UsdMicrocents)));
    }
}

#[tokio::test]
async fn a_real_budget_refuses_what_is_not_there() {
    let bench = Bench::new("real").await;
    let client = bench.client();
    let first = client.reserve(&ask("a")).await.unwrap();
    let second = client.reserve(&ask("b")).await.unwrap();
    assert_eq!(refused(client.reserve(&ask("c")).await), Code::BudgetExceeded);
    assert_eq!(refused(client.decide(&ask("d")).await), Code::BudgetExceeded);
    first.release();
    bench.balanced(0, 5_000).await;
    assert_eq!(client.decide(&ask("e")).await.unwrap(), None);
    bench.balanced(0, 5_000).await;
    commit(second);
    bench.settled().await;
}

#[tokio::test]
async fn caps_are_handed_on_and_a_decision_that_is_not_known_is_a_no() {
    let bench = Bench::new("caps").await;
    bench.server.cap(serde_json::json!({"max_tokens": 100, "tool_allowlist": null}));
    let client = bench.client();
    let lease = client.reserve(&ask("k")).await.unwrap();
    assert_eq!(lease.caps(), Some(&caps(100)));
    assert_eq!(client.decide(&ask("d")).await.unwrap(), Some(caps(100)));
    lease.release();
    let denied = |reason: &str| Fault::Say(200, format!(r#"{{"decision":"DENY","reason_code":"{reason}","affected_scopes":[]}}"#));
    bench.server.fault("decide", [denied("BUDGET_FROZEN"), denied("OF_LATER"), Fault::Say(200, r#"{"decision":"MAYBE"}"#.to_owned())]);
    for expected in [Code::BudgetFrozen, Code::BudgetExceeded, Code::BudgetExceeded] {
        assert_eq!(refused(client.decide(&ask("d")).await), expected);
    }
}

#[tokio::test]
async fn caps_that_are_not_told_are_no_yes() {
    let bench = Bench::new("no-caps").await;
    bench.server.cap(serde_json::Value::Null);
    unusable(bench.client().reserve(&ask("k")).await);
    bench.asked("release", 1).await;
    bench.balanced(0, 0).await;
}

#[tokio::test]
async fn a_reservation_that_is_settled_is_not_used_again() {
    let bench = Bench::new("settled").await;
    let client = bench.client();
    commit(client.reserve(&ask("k")).await.unwrap());
    bench.balanced(3_000, 0).await;
    assert_eq!(refused(client.reserve(&ask("k")).await), Code::ReservationFinalized);
    bench.balanced(3_000, 0).await;
}

#[tokio::test]
async fn a_server_that_is_busy_is_waited_for_as_long_as_there_is_time() {
    let bench = Bench::new("busy").await;
    let config = Config { timeout: Duration::from_secs(1), ..bench.config() };
    bench
        .server
        .fault("reservations", [Fault::SayLater(429, error("LIMIT_EXCEEDED"), 1), Fault::SayLater(429, error("LIMIT_EXCEEDED"), 60)]);
    let client = bench.client_of(config);
    let said = unusable(client.reserve(&ask("k")).await);
    assert!(said.contains("status 429"), "{said}");
    let seen = bench.server.asked("reservations");
    assert!(seen.len() == 2 && seen[1].at - seen[0].at >= Duration::from_millis(990));
    // Nothing was done that would have to be taken back.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(bench.server.operations().len(), 2);
    client.reserve(&ask("k")).await.unwrap().release();
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_opened_costs_no_time() {
    let bench = Bench::new("gone").await;
    bench.server.lock("another");
    let begun = std::time::Instant::now();
    let said = unusable(bench.client().reserve(&ask("k")).await);
    assert!(said.contains("does not accept the API key") && !said.contains(API_KEY), "{said}");
    assert_eq!(bench.server.operations(), ["reservations"]);
    let gone = Config { url: "http://127.0.0.1:1".parse().unwrap(), ..bench.config() };
    let said = unusable(bench.client_of(gone).reserve(&ask("k")).await);
    assert!(said.contains("cannot be reached"), "{said}");
    assert!(begun.elapsed() < TIMEOUT * 2 + Duration::from_millis(200), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_rehearsal_asks_the_server_too() {
    let bench = Bench::new("rehearsal").await;
    bench.server.cap(serde_json::json!({"tool_denylist": ["web.search"]}));
    let asked = ask("r");
    let request = ledger::Request {
        idempotency_key: asked.idempotency_key,
        subject: asked.subject,
        action: asked.action,
        estimates: vec![Amount::new(Unit::UsdMicrocents, asked.estimate)],
        quotas: Vec::new(),
        opens: true,
        ttl_ms: 60_000,
        grace_period_ms: 0,
        overage_policy: Overage::default(),
    };
    let gate = Gate::new(Policy::default(), None, Tasks::default()).with_cycles(bench.client());
    let caps = gate.decide(&request).await.unwrap();
    assert!(matches!(&caps[..], [caps] if !caps.allows("web.search") && caps.allows("fs.read")), "{caps:?}");
    bench.server.fault("decide", [Fault::Say(409, error("BUDGET_EXCEEDED"))]);
    assert_eq!(refused(gate.decide(&request).await), Code::BudgetExceeded);
    assert!(bench.server.asked("reservations").is_empty());
}
