//! Guarded answers as streams: the shape that every known client folds rightly, and the same answer as without a stream.

use serde_json::{Value, json};

use crate::harness::{PATIENCE, Proxy, Reply, Upstream, events, fold, paris, proxy_before, question, question_with};

fn streamed() -> Value {
    question_with(json!({"stream": true, "stream_options": {"include_usage": true}}))
}

#[tokio::test]
async fn a_stream_folds_to_the_same_answer() {
    let check = async |reply: Reply| {
        let (proxy, _upstream) = proxy_before([reply.clone()]).await;
        let plain = proxy.ask(&question()).await;
        let stream = proxy.ask(&streamed()).await;
        assert_eq!(stream.header("content-type"), "text/event-stream");
        assert_eq!(stream.status, plain.status);
        let (folded, plain) = (fold(&events(&stream.body)), plain.json());
        for field in ["id", "created", "model", "system_fingerprint", "usage"] {
            assert_eq!(folded[field], plain[field], "{field}");
        }
        let choice = &plain["choices"][0];
        assert_eq!((&folded["finish_reason"], &folded["logprobs"]), (&choice["finish_reason"], &choice["logprobs"]));
        for field in ["role", "content", "reasoning_content", "tool_calls"] {
            assert_eq!(without_ids(&folded["message"][field]), without_ids(&choice["message"][field]), "{field}: {reply:?}");
        }
    };
    check(paris()).await;
    check(paris().saying("Looking.").thinking("Hm.")).await;
    check(Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#), ("respond", r#"{"message":"hi"}"#)])).await;
    check(Reply::call("respond", r#"{"message":"It is \"sunny\"\n世界"}"#)).await;
    check(Reply::text(r#"Sure. get_weather[ARGS]{"city":"Paris"}"#)).await;
    check(Reply::text("words, always words").with_logprobs().finishing("length")).await;
}

/// Ids of calls read out of text are minted for each answer.
fn without_ids(value: &Value) -> Value {
    let mut value = value.clone();
    for call in value.as_array_mut().into_iter().flatten() {
        call.as_object_mut().unwrap().remove("id");
    }
    value
}

#[tokio::test]
async fn usage_comes_only_when_asked_for() {
    for options in [Value::Null, json!({}), json!({"include_usage": false})] {
        let (proxy, _upstream) = proxy_before([paris()]).await;
        let answer = proxy.ask(&question_with(json!({"stream": true, "stream_options": options}))).await;
        assert!(!answer.text().contains("\"usage\""), "{options}: {}", answer.text());
        fold(&events(&answer.body));
    }
}

#[tokio::test]
async fn usage_stands_in_the_last_chunk_and_is_null_before_it() {
    let (proxy, _upstream) = proxy_before([paris()]).await;
    let chunks = events(&proxy.ask(&streamed()).await.body);
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(15)));
    assert!(before.iter().all(|chunk| chunk["usage"] == Value::Null && chunk.as_object().unwrap().contains_key("usage")));
}

#[tokio::test]
async fn a_stream_that_was_corrected_shows_only_the_answer() {
    let upstream = Upstream::saying([Reply::text("words"), Reply::call("add", "{}"), paris()]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.server.head_grace = PATIENCE).await;
    let answer = proxy.ask_with(&streamed(), &[("x-toolgate-explain", "1")]).await;
    assert_eq!(answer.outcome(), (200, "nudged", "3"));
    let chunks = events(&answer.body);
    let whole = fold(&chunks);
    assert_eq!((&whole["message"]["content"], whole["message"]["tool_calls"].as_array().unwrap().len()), (&Value::Null, 1));
    assert_eq!(whole["usage"]["total_tokens"], 45);
    let explained: Vec<_> = chunks.iter().filter(|chunk| !chunk["toolgate"].is_null()).collect();
    assert_eq!(explained.len(), 1, "the explanation comes once");
    assert_eq!(explained[0]["toolgate"]["attempts"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_failure_before_the_first_chunk_has_a_status_of_its_own() {
    let (proxy, _upstream) = proxy_before([Reply::call("add", "{}")]).await;
    let answer = proxy.ask(&streamed()).await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("retries_exhausted")));
}
