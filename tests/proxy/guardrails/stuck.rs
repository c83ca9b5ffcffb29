//! Replies that would go on for nothing: the same over and over, or text without end where a call is due.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate::inference::OnText;

use crate::harness::{Proxy, Reply, Upstream, events, fold, paris, proxy_before, question, question_with};

const SENTENCE: &str = "I will now look up the weather. ";

/// It would take ten seconds.
fn stuck() -> Reply {
    Reply::text(&SENTENCE.repeat(1000)).in_tokens_of(32).dripping(Duration::from_millis(10))
}

#[tokio::test]
async fn the_same_over_and_over_is_stopped_and_asked_again() {
    let (proxy, upstream) = proxy_before([stuck(), paris()]).await;
    let begun = Instant::now();
    let answer = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await;
    assert_eq!((answer.calls().len(), upstream.calls(), upstream.cancellations()), (1, 2, 1));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(answer.json()["toolgate"]["attempts"][0]["fault"], "repetition");
    // Little of it is told to the model again.
    let messages = upstream.requests()[1].json()["messages"].as_array().unwrap().clone();
    let told = messages[messages.len() - 2]["content"].as_str().unwrap();
    assert!(told.starts_with(SENTENCE) && told.len() < 300, "{told}");
}

#[tokio::test]
async fn it_is_stopped_in_reasoning_and_in_arguments_too() {
    let city = json!({"city": SENTENCE.repeat(200)}).to_string();
    for reply in [Reply::reasoning(&SENTENCE.repeat(200)), Reply::call("get_weather", &city)] {
        let (proxy, upstream) = proxy_before([reply.in_tokens_of(20), paris()]).await;
        assert_eq!((proxy.ask(&question()).await.calls().len(), upstream.calls()), (1, 2));
    }
}

#[tokio::test]
async fn what_was_shown_of_it_is_a_cut_answer() {
    let said = json!({"message": SENTENCE.repeat(200)}).to_string();
    let (proxy, upstream) = proxy_before([Reply::call("respond", &said).in_tokens_of(20)]).await;
    let whole = fold(&events(&proxy.ask(&question_with(json!({"stream": true}))).await.body));
    assert_eq!(whole["finish_reason"], "length");
    let content = whole["message"]["content"].as_str().unwrap();
    assert!(content.starts_with(SENTENCE) && content.len() < SENTENCE.len() * 100, "{}", content.len());
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn when_it_never_stops_the_answer_is_cut() {
    let (proxy, upstream) = proxy_before([Reply::text(&SENTENCE.repeat(200)).in_tokens_of(20)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, answer.finish_reason().as_str(), upstream.calls()), (200, "length", 4));
    assert_eq!(answer.header("x-toolgate-guardrail"), "exhausted");
}

#[tokio::test]
async fn it_can_be_allowed() {
    let upstream = Upstream::saying([Reply::text(&SENTENCE.repeat(200)).in_tokens_of(20)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.inference.repetitions_max = 0;
        config.inference.on_text = OnText::Accept;
    })
    .await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.content(), answer.finish_reason().as_str()), (SENTENCE.repeat(200), "stop"));
}

#[tokio::test]
async fn long_text_is_not_heard_to_its_end_where_a_call_is_due() {
    let lines: String = (0..1000).map(|n| format!("{n}. A line of a long text.\n")).collect();
    let upstream = Upstream::saying([Reply::text(&lines).in_tokens_of(100), paris(), Reply::text(&lines).in_tokens_of(100)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.inference.held_bytes_max = 1000;
        config.inference.max_retries = 1;
    })
    .await;
    assert_eq!((proxy.ask(&question()).await.calls().len(), upstream.calls()), (1, 2));
    // When the model will not be asked again, what it says is the answer, and flows.
    let whole = fold(&events(&proxy.ask(&question_with(json!({"stream": true}))).await.body));
    assert_eq!((&whole["message"]["content"], &whole["message"]["tool_calls"]), (&json!(lines), &Value::Null));
}
