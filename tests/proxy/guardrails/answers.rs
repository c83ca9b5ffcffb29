//! The shape of a guarded answer: complete, and as the backend said it where nothing had to be done.

use serde_json::{Value, json};

use crate::harness::{Answer, Reply, paris, proxy_before, question, question_with, weather};

async fn answer_to(replies: impl IntoIterator<Item = Reply>) -> Answer {
    proxy_before(replies).await.0.ask(&question()).await
}

#[tokio::test]
async fn a_clean_call_has_openais_complete_shape() {
    let expected = json!({
        "id": "chatcmpl-up",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "tiny-upstream",
        "system_fingerprint": "b11434-test",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": null,
                "refusal": null,
                "annotations": [],
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": r#"{"city":"Paris"}"#}}],
            },
            "logprobs": null,
            "finish_reason": "tool_calls",
        }],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    });
    let answer = answer_to([paris()]).await;
    assert_eq!(answer.json(), expected);
    assert_eq!((answer.outcome(), answer.header("content-type")), ((200, "clean", "1"), "application/json"));
}

#[tokio::test]
async fn arguments_keep_their_spelling() {
    let arguments = "{ \"city\" : \"Par\\u0069s\", \"z\": 18446744073709551617 }";
    assert_eq!(answer_to([Reply::call("get_weather", arguments)]).await.calls()[0].1, arguments);
}

#[tokio::test]
async fn reasoning_stands_beside_the_answer() {
    let message = answer_to([paris().thinking("Paris, so the weather.")]).await.message();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Paris, so the weather."), &Value::Null));
}

#[tokio::test]
async fn logprobs_survive_on_text() {
    let (proxy, _upstream) = proxy_before([Reply::text("Hello").with_logprobs()]).await;
    let answer = proxy.ask_with(&question_with(json!({"logprobs": true})), &[("x-toolgate-disable", "respond")]).await;
    let logprobs = answer.json()["choices"][0]["logprobs"].clone();
    let tokens: Vec<_> = logprobs["content"].as_array().unwrap().iter().map(|entry| entry["token"].clone()).collect();
    assert_eq!((tokens, &logprobs["refusal"]), (vec![json!("Hel"), json!("lo")], &Value::Null));
}

#[tokio::test]
async fn logprobs_of_what_was_rewritten_are_not_shown() {
    let rescued = Reply::text(r#"{"name":"get_weather","arguments":{"city":"Paris"}}"#).with_logprobs();
    for replies in [vec![rescued], vec![Reply::text("no").with_logprobs(), paris()]] {
        assert_eq!(answer_to(replies).await.json()["choices"][0]["logprobs"], Value::Null);
    }
}

#[tokio::test]
async fn usage_is_the_sum_over_the_attempts() {
    let replies = [Reply::text("no").costing([10, 5, 0]), Reply::call("nope", "{}").costing([30, 7, 15]), paris().costing([50, 2, 45])];
    let usage = answer_to(replies).await.json()["usage"].clone();
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]), (&json!(90), &json!(14), &json!(104)));
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 60);
}

#[tokio::test]
async fn one_answer_has_one_id_however_often_the_model_was_asked() {
    let answer = answer_to([Reply::text("no").with_id("chatcmpl-1"), paris().with_id("chatcmpl-2")]).await;
    assert_eq!(answer.json()["id"], "chatcmpl-1");
}

