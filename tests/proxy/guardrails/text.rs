//! Text where text is welcome: shown as it comes, except what may be a call.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::{config::Config, inference::OnText};

use crate::harness::{Proxy, Reply, Upstream, events, fold, paris, question, question_with, text_so_far};

const CALL: &str = r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#;

fn accepting(config: &mut Config) {
    config.inference.on_text = OnText::Accept;
}

async fn accepting_proxy(replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    (Proxy::start_with(&upstream, accepting).await, upstream)
}

fn streamed() -> Value {
    question_with(json!({"stream": true}))
}

/// The text that came before `more` of it was said, and all of the answer.
async fn shown_early(proxy: &Proxy, upstream: &Upstream, part: &str) -> (String, Value) {
    let mut stream = proxy.ask_slowly(&streamed()).await;
    let mut seen = String::new();
    while !text_so_far(&seen).contains(part) {
        let (piece, _) = stream.next().await.unwrap_or_else(|| panic!("no {part:?} in {seen}"));
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(upstream.finished(), 0, "the model still speaks");
    let early = text_so_far(&seen);
    seen.push_str(stream.whole().await.unwrap().text());
    assert!(seen.ends_with("data: [DONE]\n\n"), "{seen}");
    (early, fold(&events(seen.as_bytes())))
}

#[tokio::test]
async fn it_flows_and_is_the_answer() {
    let text = "It is sunny in Paris, and it will stay so for the rest of the week.";
    let (proxy, upstream) = accepting_proxy([Reply::text(text).in_tokens_of(5).dripping(Duration::from_millis(10))]).await;
    let (_, whole) = shown_early(&proxy, &upstream, "sunny").await;
    assert_eq!((&whole["message"]["content"], &whole["finish_reason"]), (&json!(text), &json!("stop")));
    assert_eq!(upstream.calls(), 1);
    assert_eq!(proxy.ask(&question()).await.content(), text);
}

#[tokio::test]
async fn a_call_behind_it_is_held_and_becomes_a_call() {
    for call in [
        CALL.to_owned(),
        format!("```json\n{CALL}\n```"),
        format!("<tool_call>\n{CALL}\n</tool_call>"),
        r#"get_weather[ARGS]{"city": "Paris"}"#.to_owned(),
    ] {
        let reply = Reply::text(&format!("Let me look that up.\n\n{call}")).in_tokens_of(4).dripping(Duration::from_millis(5));
        let (proxy, upstream) = accepting_proxy([reply]).await;
        let (early, whole) = shown_early(&proxy, &upstream, "look that").await;
        assert!("Let me look that up.".starts_with(&early), "{early}");
        let message = &whole["message"];
        assert_eq!(message["content"], "Let me look that up.", "{call}");
        assert_eq!(message["tool_calls"][0]["function"], json!({"name": "get_weather", "arguments": r#"{"city": "Paris"}"#}), "{call}");
        assert_eq!(whole["finish_reason"], "tool_calls");
        let folded = proxy.ask(&question()).await;
        assert_eq!((folded.content().as_str(), folded.calls().len()), ("Let me look that up.", 1));
    }
}

#[tokio::test]
async fn data_that_is_no_call_is_let_go() {
    let text = "The settings are {\"name\": \"verbose\", \"value\": 3} and [1, 2] with more text behind them, and a bit more.";
    let (proxy, upstream) = accepting_proxy([Reply::text(text).in_tokens_of(6).dripping(Duration::from_millis(5))]).await;
    let (_, whole) = shown_early(&proxy, &upstream, "with more").await;
    assert_eq!((&whole["message"]["content"], &whole["message"]["tool_calls"]), (&json!(text), &Value::Null));
}

#[tokio::test]
async fn a_structured_call_behind_it_is_in_the_same_message() {
    let (proxy, _upstream) = accepting_proxy([paris().saying("Let me see. ")]).await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    assert_eq!(whole["message"]["content"], "Let me see. ");
    assert_eq!(whole["message"]["tool_calls"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn after_a_wrong_call_the_answer_goes_on_from_the_text() {
    let wrong = Reply::call("wether", "{}").saying("Let me see.").in_tokens_of(30);
    let (proxy, upstream) = accepting_proxy([wrong, paris().saying("I am sorry.")]).await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    assert_eq!((&whole["message"]["content"], &whole["finish_reason"]), (&json!("Let me see."), &json!("tool_calls")));
    assert_eq!(whole["message"]["tool_calls"][0]["function"]["name"], "get_weather");
    assert_eq!(upstream.calls(), 2);

    let wrong = Reply::call("wether", "{}").saying("Let me see.");
    let (proxy, _upstream) = accepting_proxy([wrong, Reply::call("respond", r#"{"message":"It is sunny."}"#).saying("Sorry.")]).await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    assert_eq!((&whole["message"]["content"], &whole["finish_reason"]), (&json!("Let me see.\n\nIt is sunny."), &json!("stop")));
}

#[tokio::test]
async fn when_no_right_call_comes_after_it_the_answer_is_an_error() {
    let (proxy, _upstream) = accepting_proxy([Reply::call("wether", "{}").saying("Let me see.")]).await;
    let answer = proxy.ask(&streamed()).await;
    assert!(answer.text().contains("retries_exhausted") && !answer.text().contains("[DONE]"), "{}", answer.text());
    assert_eq!(proxy.ask(&question()).await.error()["code"], "retries_exhausted");
}

#[tokio::test]
async fn it_is_never_the_answer_where_a_call_is_required() {
    let (proxy, upstream) = accepting_proxy([Reply::text("Sunny."), paris()]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "required"}))).await;
    assert_eq!((answer.calls().len(), upstream.calls()), (1, 2));
}

#[tokio::test]
async fn without_respond_it_is_welcome_unless_configured() {
    let upstream = Upstream::saying([Reply::text("Sunny."), Reply::text("Sunny."), paris()]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.guardrails.respond = false).await;
    assert_eq!(proxy.ask(&question()).await.content(), "Sunny.");
    let proxy = Proxy::start_with(&upstream, |config| {
        config.inference.guardrails.respond = false;
        config.inference.on_text = OnText::Nudge;
    })
    .await;
    assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
    assert_eq!(upstream.calls(), 3);
}

#[tokio::test]
async fn with_tools_withheld_it_flows() {
    let reply =
        Reply::text(&format!("Sunny, and {CALL} is text, as is all the rest of it.")).in_tokens_of(5).dripping(Duration::from_millis(10));
    let (proxy, upstream) = accepting_proxy([reply]).await;
    let mut stream = proxy.ask_slowly(&question_with(json!({"stream": true, "tool_choice": "none"}))).await;
    let mut seen = String::new();
    while !text_so_far(&seen).contains("Sunny") {
        seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().0).unwrap());
    }
    assert_eq!(upstream.finished(), 0, "the model still speaks");
}

#[tokio::test]
async fn what_is_held_too_long_is_text() {
    let long = format!("{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"{}\"}}}}", "x".repeat(400));
    let upstream = Upstream::saying([Reply::text(&long).in_tokens_of(50)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        accepting(config);
        config.inference.held_bytes_max = 200;
    })
    .await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    assert_eq!((&whole["message"]["content"], &whole["message"]["tool_calls"]), (&json!(long), &Value::Null));
}
