//! Streams through an Ollama: what is shown and when, and what becomes of one that breaks off.

use std::time::Duration;

use serde_json::json;

use super::{bodies, last, line, paris, proxy_before, refusal, text};
use crate::harness::{Reply, chat, events, fold, question_with, text_so_far};

#[tokio::test]
async fn text_is_shown_as_it_comes() {
    let (proxy, upstream) = proxy_before([text("It is sunny in Paris, and will stay so.").dripping(Duration::from_millis(15))]).await;
    let mut request = chat();
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let mut stream = proxy.ask_slowly(&request).await;
    let mut seen = String::new();
    while !text_so_far(&seen).contains("sunny") {
        seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().0).unwrap());
    }
    assert_eq!(bodies(&upstream).len(), 1);
    assert!(!seen.contains("stay so"), "the model still speaks");
    seen.push_str(stream.whole().await.unwrap().text());
    let whole = fold(&events(seen.as_bytes()));
    assert_eq!(whole["message"]["content"], "It is sunny in Paris, and will stay so.");
    assert_eq!((&whole["finish_reason"], &whole["usage"]["total_tokens"]), (&json!("stop"), &json!(15)));
}

#[tokio::test]
async fn a_call_is_streamed_wherever_the_network_cuts_it() {
    for size in [1, 7, 4096] {
        let (proxy, _upstream) = proxy_before([paris().in_pieces_of(size)]).await;
        let answer = proxy.ask(&question_with(json!({"stream": true}))).await;
        let whole = fold(&events(&answer.body));
        assert_eq!(whole["message"]["tool_calls"][0]["function"]["arguments"], r#"{"city":"Paris"}"#);
        assert_eq!(whole["finish_reason"], "tool_calls");
    }
}

#[tokio::test]
async fn thinking_is_reasoning() {
    let reply =
        Reply::lines(&[line(json!({"thinking": "Hm. "})), line(json!({"thinking": "Yes."})), line(json!({"content": "Hi"})), last("stop")]);
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut request = chat();
    request["reasoning_effort"] = json!("low");
    let answer = proxy.ask(&request).await;
    assert_eq!((answer.content().as_str(), &answer.message()["reasoning_content"]), ("Hi", &json!("Hm. Yes.")));
    assert_eq!(bodies(&upstream)[0]["think"], "low");
}

#[tokio::test]
async fn a_model_without_levels_of_thinking_thinks() {
    let no_levels = refusal(400, "think value \"low\" is not supported for this model");
    let (proxy, upstream) = proxy_before([no_levels, text("Hi")]).await;
    let mut request = chat();
    request["reasoning_effort"] = json!("low");
    assert_eq!(proxy.ask(&request).await.content(), "Hi");
    assert_eq!(proxy.ask(&request).await.content(), "Hi");
    let asked: Vec<_> = bodies(&upstream).iter().map(|sent| sent["think"].clone()).collect();
    assert_eq!(asked, [json!("low"), json!(true), json!(true)], "it is refused once");
}

#[tokio::test]
async fn what_breaks_off_is_an_error() {
    let whole = || text("It is sunny in Paris.");
    let without_end = || Reply::lines(&[line(json!({"content": "It is"}))]);
    for reply in [whole().cut_after(2), without_end()] {
        let (proxy, _upstream) = proxy_before([reply]).await;
        let answer = proxy.ask(&chat()).await;
        assert_eq!((answer.status, &answer.error()["code"]), (502, &json!("backend_protocol_error")));
        let mut request = chat();
        request["stream"] = json!(true);
        let streamed = proxy.ask(&request).await;
        assert!(streamed.text().contains("backend_protocol_error") && !streamed.text().contains("[DONE]"), "{}", streamed.text());
    }
}

#[tokio::test]
async fn an_error_in_the_middle_ends_the_stream() {
    let reply =
        Reply::lines(&[line(json!({"content": "It is"})), json!({"error": "an error was encountered while running the model: EOF"})]);
    let (proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&chat()).await;
    assert_eq!(answer.status, 502);
    assert!(answer.error()["message"].as_str().unwrap().contains("while running the model"));
}

#[tokio::test]
async fn who_leaves_stops_the_model() {
    let (proxy, upstream) = proxy_before([text("It is sunny in Paris.").stalling_after(3)]).await;
    let mut request = chat();
    request["stream"] = json!(true);
    let mut stream = proxy.ask_slowly(&request).await;
    stream.next().await.unwrap();
    drop(stream);
    upstream.cancelled().await;
}
