//! `tool_arguments = "live"`: a structured call is shown as it comes.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::{config::Config, inference::ToolArguments};

use crate::harness::{Proxy, Reply, Upstream, events, fold, paris, question, question_with};

async fn live_proxy(replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    let live = |config: &mut Config| config.inference.tool_arguments = ToolArguments::Live;
    (Proxy::start_with(&upstream, live).await, upstream)
}

fn streamed() -> Value {
    question_with(json!({"stream": true}))
}

#[tokio::test]
async fn the_name_comes_first_and_the_arguments_as_they_are_said() {
    let long = json!({"city": "Paris ".repeat(20)}).to_string();
    let (proxy, upstream) = live_proxy([Reply::call("get_weather", &long).in_tokens_of(6).dripping(Duration::from_millis(10))]).await;
    let mut stream = proxy.ask_slowly(&streamed()).await;
    let mut seen = String::new();
    while !seen.contains("Par") {
        seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().0).unwrap());
    }
    assert_eq!(upstream.finished(), 0, "the model still speaks");
    seen.push_str(stream.whole().await.unwrap().text());
    let whole = fold(&events(seen.as_bytes()));
    assert_eq!(whole["message"]["tool_calls"][0]["function"], json!({"name": "get_weather", "arguments": long}));
    assert_eq!(whole["finish_reason"], "tool_calls");
    assert!(seen.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn several_calls_and_words_keep_their_places() {
    let reply = Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("respond", r#"{"message":"and"}"#), ("add", r#"{"a":1,"b":2}"#)]);
    let (proxy, _upstream) = live_proxy([reply.in_tokens_of(3)]).await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    let names: Vec<_> = whole["message"]["tool_calls"].as_array().unwrap().iter().map(|call| &call["function"]["name"]).collect();
    assert_eq!((json!(names), &whole["message"]["content"]), (json!(["get_weather", "add"]), &json!("and")));
}

#[tokio::test]
async fn an_unknown_name_is_never_shown() {
    let (proxy, upstream) = live_proxy([Reply::call("wether", r#"{"city":"Paris"}"#).in_tokens_of(4), paris()]).await;
    let answer = proxy.ask(&streamed()).await;
    assert!(!answer.text().contains("wether"));
    assert_eq!((fold(&events(&answer.body))["message"]["tool_calls"].as_array().map(Vec::len), upstream.calls()), (Some(1), 2));
}

#[tokio::test]
async fn a_call_that_turns_out_wrong_is_an_error_and_no_end() {
    let cut = Reply::call("get_weather", r#"{"city":"P"#).finishing("length");
    for reply in [Reply::call("get_weather", r#"{"city":7}"#), Reply::call("get_weather", r#"{"city":"P"#), cut] {
        let (proxy, upstream) = live_proxy([reply.in_tokens_of(3)]).await;
        let answer = proxy.ask(&streamed()).await;
        assert!(answer.text().contains("\"error\"") && !answer.text().contains("[DONE]"), "{}", answer.text());
        assert_eq!(upstream.calls(), 1, "what was shown is not said again");
        assert_eq!(proxy.ask(&question()).await.status, 502);
    }
}

#[tokio::test]
async fn a_wrong_call_behind_a_shown_one_is_left_out() {
    let (proxy, upstream) = live_proxy([Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("wether", "{}")])]).await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    assert_eq!((whole["message"]["tool_calls"].as_array().map(Vec::len), upstream.calls()), (Some(1), 1));
}

#[tokio::test]
async fn arguments_in_a_string_are_still_repaired() {
    let (proxy, _upstream) = live_proxy([Reply::call("get_weather", r#""{\"city\":\"Paris\"}""#).in_tokens_of(3)]).await;
    let whole = fold(&events(&proxy.ask(&streamed()).await.body));
    assert_eq!(whole["message"]["tool_calls"][0]["function"]["arguments"], r#"{"city":"Paris"}"#);
}
