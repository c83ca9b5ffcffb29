//! What a client does about answers that it did not get or does not understand, once the cost is known.

use super::*;

#[tokio::test]
async fn what_is_reserved_is_committed_and_the_rest_comes_back() {
    let bench = Bench::new("whole").await;
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    assert_eq!(lease.caps(), None);
    bench.balanced(0, 5_000).await;
    lease.commit(3_000, Metrics { tokens_input: Some(7), model_version: Some("m".repeat(200)), ..Metrics::default() });
    bench.balanced(3_000, 0).await;
    bench.settled().await;
    let [reserve, commit] = &bench.server.seen()[..] else { panic!() };
    assert_eq!(reserve.path, "/v1/reservations");
    let expected = serde_json::json!({
        "idempotency_key": "k",
        "subject": {"tenant": "acme"},
        "action": {"kind": "tool.read", "name": "web.search"},
        "estimate": {"unit": "USD_MICROCENTS", "amount": 5000},
        "ttl_ms": 60000,
        "grace_period_ms": 5000,
        "overage_policy": "REJECT",
    });
    assert_eq!(reserve.body, expected);
    assert!([reserve, commit].iter().all(|seen| seen.api_key.as_deref() == Some(API_KEY)));
    assert_eq!(commit.key(), "commit:k");
    assert_eq!(commit.body["metrics"], serde_json::json!({"tokens_input": 7, "model_version": "m".repeat(128)}));
}

#[tokio::test]
async fn cr_core_001_a_lost_answer_is_asked_for_again_under_the_same_key() {
    let bench = Bench::new("core-001").await;
    bench.server.fault("commit", [Fault::LoseAnswer, Fault::LoseQuestion, Fault::Silence]);
    commit(bench.client().reserve(&ask("k")).await.unwrap());
    bench.asked("commit", 4).await;
    bench.settled().await;
    assert_eq!(keys(&bench.server, &["commit"]), ["commit:k"; 4]);
    assert_eq!(bench.server.entries().await.len(), 1);
    bench.balanced(3_000, 0).await;
}

#[tokio::test]
async fn cr_core_001_an_answer_that_comes_too_late_changes_nothing() {
    let bench = Bench::new("core-001-late").await;
    bench.server.fault("commit", [Fault::Late(TIMEOUT * 2), Fault::Say(500, error("INTERNAL_ERROR"))]);
    commit(bench.client().reserve(&ask("k")).await.unwrap());
    bench.asked("commit", 3).await;
    bench.settled().await;
    assert_eq!(bench.server.entries().await.len(), 1);
    bench.balanced(3_000, 0).await;
}

#[tokio::test]
async fn cr_core_002_a_commit_to_what_is_over_becomes_an_event() {
    let bench = Bench::new("core-002").await;
    bench.server.fault("commit", [Fault::Say(410, error("RESERVATION_EXPIRED"))]);
    bench.server.fault("events", [Fault::LoseAnswer]);
    commit(bench.client().reserve(&ask("k")).await.unwrap());
    bench.asked("events", 2).await;
    bench.settled().await;
    assert_eq!(bench.server.operations(), ["reservations", "commit", "events", "events"]);
    assert_eq!(keys(&bench.server, &["commit", "events"]), ["commit:k"; 3]);
    let expected = serde_json::json!({
        "idempotency_key": "commit:k",
        "subject": {"tenant": "acme"},
        "action": {"kind": "tool.read", "name": "web.search"},
        "actual": {"unit": "USD_MICROCENTS", "amount": 3000},
        "overage_policy": "ALLOW_IF_AVAILABLE",
        "metrics": {"latency_ms": 12},
    });
    assert_eq!(bench.server.asked("events")[0].body, expected);
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn cr_core_003_an_extension_that_fails_is_told_and_ends_nothing() {
    let bench = Bench::new("core-003").await;
    let (log, _guard) = log();
    // Two tries of a second and a second's rest: the first extension is due in 200 ms.
    bench.server.shorten(3_200);
    bench.server.fault("extend", [Fault::LoseQuestion]);
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    let reservation = format!("{lease:?}").split("reservation: \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    bench.asked("extend", 2).await;
    assert_eq!(keys(&bench.server, &["extend"])[..2], ["extend:1:k", "extend:1:k"]);
    assert_eq!(bench.server.asked("extend")[0].body["extend_by_ms"], 60_000);
    commit(lease);
    bench.settled().await;
    bench.balanced(3_000, 0).await;
    let text = log.text();
    assert!(text.contains("was not extended; it is tried again") && text.contains(&reservation), "{text}");
}

#[tokio::test]
async fn cr_core_004_a_success_of_another_form_is_none() {
    let bench = Bench::new("core-004").await;
    let wrong = [(200, "{}"), (202, ""), (200, r#"{"status":"COMMITTED"}"#), (201, "<html>")];
    bench.server.fault("commit", wrong.map(|(status, body)| Fault::Garble(status, body.to_owned())));
    commit(bench.client().reserve(&ask("k")).await.unwrap());
    bench.asked("commit", 5).await;
    bench.settled().await;
    assert_eq!(keys(&bench.server, &["commit"]), ["commit:k"; 5]);
    assert_eq!(bench.server.operations().len(), 6);
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn cr_boundary_001_without_a_cost_nothing_is_settled() {
    let bench = Bench::new("boundary-001").await;
    let (log, _guard) = log();
    drop(bench.client().reserve(&ask("k")).await.unwrap());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.server.operations(), ["reservations"]);
    assert!(bench.journal().is_empty());
    assert!(log.text().contains("left unsettled"), "{}", log.text());
}

#[tokio::test]
async fn a_cost_that_is_refused_in_words_is_given_up_and_released_by_nobody() {
    for code in ["BUDGET_EXCEEDED", "UNIT_MISMATCH", "RESERVATION_FINALIZED", "IDEMPOTENCY_MISMATCH"] {
        let bench = Bench::new(&format!("refused-{code}")).await;
        bench.server.fault("commit", [Fault::Say(409, error(code))]);
        commit(bench.client().reserve(&ask("k")).await.unwrap());
        bench.asked("commit", 1).await;
        bench.settled().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(bench.server.operations(), ["reservations", "commit"], "{code}");
    }
}

#[tokio::test]
async fn what_is_not_understood_or_not_accepted_is_kept_and_released_by_nobody() {
    for (status, body) in [(401, error("UNAUTHORIZED")), (403, String::new()), (409, error("SOMETHING_NEW")), (404, String::new())] {
        let bench = Bench::new(&format!("kept-{status}")).await;
        bench.server.fault("commit", vec![Fault::Say(status, body); 5]);
        commit(bench.client().reserve(&ask("k")).await.unwrap());
        // The sixth is the sweep's, or, without a key that is accepted, every one but the first.
        bench.asked("commit", 6).await;
        bench.settled().await;
        assert!(!bench.server.operations().iter().any(|operation| operation == "release"), "{status}");
        assert_eq!(bench.server.entries().await.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn what_was_not_begun_is_given_back_under_one_key() {
    let bench = Bench::new("release").await;
    bench.server.fault("release", [Fault::LoseAnswer, Fault::Say(500, error("INTERNAL_ERROR"))]);
    bench.client().reserve(&ask("k")).await.unwrap().release();
    bench.asked("release", 3).await;
    assert_eq!(keys(&bench.server, &["release"]), ["release:k"; 3]);
    bench.balanced(0, 0).await;
    assert!(bench.journal().is_empty());
}
