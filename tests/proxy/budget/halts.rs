//! Answers that end because nothing is left: what there is of them, and nothing after it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{budget, dialects, file, post, settled};
use crate::{
    harness::{Answer, Proxy, Reply, Upstream, chat, events},
    mcp::bench::{Bench, done, lookup, reading, streamed, tools},
};

/// The answer is what there was, and says why there is no more.
fn is_cut(answer: &Answer, halt: &str) -> Value {
    assert_eq!((answer.finish_reason().as_str(), answer.header("x-toolgate-halt")), ("length", halt), "{}", answer.text());
    let told = answer.json()["toolgate"].clone();
    assert_eq!(told["halt_reason"], halt, "without being asked for it");
    told
}

#[tokio::test]
async fn a_reply_is_no_longer_than_the_ceiling_pays_for() {
    let reply = Reply::text("So far").finishing("length");
    let upstream = Upstream::saying([reply]).await;
    let proxy = Proxy::start_before(&upstream, &file("request_ceiling_usd = 0.0005", "")).await;
    for (path, body) in dialects() {
        let answer = post(&proxy, path, &body).await;
        assert_eq!((answer.status, answer.header("x-toolgate-halt")), (200, "cost_ceiling"), "{path}: {}", answer.text());
        let sent = upstream.requests().last().unwrap().json();
        assert!((30..50).contains(&sent["max_tokens"].as_u64().unwrap()), "{sent}");
        let told = answer.json();
        let end = match path {
            "/v1/chat/completions" => &told["choices"][0]["finish_reason"],
            "/v1/messages" => &told["stop_reason"],
            "/v1/responses" => &told["incomplete_details"]["reason"],
            _ => &told["halt_reason"],
        };
        let expected = ["length", "max_tokens", "max_output_tokens", "cost_ceiling"];
        assert!(expected.contains(&end.as_str().unwrap_or_default()), "{path}: {told}");
        assert_eq!(told["toolgate"]["halt_reason"], "cost_ceiling", "{path}: {told}");
        assert!(answer.text().contains("So far"), "{path}: {told}");
    }
    let streamed = proxy.ask(&streamed(chat())).await;
    let told = events(&streamed.body).into_iter().find(|chunk| !chunk["toolgate"].is_null()).expect("the stream tells it too");
    assert_eq!((&told["toolgate"]["halt_reason"], &told["choices"][0]["finish_reason"]), (&json!("cost_ceiling"), &json!("length")));
}

#[tokio::test]
async fn a_reply_that_ends_on_its_own_was_not_halted() {
    let upstream = Upstream::saying([Reply::text("All.")]).await;
    let proxy = Proxy::start_before(&upstream, &file("request_ceiling_usd = 0.0005", "")).await;
    let answer = proxy.ask(&chat()).await;
    assert_eq!((answer.finish_reason().as_str(), answer.header("x-toolgate-halt")), ("stop", ""));
    assert!(answer.json()["toolgate"].is_null());
}

#[tokio::test]
async fn a_run_ends_where_the_next_call_may_cost_too_much() {
    // The first reply leaves too little for a second one.
    let replies = [lookup().saying("Let me look.").costing([900, 80, 0]), done()];
    let bench = Bench::with(replies, tools(), budget("request_ceiling_usd = 0.0022", "")).await;
    let answer = bench.proxy.ask(&chat()).await;
    let told = is_cut(&answer, "cost_ceiling");
    assert_eq!((answer.content().as_str(), bench.upstream.calls(), bench.calls()), ("Let me look.", 1, 1));
    assert_eq!(told["cost_usd"], 0.0022, "{told}");
    assert_eq!(settled(&bench.proxy).await.len(), 2);
}

#[tokio::test]
async fn a_run_ends_where_its_tokens_do() {
    let replies = [lookup().costing([900, 80, 0]), done()];
    let bench = Bench::with(replies, tools(), budget("request_ceiling_tokens = 1000", "")).await;
    is_cut(&bench.proxy.ask(&chat()).await, "token_ceiling");
    assert_eq!((bench.upstream.calls(), bench.calls()), (1, 1));
}

#[tokio::test]
async fn a_run_ends_where_its_calls_do_and_the_model_is_told_of_the_one_before() {
    let replies = [lookup(), Reply::call("lookup", r#"{"q":"b"}"#), done()];
    let bench = Bench::with(replies, tools(), budget("request_max_calls = 3", "")).await;
    let told = is_cut(&bench.proxy.ask(&chat()).await, "call_quota");
    assert_eq!((bench.upstream.calls(), bench.calls()), (2, 1));
    let refused = &told["calls"][1];
    assert_eq!((&refused["executed"], &refused["cost_usd"]), (&json!(false), &Value::Null), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("was not called: One request may make 3 calls"), "{refused}");
}

#[tokio::test]
async fn a_call_that_a_ceiling_cut_off_is_not_run() {
    for arguments in [r#"{"q":"#, r#"{"q":"a"}"#] {
        let reply = Reply::call("lookup", arguments).saying("Let me look.").finishing("length");
        let bench = Bench::with([reply, done()], tools(), budget("request_ceiling_usd = 0.0005", "")).await;
        let answer = bench.proxy.ask(&chat()).await;
        is_cut(&answer, "cost_ceiling");
        assert_eq!((answer.content().as_str(), bench.upstream.calls(), bench.calls()), ("Let me look.", 1, 0));
        assert!(answer.message()["tool_calls"].is_null(), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_reply_is_cut_where_the_time_of_the_request_is_over() {
    let slow = || Reply::text(&"word ".repeat(200)).in_tokens_of(5).dripping(Duration::from_millis(50));
    let upstream = Upstream::saying([slow()]).await;
    let proxy = Proxy::start_before(&upstream, &file("request_deadline = \"500ms\"", "")).await;
    let begun = Instant::now();
    let answer = proxy.ask(&chat()).await;
    assert!((500..3000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    is_cut(&answer, "deadline");
    assert!(answer.content().starts_with("word word"));
    upstream.cancelled().await;
    let chunks = events(&proxy.ask(&streamed(chat())).await.body);
    let last = chunks.iter().find(|chunk| !chunk["toolgate"].is_null()).unwrap();
    assert_eq!(last["toolgate"]["halt_reason"], "deadline");
    let entries = settled(&proxy).await;
    assert!(entries.len() == 2 && entries.iter().all(|entry| super::money(entry) > 1000), "what was heard is charged: {entries:?}");
}

#[tokio::test]
async fn a_call_gets_the_time_that_is_left_and_the_model_is_not_asked_again() {
    let slow = json!([reading("lookup", json!({"delay": 30}))]);
    let bench = Bench::with([lookup().saying("Let me look."), done()], slow, budget("request_deadline = \"1s\"", "")).await;
    let begun = Instant::now();
    let answer = bench.proxy.ask(&chat()).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    is_cut(&answer, "deadline");
    assert_eq!((answer.content().as_str(), bench.upstream.calls()), ("Let me look.", 1));
    assert_eq!(settled(&bench.proxy).await.len(), 2);
}
