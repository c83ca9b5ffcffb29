//! Replies that a token limit or a filter cut off: never repaired, never half a call.

use serde_json::{Value, json};
use toolgate::inference::Constrain;

use crate::harness::{Proxy, Reply, Upstream, events, fold, paris, proxy_before, question, question_with};

async fn cut(reply: Reply) -> (Value, Upstream) {
    let upstream = Upstream::saying([reply]).await;
    let proxy = Proxy::start(&upstream).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(answer.outcome(), (200, "clean", "1"));
    assert_eq!(upstream.calls(), 1, "what is cut is not asked again");
    (answer.json()["choices"][0].clone(), upstream)
}

#[tokio::test]
async fn text_is_handed_on_as_far_as_it_goes() {
    for text in ["It is sunn", r#"{"name":"get_weather","arguments":{"city":"Paris"}}"#, ""] {
        let (choice, _) = cut(Reply::text(text).finishing("length")).await;
        assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!(text), &json!("length")));
        assert_eq!(choice["message"]["tool_calls"], Value::Null);
    }
}

#[tokio::test]
async fn a_cut_call_is_not_handed_on() {
    for arguments in [r#"{"city":"Par"#, r#"{"city":"#, "", "{"] {
        let (choice, _) = cut(Reply::call("get_weather", arguments).finishing("length")).await;
        assert_eq!((&choice["message"]["tool_calls"], &choice["finish_reason"]), (&Value::Null, &json!("length")), "{arguments}");
    }
}

#[tokio::test]
async fn a_limit_is_one_in_any_words() {
    for limit in ["model_length", "max_tokens", "MAX_TOKENS"] {
        let (choice, _) = cut(Reply::call("get_weather", r#"{"city":"Par"#).finishing(limit)).await;
        assert_eq!((&choice["message"]["tool_calls"], &choice["finish_reason"]), (&Value::Null, &json!("length")), "{limit}");
    }
}

#[tokio::test]
async fn a_whole_call_before_the_cut_is_handed_on() {
    let reply = Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1"#)]).finishing("length");
    let (choice, _) = cut(reply).await;
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["function"]["name"]), (1, &json!("get_weather")));
    assert_eq!(choice["finish_reason"], "length");
}

#[tokio::test]
async fn a_cut_response_flows_as_content() {
    let (choice, _) = cut(Reply::call("respond", r#"{"message":"It is \"sunny\" and"#).finishing("length")).await;
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("It is \"sunny\" and"), &json!("length")));
}

#[tokio::test]
async fn a_filtered_reply_is_not_asked_again() {
    let (choice, _) = cut(Reply::text("It").finishing("content_filter")).await;
    assert_eq!(choice["finish_reason"], "content_filter");
}

#[tokio::test]
async fn a_stream_says_the_same() {
    let upstream = Upstream::saying([Reply::call("get_weather", r#"{"city":"Par"#).finishing("length")]).await;
    let proxy = Proxy::start(&upstream).await;
    let whole = fold(&events(&proxy.ask(&question_with(json!({"stream": true}))).await.body));
    assert_eq!((&whole["finish_reason"], &whole["message"]["tool_calls"]), (&json!("length"), &Value::Null));
}

#[tokio::test]
async fn a_cut_call_is_not_handed_on_with_validation_off() {
    let upstream = Upstream::saying([Reply::call("get_weather", r#"{"city":"Par"#).finishing("length")]).await;
    let proxy = Proxy::start(&upstream).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-disable", "validate")]).await;
    assert_eq!((answer.calls().len(), answer.finish_reason().as_str()), (0, "length"));
}

#[tokio::test]
async fn a_cut_reply_obeys_one_call_at_a_time() {
    let reply = Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#)]).finishing("length");
    let upstream = Upstream::saying([reply, paris()]).await;
    let proxy = Proxy::start(&upstream).await;
    let answer = proxy.ask(&question_with(json!({"parallel_tool_calls": false}))).await;
    assert_eq!(answer.calls().len(), 1);
}

#[tokio::test]
async fn a_call_followed_by_white_space_up_to_the_limit_is_whole() {
    let text = "```json\n{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}\n```\n\n\n";
    let (proxy, upstream) = proxy_before([Reply::text(text).finishing("length")]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.finish_reason()), ((200, "rescued", "1"), "tool_calls".to_owned()));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn endless_white_space_behind_a_call_stops_the_model() {
    let call = r#"{"name":"get_weather","arguments":{"city":"Paris"}}"#;
    let chunk = |text: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{}}}}}]}}"#, json!(text));
    let mut chunks = vec![chunk(call)];
    chunks.extend((0..400).map(|_| chunk("\n")));
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let upstream = Upstream::saying([Reply::events(&chunks).stalling_after(401)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.constrain = Constrain::Never).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "required"}))).await;
    assert_eq!((answer.outcome(), answer.finish_reason()), ((200, "rescued", "1"), "tool_calls".to_owned()));
    upstream.cancelled().await;
}

#[tokio::test]
async fn white_space_in_the_middle_of_a_text_is_text() {
    let text = format!("a{}b", " ".repeat(900));
    let (proxy, _upstream) = proxy_before([Reply::text(&text)]).await;
    let answer = proxy.ask_with(&question_with(json!({"tool_choice": "required"})), &[("x-toolgate-disable", "nudge")]).await;
    assert_eq!(answer.content(), text);
}