#[tokio::test]
async fn a_backend_that_says_little_is_completed() {
    let reply = Reply::events(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Paris"}}}]}}]}"#,
        "[DONE]",
    ]);
    let answer = answer_to([reply]).await;
    let body = answer.json();
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-") && body["created"].as_u64().unwrap() > 1_700_000_000, "{body}");
    assert_eq!((&body["model"], &body["usage"]["total_tokens"]), (&json!("tiny"), &json!(0)));
    assert_eq!((answer.calls()[0].1.as_str(), answer.finish_reason().as_str()), (r#"{"city":"Paris"}"#, "tool_calls"));
    assert!(answer.message()["tool_calls"][0]["id"].as_str().unwrap().starts_with("call_"));
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let reply =
        Reply::events(&[r#"{"choices":[{"delta":{"refusal":"I will not."}}]}"#, r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#]);
    let answer = answer_to([reply]).await;
    let message = answer.message();
    assert_eq!((answer.outcome(), &message["refusal"], &message["content"]), ((200, "clean", "1"), &json!("I will not."), &Value::Null));
}

#[tokio::test]
async fn arguments_in_a_string_are_repaired_without_a_word_to_the_model() {
    let (proxy, upstream) = proxy_before([Reply::call("get_weather", r#""{\"city\":\"Paris\"}""#)]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await;
    assert_eq!((answer.outcome(), answer.calls()[0].1.as_str()), ((200, "repaired", "1"), r#"{"city":"Paris"}"#));
    assert_eq!(answer.json()["toolgate"]["attempts"], json!([{"repaired": ["get_weather"]}]));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_call_without_arguments_has_an_empty_object() {
    let now = crate::harness::tool("now", Value::Null);
    for arguments in ["", "{}"] {
        let (proxy, _upstream) = proxy_before([Reply::call("now", arguments)]).await;
        let answer = proxy.ask(&question_with(json!({"tools": [now, weather()]}))).await;
        assert_eq!((answer.outcome(), answer.calls()[0].1.as_str()), ((200, "clean", "1"), "{}"));
    }
}

#[tokio::test]
async fn the_explanation_tells_each_attempt() {
    let replies = [Reply::text("words"), Reply::call("wether", "{}"), Reply::text(r#"get_weather[ARGS]{"city":"Paris"}"#)];
    let (proxy, _upstream) = proxy_before(replies).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await;
    let expected = json!({
        "guardrail": "nudged",
        "attempts": [
            {"fault": "text", "detail": "text where a tool call was due"},
            {"fault": "unknown_tool", "detail": "there is no tool `wether`", "forced": true},
            {"forced": true, "rescued": ["get_weather"], "form": "rehearsal"},
        ],
    });
    assert_eq!(answer.json()["toolgate"], expected);
}

#[tokio::test]
async fn nobody_gets_an_explanation_who_did_not_ask() {
    for headers in [&[][..], &[("x-toolgate-explain", "0")]] {
        let (proxy, _upstream) = proxy_before([paris()]).await;
        assert_eq!(proxy.ask_with(&question(), headers).await.json()["toolgate"], Value::Null);
    }
}

#[tokio::test]
async fn unknown_fields_reach_the_backend_and_it_always_streams() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let more = json!({"seed": 7, "chat_template_kwargs": {"x": [1]}, "stream": false, "stream_options": {"include_usage": false}, "max_tokens": null});
    proxy.ask(&question_with(more)).await;
    let sent = upstream.only_request();
    let body = sent.json();
    assert_eq!((&body["seed"], &body["chat_template_kwargs"], &body["max_tokens"]), (&json!(7), &json!({"x": [1]}), &Value::Null));
    assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    assert_eq!(sent.text().matches("\"stream\"").count(), 1);
    assert_eq!(
        (&sent.headers["content-type"], &sent.headers["accept"]),
        (&"application/json".parse().unwrap(), &"text/event-stream".parse().unwrap())
    );
}

#[tokio::test]
async fn a_prompt_that_the_backend_read_in_part_is_told() {
    let long = question_with(json!({"messages": [{"role": "user", "content": "What is the weather in Paris? ".repeat(1000)}]}));
    let (proxy, _upstream) = proxy_before([paris().costing([2048, 5, 0]), paris().costing([8000, 5, 0])]).await;
    let answer = proxy.ask_with(&long, &[("x-toolgate-explain", "1")]).await;
    assert_eq!((answer.header("x-toolgate-context"), answer.calls().len()), ("truncated", 1));
    assert_eq!(answer.json()["toolgate"]["truncated"]["prompt_tokens"], 2048);
    let answer = proxy.ask(&long).await;
    assert!(!answer.headers.contains_key("x-toolgate-context"));
}
