//! How often a model is asked again, and what becomes of one that never gets it right.

use crate::harness::{Proxy, Reply, Upstream, paris, proxy_before, question};

fn text() -> Reply {
    Reply::text("words")
}

fn unknown() -> Reply {
    Reply::call("wether", "{}")
}

fn bad() -> Reply {
    Reply::call("add", r#"{"a":1}"#)
}

#[tokio::test]
async fn text_to_the_end_is_the_answer() {
    let replies = (1..=9).map(|number| Reply::text(&format!("words {number}")));
    let (proxy, upstream) = proxy_before(replies).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(
        (answer.outcome(), answer.content(), answer.finish_reason()),
        ((200, "exhausted", "4"), "words 4".to_owned(), "stop".to_owned())
    );
    assert_eq!(upstream.calls(), 4);
}

/// Asks a model that always replies `wrong`; `calls` upstream calls later the client gets the typed error.
async fn fails(wrong: Vec<Reply>, calls: usize, fault: &str) {
    let (proxy, upstream) = proxy_before(wrong).await;
    let answer = proxy.ask(&question()).await;
    let error = answer.error();
    assert_eq!((answer.status, error["type"].as_str(), error["code"].as_str()), (502, Some("tool_call_error"), Some("retries_exhausted")));
    assert_eq!(upstream.calls(), calls);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("{calls} attempts")) && message.contains(fault), "{message}");
}

#[tokio::test]
async fn unknown_names_to_the_end_are_an_error() {
    fails(vec![unknown()], 4, "no tool `wether`").await;
}

#[tokio::test]
async fn bad_arguments_to_the_end_are_an_error() {
    fails(vec![bad()], 3, "\"b\" is a required property").await;
}

#[tokio::test]
async fn a_mixture_never_costs_more_calls() {
    fails(vec![text(), bad(), text(), bad(), paris()], 4, "required property").await;
    fails(vec![bad(), bad(), unknown(), unknown(), paris()], 4, "no tool").await;
    fails(vec![unknown(), text(), unknown(), bad(), paris()], 4, "required property").await;
    let (proxy, upstream) = proxy_before([bad(), unknown(), bad(), text(), paris()]).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "exhausted", "4"), "the last reply was text");
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test]
async fn the_error_tells_its_attempts_in_headers_too() {
    let (proxy, _upstream) = proxy_before([bad()]).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (502, "exhausted", "3"));
    let explained = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await.json();
    let faults: Vec<_> = explained["toolgate"]["attempts"].as_array().unwrap().iter().map(|attempt| attempt["fault"].clone()).collect();
    assert_eq!(faults, ["arguments", "arguments", "arguments"]);
}

#[tokio::test]
async fn a_valid_reply_within_the_budget_is_the_answer() {
    let check = async |faults: Vec<Reply>, attempts: &str| {
        let (proxy, _upstream) = proxy_before(faults.into_iter().chain([paris()])).await;
        let answer = proxy.ask(&question()).await;
        assert_eq!(answer.outcome(), (200, "nudged", attempts));
        assert_eq!(answer.calls().len(), 1);
    };
    check(vec![text()], "2").await;
    check(vec![bad(), bad()], "3").await;
    check(vec![text(), unknown(), text()], "4").await;
    check(vec![bad(), text(), bad()], "4").await;
}

async fn with_budgets(retries: u32, tool_errors: u32, reply: Reply) -> (Proxy, Upstream) {
    let upstream = Upstream::saying([reply]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.inference.max_retries = retries;
        config.inference.max_tool_errors = tool_errors;
    })
    .await;
    (proxy, upstream)
}

#[tokio::test]
async fn without_retries_a_model_is_asked_once() {
    let check = async |reply: Reply, status: u16| {
        let (proxy, upstream) = with_budgets(0, 2, reply).await;
        assert_eq!((proxy.ask(&question()).await.status, upstream.calls()), (status, 1));
    };
    check(text(), 200).await;
    check(unknown(), 502).await;
    check(bad(), 502).await;
}

#[tokio::test]
async fn the_budgets_are_counted_apart_and_bounded_together() {
    let check = async |retries: u32, tool_errors: u32, reply: Reply, calls: usize| {
        let (proxy, upstream) = with_budgets(retries, tool_errors, reply).await;
        proxy.ask(&question()).await;
        assert_eq!(upstream.calls(), calls, "{retries} retries, {tool_errors} tool errors");
    };
    check(1, 5, bad(), 2).await;
    check(5, 0, bad(), 1).await;
    check(5, 0, text(), 6).await;
    check(5, 1, bad(), 2).await;
}
