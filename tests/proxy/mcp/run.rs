//! A run of several turns that the client sees as one answer.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::{config::Config, inference::OnText};

use super::bench::{Bench, done, lookup, reading, streamed, tools};
use crate::harness::{Proxy, Reply, Upstream, chat, events, fold, fold_message, frames, mcp, text_so_far};

#[tokio::test]
async fn a_tool_is_run_and_its_result_is_read() {
    let upstream =
        Upstream::saying([Reply::call("read_file", r#"{"path":"README.md"}"#), Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let server = mcp::server("filesystem", json!([mcp::tool("read_file", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    let answer = proxy.ask(&chat()).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Done.", "{answer}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let requests = upstream.requests();
    let second = requests[1].json();
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{second}");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "read_file");
    assert_eq!(messages[2]["content"], r#"read_file {"path": "README.md"}"#);
}

#[tokio::test]
async fn a_stream_stays_one_stream() {
    let upstream =
        Upstream::saying([Reply::call("read_file", r#"{"path":"README.md"}"#), Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let server = mcp::server("filesystem", json!([mcp::tool("read_file", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    let mut request = chat();
    request["stream"] = json!(true);
    let answer = proxy.ask(&request).await;
    assert_eq!(text_so_far(answer.text()), "Done.");
}

#[tokio::test]
async fn the_texts_of_several_turns_are_one_answer_with_one_beginning_and_one_end() {
    let replies = [lookup().saying("Looking.").thinking("Hm."), Reply::text("Found it.").thinking("Ah.").with_id("another")];
    let bench = Bench::with(replies, tools(), accepting_text).await;
    let answer = bench.proxy.ask(&streamed(chat())).await;
    assert!(!answer.text().contains("lookup"), "{}", answer.text());
    // Folding checks that there is one id, one role, one finish reason and one usage, the last.
    let chunks = events(&answer.body);
    let whole = fold(&chunks);
    assert_eq!((&whole["message"]["content"], &whole["finish_reason"]), (&json!("Looking.\n\nFound it."), &json!("stop")));
    assert_eq!(whole["message"]["reasoning_content"], "Hm.Ah.");
    assert_eq!((&whole["usage"]["prompt_tokens"], &whole["usage"]["completion_tokens"]), (&json!(20), &json!(10)));
    assert_eq!(chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["role"] == "assistant").count(), 1);

    let bench = Bench::with([lookup().saying("Looking."), Reply::text("Found it.")], tools(), accepting_text).await;
    let whole = bench.proxy.ask(&chat()).await.json();
    assert_eq!(whole["choices"][0]["message"]["content"], "Looking.\n\nFound it.");
    assert_eq!((&whole["usage"]["prompt_tokens"], &whole["usage"]["total_tokens"]), (&json!(20), &json!(30)));
}

#[tokio::test]
async fn a_text_is_shown_before_the_tool_it_announces_has_run() {
    let bench = Bench::with(
        [lookup().saying("Looking."), Reply::text("Found it.")],
        json!([reading("lookup", json!({"delay": 1}))]),
        accepting_text,
    )
    .await;
    let mut stream = bench.proxy.ask_slowly(&streamed(chat())).await;
    let mut seen = String::new();
    while !text_so_far(&seen).contains("Looking.") {
        seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().0).unwrap());
    }
    assert_eq!(bench.upstream.calls(), 1, "the tool still runs");
    seen.push_str(stream.whole().await.unwrap().text());
    assert_eq!(text_so_far(&seen), "Looking.\n\nFound it.");
}

#[tokio::test]
async fn a_stream_lives_while_a_tool_runs() {
    let slow = || json!([reading("lookup", json!({"delay": 0.6}))]);
    let often = |config: &mut Config| config.server.keep_alive = Some(Duration::from_millis(100));
    let bench = Bench::with([lookup(), done()], slow(), often).await;
    let answer = bench.proxy.ask(&streamed(chat())).await;
    assert!(answer.text().matches(": toolgate\n\n").count() >= 3, "{}", answer.text());
    assert_eq!(fold(&events(&answer.body))["message"]["content"], "Done.");

    let bench = Bench::with([lookup(), done()], slow(), often).await;
    let answer = bench.proxy.message(&json!({"max_tokens": 9, "model": "m", "stream": true, "messages": chat()["messages"]})).await;
    assert!(answer.text().matches("event: ping").count() >= 3, "{}", answer.text());
    assert_eq!(fold_message(&frames(&answer.body))["content"][0]["text"], "Done.");
}

#[tokio::test]
async fn what_was_required_is_required_once() {
    for choice in [
        json!("required"),
        json!({"type": "function", "function": {"name": "lookup"}}),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}),
    ] {
        let bench = Bench::new([lookup(), Reply::text("Done.")], tools()).await;
        let mut request = chat();
        request["tool_choice"] = choice.clone();
        let answer = bench.proxy.ask(&request).await;
        assert_eq!((answer.content().as_str(), bench.calls()), ("Done.", 1), "{choice}");
        let asked: Vec<Value> = bench.upstream.requests().iter().map(|request| request.json()["tool_choice"].clone()).collect();
        let eased = if choice["type"] == "allowed_tools" {
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}})
        } else {
            json!("auto")
        };
        assert_eq!(asked[1], eased);
    }
}

#[tokio::test]
async fn where_one_call_is_wanted_one_is_made() {
    let two = Reply::calls(&[("lookup", r#"{"q":"1"}"#), ("lookup", r#"{"q":"2"}"#)]);
    for disable in ["", "all"] {
        let bench = Bench::new([two.clone(), Reply::text("Done.")], tools()).await;
        let mut request = chat();
        request["parallel_tool_calls"] = json!(false);
        bench.proxy.ask_with(&request, &[("x-toolgate-disable", disable)]).await;
        assert_eq!(bench.calls(), 1, "disabled: {disable}");
    }
}

#[tokio::test]
async fn without_guardrails_the_loop_deals_with_what_is_wrong_itself() {
    let wrong = Reply::calls(&[("nobodys", r#"{"q":"1"}"#), ("lookup", r#"{"q":"#), ("lookup", "")]);
    let bench = Bench::new([wrong, Reply::text("I see.")], tools()).await;
    let headers = [("x-toolgate-disable", "all"), ("x-toolgate-explain", "1")];
    let answer = bench.proxy.ask_with(&chat(), &headers).await;
    assert_eq!((answer.content().as_str(), answer.finish_reason().as_str()), ("I see.", "stop"));
    let read = bench.outline(1);
    assert!(read[2].contains("There is no tool `nobodys`"), "{read:?}");
    assert!(read[3].contains("no JSON object"), "{read:?}");
    let calls = answer.json()["toolgate"]["calls"].clone();
    assert_eq!((&calls[0]["server"], &calls[0]["selection_rule"]), (&json!("-"), &json!("no-candidate")));
    assert_eq!(calls.as_array().unwrap().len(), 3, "every call is told: {calls}");
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_an_answer() {
    let bench = Bench::with([lookup(), Reply::text("")], tools(), accepting_text).await;
    for request in [chat(), streamed(chat())] {
        let answer = bench.proxy.ask(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains("\"stop\""), "{}", answer.text());
    }
}

fn accepting_text(config: &mut Config) {
    config.inference.on_text = OnText::Accept;
}
