//! Reasoning that the backend leaves in the content.

use serde_json::{Value, json};

use crate::harness::{Reply, events, fold, paris, proxy_before, question, question_with};

#[tokio::test]
async fn it_is_told_apart_from_the_text() {
    for size in [1, 4, 500] {
        let said = r#"<think>{"name": "get_weather", "arguments": {"city": "Rome"}} perhaps?</think>

{"name": "get_weather", "arguments": {"city": "Paris"}}"#;
        let (proxy, _upstream) = proxy_before([Reply::text(said).in_tokens_of(size)]).await;
        let whole = fold(&events(&proxy.ask(&question_with(json!({"stream": true}))).await.body));
        let message = &whole["message"];
        assert_eq!(message["reasoning_content"], r#"{"name": "get_weather", "arguments": {"city": "Rome"}} perhaps?"#);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"city": "Paris"}"#);
        assert_eq!(message["content"], Value::Null);
    }
}

#[tokio::test]
async fn it_flows_before_a_structured_call() {
    let (proxy, _upstream) = proxy_before([paris().saying("<think>Hm.</think>\n").in_tokens_of(3)]).await;
    let message = proxy.ask(&question()).await.message();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Hm."), &Value::Null));
}

#[tokio::test]
async fn its_end_alone_is_told_apart_when_the_text_is_judged() {
    let said = "It may be Paris.</think>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}";
    let (proxy, _upstream) = proxy_before([Reply::text(said).in_tokens_of(3)]).await;
    let answer = proxy.ask(&question()).await;
    let message = answer.message();
    assert_eq!((answer.calls().len(), &message["content"]), (1, &Value::Null));
    assert_eq!(message["reasoning_content"], "It may be Paris.");
}
