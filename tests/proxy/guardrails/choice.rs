//! `tool_choice` and `parallel_tool_calls`.

use serde_json::{Value, json};

use crate::harness::{Reply, add, paris, proxy_before, question_with};

#[tokio::test]
async fn without_a_free_choice_respond_is_not_offered() {
    let check = async |choice: Value, responds: bool| {
        let (proxy, upstream) = proxy_before([paris()]).await;
        let answer = proxy.ask(&question_with(json!({"tool_choice": choice}))).await;
        assert_eq!(answer.calls().len(), 1);
        let sent = upstream.only_request();
        assert_eq!(sent.text().contains("\"respond\""), responds, "{choice}");
        // A call that is required is asked for by its form.
        let is_forced = sent.json()["response_format"]["type"] == "json_schema";
        assert_eq!((sent.json()["tool_choice"] == choice, is_forced), (responds, !responds), "{choice}");
    };
    check(Value::Null, true).await;
    check(json!("auto"), true).await;
    check(json!("required"), false).await;
    check(json!({"type": "function", "function": {"name": "get_weather"}}), false).await;
}

/// "When `tool_choice` is absent or `auto`": an object that names no function is neither.
#[tokio::test]
async fn beside_a_choice_in_another_form_respond_is_not_offered() {
    let allowed = json!([{"type": "function", "function": {"name": "get_weather"}}]);
    let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": allowed}});
    let (proxy, upstream) = proxy_before([paris()]).await;
    proxy.ask(&question_with(json!({"tool_choice": choice}))).await;
    let sent = upstream.only_request();
    assert_eq!(sent.json()["tool_choice"], choice);
    assert!(!sent.text().contains("\"respond\""));
}

#[tokio::test]
async fn none_withholds_the_tools_and_takes_any_call_for_text() {
    let (proxy, upstream) = proxy_before([paris().saying("Look:")]).await;
    let request = question_with(json!({"tool_choice": "none", "parallel_tool_calls": true}));
    let answer = proxy.ask(&request).await;
    assert_eq!((answer.outcome(), answer.finish_reason()), ((200, "clean", "1"), "stop".to_owned()));
    assert_eq!(answer.calls(), []);
    let content = answer.content();
    assert!(content.starts_with("Look:") && content.contains("get_weather") && content.contains("Paris"), "{content}");
    let sent = upstream.only_request().json();
    for field in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert_eq!(sent[field], Value::Null, "{field}");
    }
}

#[tokio::test]
async fn none_leaves_a_call_in_text_alone() {
    let text = r#"{"name":"get_weather","arguments":{"city":"Paris"}}"#;
    let (proxy, upstream) = proxy_before([Reply::text(text)]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "none"}))).await;
    assert_eq!((answer.outcome(), answer.content()), ((200, "clean", "1"), text.to_owned()));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn required_text_is_corrected_without_a_word_of_respond() {
    let (proxy, upstream) = proxy_before([Reply::text("Sunny!"), paris()]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "required"}))).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    assert!(!upstream.requests()[1].text().contains("respond"));
}

#[tokio::test]
async fn only_the_named_function_may_be_called() {
    let named = json!({"tool_choice": {"type": "function", "function": {"name": "add"}}});
    let (proxy, upstream) = proxy_before([paris(), Reply::text("3"), Reply::call("add", r#"{"a":1,"b":2}"#)]).await;
    let answer = proxy.ask(&question_with(named)).await;
    assert_eq!(answer.calls(), [("add".to_owned(), r#"{"a":1,"b":2}"#.to_owned())]);
    let messages = upstream.requests()[2].json()["messages"].clone();
    assert!(messages[2]["content"].as_str().unwrap().contains("Call `add` instead"), "{messages}");
    assert!(messages[4]["content"].as_str().unwrap().contains("`add`"), "{messages}");
}

#[tokio::test]
async fn a_choice_of_what_is_not_offered_is_refused() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": {"type": "function", "function": {"name": "rm"}}}))).await;
    assert_eq!((answer.status, answer.error()["param"].as_str()), (400, Some("tool_choice")));
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn one_call_at_a_time_keeps_the_first_valid_one() {
    let check = async |calls: &[(&str, &str)], kept: &str, content: Option<&str>| {
        let (proxy, upstream) = proxy_before([Reply::calls(calls)]).await;
        let answer = proxy.ask(&question_with(json!({"parallel_tool_calls": false, "tools": [crate::harness::weather(), add()]}))).await;
        let names: Vec<_> = answer.calls().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [kept]);
        assert_eq!(answer.message()["content"].as_str(), content);
        assert_eq!(upstream.calls(), 1);
        assert_eq!(upstream.only_request().json()["parallel_tool_calls"], json!(false));
    };
    let (paris, sum, bad) = (("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#), ("add", r#"{"a":1}"#));
    check(&[paris, sum], "get_weather", None).await;
    check(&[bad, paris, sum], "get_weather", None).await;
    check(&[("nope", "{}"), sum, paris], "add", None).await;
    check(&[("respond", r#"{"message":"Wait."}"#), sum, paris], "add", Some("Wait.")).await;
}

#[tokio::test]
async fn several_calls_are_kept_in_order_otherwise() {
    let calls = [("add", r#"{"a":1,"b":2}"#), ("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#)];
    let (proxy, _upstream) = proxy_before([Reply::calls(&calls)]).await;
    let answer = proxy.ask(&question_with(json!({}))).await;
    assert_eq!(answer.calls(), calls.map(|(name, arguments)| (name.to_owned(), arguments.to_owned())));
}
