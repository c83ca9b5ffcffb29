//! Calls written as text, over the socket; the forms themselves are tested beside their readers.

use serde_json::{Value, json};
use toolgate::inference::Constrain;

use crate::harness::{Proxy, Reply, Upstream, proxy_before, question, question_with};

/// What the client gets for `text`: calls, content, guardrail.
async fn read(text: &str) -> (Vec<(String, String)>, Value, String) {
    let upstream = Upstream::saying([Reply::text(text)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.constrain = Constrain::Never).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "required"}))).await;
    (answer.calls(), answer.message()["content"].clone(), answer.header("x-toolgate-guardrail").to_owned())
}

fn paris() -> Vec<(String, String)> {
    vec![("get_weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())]
}

#[tokio::test]
async fn each_form_becomes_a_call() {
    for text in [
        r#"{"name":"get_weather","arguments":{"city":"Paris"}}"#,
        r#"{"tool":"get_weather","args":{"city":"Paris"}}"#,
        r#"{"function":"get_weather","parameters":{"city":"Paris"}}"#,
        r#"<tool_call>{"name":"get_weather","arguments":{"city":"Paris"}}</tool_call>"#,
        r#"[{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}]"#,
        r#"[TOOL_CALLS]get_weather{"city":"Paris"}"#,
        r#"[TOOL_CALLS][{"name":"get_weather","arguments":{"city":"Paris"}}]"#,
        r#"get_weather[ARGS]{"city":"Paris"}"#,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        r#"<think>call {"name":"add","arguments":{"a":1,"b":2}}</think>{"name":"get_weather","arguments":{"city":"Paris"}}"#,
    ] {
        let (calls, content, guardrail) = read(text).await;
        assert_eq!((calls, content, guardrail.as_str()), (paris(), Value::Null, "rescued"), "{text}");
    }
}

#[tokio::test]
async fn prose_around_a_call_stays_content() {
    let (calls, content, _) = read("Let me check.\n```json\n{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}\n```").await;
    assert_eq!((calls, content), (paris(), json!("Let me check.")));
}

#[tokio::test]
async fn several_calls_come_in_order_and_with_ids_of_their_own() {
    let text = r#"{"name":"get_weather","arguments":{"city":"Paris"}} {"name":"add","arguments":{"a":1,"b":2}}"#;
    let (proxy, _upstream) = proxy_before([Reply::text(text)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(answer.calls()[1], ("add".to_owned(), r#"{"a":1,"b":2}"#.to_owned()));
    let calls = answer.message()["tool_calls"].clone();
    assert!(calls[0]["id"].as_str().unwrap().starts_with("call_") && calls[0]["id"] != calls[1]["id"], "{calls}");
    assert_eq!(answer.finish_reason(), "tool_calls");
}

#[tokio::test]
async fn values_of_xml_take_the_types_of_the_schema() {
    let text = "<function=add><parameter=a>1</parameter><parameter=b>-2</parameter></function>";
    let (calls, ..) = read(text).await;
    assert_eq!(serde_json::from_str::<Value>(&calls[0].1).unwrap(), json!({"a": 1, "b": -2}));
}

#[tokio::test]
async fn a_rescued_call_is_validated_like_any_other() {
    let bad = Reply::text(r#"{"name":"add","arguments":{"a":"one","b":2}}"#);
    let (proxy, upstream) = proxy_before([bad, Reply::call("add", r#"{"a":1,"b":2}"#)]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-explain", "1")]).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    let attempts = answer.json()["toolgate"]["attempts"].clone();
    assert_eq!(
        (&attempts[0]["fault"], &attempts[0]["form"], &attempts[0]["rescued"]),
        (&json!("arguments"), &json!("json"), &json!(["add"]))
    );
    let messages = upstream.requests()[1].json()["messages"].clone();
    assert_eq!(messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]);
    assert!(messages[2]["content"].as_str().unwrap().contains("/a"), "{messages}");
}

#[tokio::test]
async fn a_structured_call_leaves_text_alone() {
    let text = r#"{"name":"add","arguments":{"a":1,"b":2}}"#;
    let (proxy, _upstream) = proxy_before([crate::harness::paris().saying(text)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.calls(), answer.content(), answer.outcome()), (paris(), text.to_owned(), (200, "clean", "1")));
}

#[tokio::test]
async fn thoughts_hold_no_calls() {
    for text in [
        r#"<think>{"name":"get_weather","arguments":{"city":"Paris"}}</think>"#,
        r#"<thinking>{"name":"get_weather","arguments":{"city":"Paris"}}"#,
        r#"[THINK]get_weather[ARGS]{"city":"Paris"}[/THINK]"#,
    ] {
        let (calls, _, guardrail) = read(text).await;
        assert_eq!((calls.len(), guardrail.as_str()), (0, "exhausted"), "{text}");
    }
}
