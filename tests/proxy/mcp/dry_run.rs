//! Rehearsals: everything is decided and nothing is done.

use serde_json::{Value, json};

use super::{
    acting::{self, Acting},
    bench::{self, Bench, done, follow, streamed, tools},
};
use crate::{
    harness::{Proxy, Reply, Upstream, chat, events, fold_message, frames, mcp, question},
    responses,
};

fn change() -> Reply {
    Reply::call("change", r#"{"q":"a"}"#)
}

/// The plan says which tool of which server would be called with what, and nothing was asked of the server.
fn is_plan(plan: &Value, bench: &Bench) {
    let call = &plan["calls"][0];
    assert_eq!((&call["server"], &call["tool"], &call["arguments"]), (&json!("fs"), &json!("change"), &json!({"q": "a"})), "{plan}");
    assert_eq!((&call["dry_run"], &call["executed"], &call["success"]), (&json!(true), &json!(false), &json!(true)), "{plan}");
    assert_eq!(bench.calls(), 0);
    for request in bench.upstream.requests() {
        assert!(request.json()["dry_run"].is_null(), "it is no field of the backend's");
    }
}

#[tokio::test]
async fn a_chat_completion_has_its_plan() {
    let bench = Bench::new([change(), done()], tools()).await;
    let mut request = chat();
    request["dry_run"] = json!(true);
    let answer = bench.proxy.ask(&request).await;
    assert_eq!(answer.content(), "Done.");
    is_plan(&answer.json()["toolgate"], &bench);

    let bench = Bench::new([change(), done()], tools()).await;
    let chunks = events(&bench.proxy.ask(&streamed(request)).await.body);
    let plan = chunks.iter().find(|chunk| !chunk["toolgate"].is_null()).unwrap();
    assert_eq!(plan["choices"][0]["finish_reason"], "stop");
    is_plan(&plan["toolgate"], &bench);
}

#[tokio::test]
async fn the_header_is_as_good_as_the_field() {
    let bench = Bench::new([change(), done()], tools()).await;
    let answer = bench.proxy.ask_with(&chat(), &[("x-toolgate-dry-run", "1")]).await;
    is_plan(&answer.json()["toolgate"], &bench);
}

#[tokio::test]
async fn a_plan_says_who_would_be_asked() {
    let bench = Bench::with([change(), done()], tools(), bench::asking).await;
    let plan = bench.proxy.ask_with(&chat(), &[("x-toolgate-dry-run", "1")]).await.json();
    is_plan(&plan["toolgate"], &bench);
    assert_eq!(plan["toolgate"]["calls"][0]["note"], "the client would be asked first");
}

#[tokio::test]
async fn a_plan_says_which_server_is_not_there() {
    let act = || Reply::call("act", "{}");
    let upstream = Upstream::saying([act(), done(), act(), done()]).await;
    let server = Acting::new("a", json!([acting::acting("act", json!(["garble"]))]));
    let with_servers = mcp::with_servers([server.server.clone()]);
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers(config);
        config.tools.breaker.failures_max = 1;
    })
    .await;
    acting::explained(&proxy, &acting::asking("Act."), &[]).await;
    let calls = acting::explained(&proxy, &acting::asking("Act again."), &[("x-toolgate-dry-run", "1")]).await;
    assert_eq!((&calls[0]["success"], &calls[0]["executed"]), (&json!(false), &json!(false)), "{calls:?}");
    assert!(calls[0]["error"].as_str().unwrap().contains("a is not available: "), "{calls:?}");
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn a_message_has_its_plan() {
    let request = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], "dry_run": true});
    let bench = Bench::new([change(), done()], tools()).await;
    is_plan(&bench.proxy.message(&request).await.json()["toolgate"], &bench);

    let bench = Bench::new([change(), done()], tools()).await;
    let mut request = request;
    request["stream"] = json!(true);
    let frames = frames(&bench.proxy.message(&request).await.body);
    assert_eq!(fold_message(&frames)["content"][0]["text"], "Done.");
    let end = frames.iter().find(|frame| frame["type"] == "message_delta").unwrap();
    is_plan(&end["toolgate"], &bench);
}

#[tokio::test]
async fn a_response_has_its_plan() {
    for stream in [false, true] {
        let bench = Bench::new([change(), done()], tools()).await;
        let request = json!({"model": "m", "input": "Hello", "dry_run": true, "stream": stream});
        is_plan(&responses::respond(&bench.proxy, &request).await["toolgate"], &bench);
    }
}

#[tokio::test]
async fn a_rehearsal_needs_no_tools() {
    let bench = Bench::new([Reply::text("Hello.")], tools()).await;
    let mut request = chat();
    request["dry_run"] = json!(true);
    let answer = bench.proxy.ask_with(&request, &[("x-toolgate-mcp", "off")]).await.json();
    assert_eq!((&answer["choices"][0]["message"]["content"], answer["toolgate"].is_object()), (&json!("Hello."), true));
    assert!(bench.upstream.only_request().json()["dry_run"].is_null());
    request["n"] = json!(2);
    assert_eq!(bench.proxy.ask(&request).await.error()["param"], "n");
}

#[tokio::test]
async fn a_rehearsal_leaves_nothing_behind() {
    let both = || Reply::calls(&[("change", r#"{"q":"a"}"#), ("get_weather", r#"{"city":"Paris"}"#)]);
    let bench = Bench::new([both(), done()], tools()).await;
    let mut request = question();
    request["dry_run"] = json!(true);
    let message = bench.proxy.ask(&request).await.message();
    assert_eq!(message["tool_calls"][0]["id"], "call_2", "nothing is kept that an id could name");
    let answer = bench.proxy.ask(&follow(&question(), &message, &["sunny"])).await;
    assert_eq!((answer.content().as_str(), answer.header("x-toolgate-continuation")), ("Done.", ""));
}

#[tokio::test]
async fn a_rehearsal_reads_what_is_kept() {
    let both = || Reply::calls(&[("lookup", r#"{"q":"a"}"#), ("get_weather", r#"{"city":"Paris"}"#)]);
    let bench = Bench::new([both(), done()], tools()).await;
    let message = bench.proxy.ask(&question()).await.message();
    let mut request = follow(&question(), &message, &["sunny"]);
    request["dry_run"] = json!(true);
    bench.proxy.ask(&request).await;
    assert_eq!(bench.outline(1)[2], r#"tool call_1 lookup {"q": "a"}"#);
}
