//! Text, reasoning, what a response repeats of its request, and its end.

use std::time::Duration;

use serde_json::{Value, json};

use super::{chat, fold::fold, question, question_with, respond, stream, texts, with};
use crate::harness::{Reply, proxy_before};

#[tokio::test]
async fn what_respond_says_is_live_output_text() {
    let reply =
        Reply::call("respond", r#"{"message":"first and then some more of the same"}"#).in_pieces_of(9).dripping(Duration::from_millis(5));
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut answer = super::open(&proxy, &with(&question(), json!({"stream": true}))).await;
    let mut seen = String::new();
    while !seen.contains("response.output_text.delta") {
        seen.push_str(std::str::from_utf8(&answer.next().await.unwrap().0).unwrap());
    }
    assert_eq!(upstream.finished(), 0, "the model still speaks");
    seen.push_str(answer.whole().await.unwrap().text());
    assert_eq!(texts(&fold(seen.as_bytes())), "first and then some more of the same");
}

#[tokio::test]
async fn a_request_without_tools_is_live_too() {
    let reply = Reply::text("one two three four five six").in_tokens_of(4).dripping(Duration::from_millis(20));
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut answer = super::open(&proxy, &with(&chat(), json!({"stream": true}))).await;
    let mut seen = String::new();
    while !seen.contains("response.output_text.delta") {
        seen.push_str(std::str::from_utf8(&answer.next().await.unwrap().0).unwrap());
    }
    assert_eq!(upstream.finished(), 0, "the model still speaks");
    seen.push_str(answer.whole().await.unwrap().text());
    assert_eq!(texts(&fold(seen.as_bytes())), "one two three four five six");
    let sent = upstream.only_request();
    assert_eq!((sent.path.as_str(), sent.json()["tools"].clone()), ("/v1/chat/completions", Value::Null));
    assert_eq!(sent.json()["messages"], json!([{"role": "user", "content": "Hello"}]));
}

#[tokio::test]
async fn a_whole_response_has_every_field() {
    let (proxy, _upstream) = proxy_before([Reply::text("Hello there").costing([10, 5, 4])]).await;
    let response = respond(&proxy, &with(&chat(), json!({"metadata": {"a": "b"}, "temperature": 0.5, "store": true}))).await;
    assert!(response["id"].as_str().unwrap().starts_with("resp_"));
    let message = &response["output"][0];
    assert!(message["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(message["content"], json!([{"type": "output_text", "text": "Hello there", "annotations": [], "logprobs": []}]));
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
    });
    let expected = json!({
        "object": "response", "status": "completed", "model": "tiny-upstream", "created_at": 1_700_000_000, "error": null,
        "incomplete_details": null, "usage": usage, "instructions": null, "metadata": {"a": "b"}, "temperature": 0.5, "top_p": 1,
        "tools": [], "tool_choice": "auto", "parallel_tool_calls": true, "text": {"format": {"type": "text"}},
        "reasoning": {"effort": null, "summary": null}, "truncation": "disabled", "store": false, "background": false,
        "previous_response_id": null, "max_output_tokens": null, "max_tool_calls": null, "service_tier": "default",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(response[key], *value, "{key}");
    }
    assert!(response["completed_at"].as_u64() > response["created_at"].as_u64());
}

#[tokio::test]
async fn reasoning_is_where_the_client_looks_for_it() {
    for (asked, part, kind) in [(json!({}), "content", "reasoning_text"), (json!({"summary": "auto"}), "summary", "summary_text")] {
        for streamed in [false, true] {
            let (proxy, _upstream) = proxy_before([Reply::text("four").thinking("two and two")]).await;
            let response = respond(&proxy, &with(&chat(), json!({"reasoning": asked, "stream": streamed}))).await;
            let [reasoning, message] = response["output"].as_array().unwrap().as_slice() else { panic!("{response}") };
            assert!(reasoning["id"].as_str().unwrap().starts_with("rs_"));
            assert_eq!(reasoning[part], json!([{"type": kind, "text": "two and two"}]));
            assert!(reasoning["summary"].is_array(), "`summary` is always there");
            assert_eq!(message["content"][0]["text"], "four");
        }
    }
}

#[tokio::test]
async fn what_is_cut_off_is_incomplete() {
    for (finish, reason) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        for streamed in [false, true] {
            let (proxy, _upstream) = proxy_before([Reply::text("and so").finishing(finish)]).await;
            let response = respond(&proxy, &with(&chat(), json!({"stream": streamed, "max_output_tokens": 16}))).await;
            assert_eq!((&response["status"], &response["incomplete_details"]), (&json!("incomplete"), &json!({"reason": reason})));
            assert_eq!((&response["output"][0]["status"], texts(&response)), (&json!("incomplete"), "and so".to_owned()));
            assert_eq!(response["completed_at"], Value::Null);
        }
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_empty_message() {
    for streamed in [false, true] {
        let (proxy, _upstream) = proxy_before([Reply::text("")]).await;
        let response = respond(&proxy, &with(&chat(), json!({"stream": streamed}))).await;
        assert_eq!((response["output"].as_array().map(Vec::len), texts(&response)), (Some(1), String::new()));
    }
}

#[tokio::test]
async fn log_probabilities_stand_beside_their_text() {
    for streamed in [false, true] {
        let (proxy, upstream) = proxy_before([Reply::text("Hello there").with_logprobs()]).await;
        let response = respond(&proxy, &with(&chat(), json!({"stream": streamed, "top_logprobs": 1}))).await;
        let logprobs = response["output"][0]["content"][0]["logprobs"].as_array().unwrap().clone();
        let tokens: String = logprobs.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
        assert_eq!((tokens.as_str(), &upstream.only_request().json()["logprobs"]), ("Hello there", &json!(true)));
    }
}

#[tokio::test]
async fn what_the_guardrails_did_is_told_on_request() {
    for streamed in [false, true] {
        let (proxy, _upstream) = proxy_before([Reply::text("no call"), Reply::call("respond", r#"{"message":"hi"}"#)]).await;
        let body = question_with(json!({"stream": streamed})).to_string();
        let answer = proxy.client.send("POST", "/v1/responses", &[("x-toolgate-explain", "1")], body).await;
        let response = if streamed { fold(&answer.body) } else { answer.json() };
        assert_eq!(response["toolgate"]["guardrail"], "nudged", "{response}");
    }
    let (proxy, _upstream) = proxy_before([Reply::call("respond", r#"{"message":"hi"}"#)]).await;
    assert_eq!(respond(&proxy, &question()).await["toolgate"], Value::Null);
}

#[tokio::test]
async fn guardrails_that_are_off_leave_the_translation() {
    let (proxy, upstream) = proxy_before([Reply::call("wether", "{")]).await;
    let headers = [("x-toolgate-disable", "all")];
    let answer = proxy.client.send("POST", "/v1/responses", &headers, question().to_string()).await;
    assert_eq!((answer.json()["output"][0]["name"].clone(), upstream.calls()), (json!("wether"), 1));
    assert_eq!(upstream.only_request().json()["tools"].as_array().map(Vec::len), Some(2), "`respond` is not offered");
}

#[tokio::test]
async fn silence_is_filled_with_comments() {
    let slow = Reply::text("late").after(Duration::from_millis(400));
    let upstream = crate::harness::Upstream::saying([slow]).await;
    let proxy = crate::harness::Proxy::start_with(&upstream, |config| {
        config.server.keep_alive = Some(Duration::from_millis(50));
        config.server.head_grace = Duration::from_millis(10);
    })
    .await;
    let answer = stream(&proxy, &chat()).await;
    assert!(answer.text().starts_with(": "), "{}", answer.text());
    assert_eq!(texts(&fold(&answer.body)), "late");
}
