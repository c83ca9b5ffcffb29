//! Clients that leave in the middle of a run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::bench::{Bench, changing, done, eventually, lookup, reading, streamed};
use crate::harness::{Client, Reply, chat};

/// How soon others learn that nobody listens any more.
const CANCELLED_WITHIN: Duration = Duration::from_millis(50);

/// Asks, and leaves once `is_time`.
async fn leave(bench: &Bench, request: &Value, is_time: impl FnMut() -> bool) -> Instant {
    let mut asking = JoinSet::new();
    let (client, body) = (Client::new(bench.proxy.address), request.to_string());
    asking.spawn(async move {
        let answer = client.open("POST", "/v1/chat/completions", &[], body).await;
        std::future::pending::<()>().await;
        drop(answer);
    });
    eventually("the run does not get there", is_time).await;
    let left = Instant::now();
    asking.shutdown().await;
    left
}

#[tokio::test]
async fn a_call_that_changes_nothing_is_cancelled() {
    for request in [chat(), streamed(chat())] {
        let slow = json!([reading("lookup", json!({"delay": 1.5}))]);
        let bench = Bench::with([lookup(), lookup(), done()], slow, |config| config.tools.servers[0].concurrent_max = 1).await;
        leave(&bench, &request, || bench.calls() == 1).await;
        eventually("the server is not told", || bench.count("cancelled ") == 1).await;
        // Its place is free: the next one gets its result.
        assert_eq!(bench.proxy.ask(&chat()).await.content(), "Done.");
        assert_eq!((bench.calls(), bench.upstream.calls()), (2, 3), "the run that was left asks nobody");
    }
}

#[tokio::test]
async fn a_call_that_changes_something_is_finished() {
    let slow = json!([changing("change", json!({"delay": 0.5}))]);
    let change = || Reply::call("change", r#"{"q":"a"}"#);
    let bench = Bench::with([change(), change(), done()], slow, |config| config.tools.servers[0].concurrent_max = 1).await;
    leave(&bench, &chat(), || bench.calls() == 1).await;
    assert_eq!(bench.proxy.ask(&chat()).await.content(), "Done.");
    assert_eq!((bench.calls(), bench.count("cancelled ")), (2, 0));
    assert_eq!(bench.count("calls 2"), 0, "the second waited for the first to be finished");
}

#[tokio::test]
async fn a_model_that_speaks_is_stopped() {
    for turn in [1, 2] {
        let slow = done().after(Duration::from_secs(60));
        let replies = if turn == 1 { vec![slow] } else { vec![lookup(), slow] };
        let bench = Bench::new(replies, json!([reading("lookup", json!({}))])).await;
        for request in [chat(), streamed(chat())] {
            if bench.upstream.calls() > turn {
                continue;
            }
            let left = leave(&bench, &request, || bench.upstream.calls() == turn).await;
            let cancelled = bench.upstream.cancelled().await;
            assert!(cancelled - left < CANCELLED_WITHIN, "{:?} in turn {turn}", cancelled - left);
        }
        bench.upstream.deserted().await;
    }
}

#[tokio::test]
async fn runs_that_were_left_leave_nothing_behind() {
    let slow = json!([reading("lookup", json!({"delay": 0.3}))]);
    let bench = Bench::with([lookup()], slow, |config| {
        config.server.connections_max = 2;
        config.tools.servers[0].concurrent_max = 2;
    })
    .await;
    for round in 1..=6 {
        leave(&bench, &chat(), || bench.calls() >= round).await;
    }
    eventually("a call is still under way", || bench.count("cancelled ") == 6).await;
    assert_eq!(bench.upstream.calls(), 6, "nobody goes on");
}
