//! What a client is told of a run that asks for it, and what of one that fails.

use serde_json::json;
use toolgate::config::Config;

use super::bench::{Bench, done, explained, lookup, streamed, tools};
use crate::harness::{Reply, chat, events, question, text_so_far};

#[tokio::test]
async fn every_call_and_every_attempt_is_told() {
    let replies = [lookup(), Reply::call("nobodys", "{}"), Reply::call("change", r#"{"q":"b"}"#), done()];
    for stream in [false, true] {
        let bench = Bench::new(replies.clone(), tools()).await;
        let report = if stream {
            let chunks = events(&explained(&bench, &streamed(chat())).await.body);
            chunks.iter().find(|chunk| !chunk["toolgate"].is_null()).unwrap()["toolgate"].clone()
        } else {
            explained(&bench, &chat()).await.json()["toolgate"].clone()
        };
        let calls = report["calls"].as_array().unwrap();
        let told: Vec<_> = calls.iter().map(|call| (call["step"].clone(), call["tool"].clone(), call["selection_rule"].clone())).collect();
        let rule = json!("single-candidate");
        assert_eq!(told, [(json!(1), json!("lookup"), rule.clone()), (json!(2), json!("change"), rule)], "{report}");
        assert!(calls.iter().all(|call| call["latency_ms"].is_u64() && call["success"] == true), "{report}");
        assert!(calls.iter().all(|call| call["arguments"].is_null()), "arguments are told in plans only: {report}");
        // The unknown tool was corrected within its turn.
        assert_eq!((report["attempts"].as_array().unwrap().len(), &report["guardrail"]), (4, &json!("nudged")), "{report}");
    }
}

#[tokio::test]
async fn nothing_is_told_unasked() {
    let bench = Bench::new([lookup(), done()], tools()).await;
    let answer = bench.proxy.ask(&chat()).await;
    assert!(answer.json()["toolgate"].is_null());
    assert_eq!(answer.outcome(), (200, "clean", "2"));
}

#[tokio::test]
async fn a_backend_that_fails_later_fails_with_its_status_and_the_whole_run() {
    for request in [chat(), streamed(chat())] {
        let bench = Bench::new([lookup(), Reply::error(429, "later")], tools()).await;
        let answer = explained(&bench, &request).await;
        assert_eq!((answer.status, bench.calls()), (429, 1), "{}", answer.text());
        let report = &answer.json()["toolgate"];
        assert_eq!((&report["calls"][0]["tool"], report["attempts"].as_array().unwrap().len()), (&json!("lookup"), 1), "{report}");
    }
}

#[tokio::test]
async fn a_backend_that_fails_behind_a_text_ends_the_stream_with_an_error() {
    // The text is shown where text may be an answer.
    let accept = |config: &mut Config| config.inference.on_text = toolgate::inference::OnText::Accept;
    let bench = Bench::with([lookup().saying("Looking."), Reply::error(500, "broken")], tools(), accept).await;
    let answer = explained(&bench, &streamed(chat())).await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(text_so_far(text) == "Looking." && text.contains("\"error\"") && !text.contains("[DONE]"), "{text}");
    assert!(text.contains("\"tool\":\"lookup\""), "{text}");
}

#[tokio::test]
async fn a_model_that_never_calls_rightly_later_fails_with_the_whole_run() {
    let few = |config: &mut Config| config.inference.max_retries = 1;
    let bench = Bench::with([lookup(), Reply::call("nobodys", "{}")], tools(), few).await;
    let answer = explained(&bench, &question()).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (502, Some("retries_exhausted")));
    let report = &answer.json()["toolgate"];
    assert_eq!((report["calls"].as_array().unwrap().len(), report["attempts"].as_array().unwrap().len()), (1, 3), "{report}");
    assert_eq!(answer.outcome(), (502, "exhausted", "3"));
}
