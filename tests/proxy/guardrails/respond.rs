//! The synthetic `respond` tool: offered last, never seen by the client.

use serde_json::{Value, json};

use crate::harness::{Reply, paris, proxy_before, question, question_with, tool, weather};

#[tokio::test]
async fn it_is_offered_after_the_clients_own_tools() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    proxy.ask(&question()).await;
    let sent = upstream.only_request().json();
    let names: Vec<_> = sent["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get_weather", "add", "respond"]);
    assert_eq!(sent["tools"][2]["function"]["parameters"]["required"], json!(["message"]));
}

#[tokio::test]
async fn the_clients_tools_keep_their_bytes_beside_it() {
    let tools = "[ {\"function\" :{\"parameters\":{ \"minimum\":1e2, \"x\":18446744073709551617},\"name\":\"f\"},\"type\":\"function\"} , {\"type\":\"custom\"}\n]";
    let (proxy, upstream) = proxy_before([Reply::text("no"), Reply::call("f", "{}")]).await;
    let answer = proxy.post("/v1/chat/completions", format!("{{\"tools\":{tools},\"messages\":[ ],\"seed\":1.50}}")).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    let [first, second] = &upstream.requests()[..] else { panic!("two attempts") };
    let kept = tools.strip_suffix(']').unwrap();
    for request in [first, second] {
        assert!(request.text().contains(&format!("\"tools\":{kept},{{\"")), "{}", request.text());
        assert!(request.text().contains("\"seed\":1.50"));
    }
    let offered = |text: &str| text.split_once("\"tools\":").unwrap().1.split_once(",\"messages\"").unwrap().0.to_owned();
    assert_eq!(offered(first.text()), offered(second.text()));
}

#[tokio::test]
async fn a_pure_response_is_an_ordinary_message() {
    let (proxy, _upstream) = proxy_before([Reply::call("respond", r#"{"message":"It is sunny."}"#)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.content().as_str(), answer.finish_reason().as_str()), ("It is sunny.", "stop"));
    assert_eq!(answer.outcome(), (200, "clean", "1"));
    assert_eq!(answer.message()["tool_calls"], Value::Null);
    assert!(!answer.text().contains("respond"));
}

#[tokio::test]
async fn beside_the_clients_calls_its_message_is_their_content() {
    let reply =
        Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("respond", r#"{"message":"Let me look."}"#), ("add", r#"{"a":1,"b":2}"#)]);
    let (proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.content().as_str(), answer.finish_reason().as_str()), ("Let me look.", "tool_calls"));
    let names: Vec<_> = answer.calls().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["get_weather", "add"]);
}

#[tokio::test]
async fn several_responses_and_spoken_text_are_paragraphs() {
    let reply = Reply::calls(&[("respond", r#"{"message":"One."}"#), ("respond", r#"{"message":"Two."}"#)]).saying("Zero.");
    let (proxy, _upstream) = proxy_before([reply]).await;
    assert_eq!(proxy.ask(&question()).await.content(), "Zero.\n\nOne.\n\nTwo.");
}

#[tokio::test]
async fn a_tool_of_the_clients_of_that_name_is_left_alone() {
    let own = tool("respond", json!({"type": "object", "properties": {"code": {"type": "integer"}}}));
    let (proxy, upstream) = proxy_before([Reply::call("respond", r#"{"code":7}"#)]).await;
    let request = question_with(json!({"tools": [own, weather()]}));
    let answer = proxy.ask(&request).await;
    assert_eq!(answer.calls(), [("respond".to_owned(), r#"{"code":7}"#.to_owned())]);
    assert_eq!(upstream.only_request().json()["tools"], request["tools"]);
}

#[tokio::test]
async fn text_is_an_answer_beside_a_tool_of_the_clients_of_that_name() {
    let (proxy, upstream) = proxy_before([Reply::text("Hello")]).await;
    let answer = proxy.ask(&question_with(json!({"tools": [tool("respond", json!({}))]}))).await;
    assert_eq!((answer.outcome(), answer.content()), ((200, "clean", "1"), "Hello".to_owned()));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_response_without_a_message_is_corrected() {
    let (proxy, upstream) = proxy_before([Reply::call("respond", r#"{"code":7}"#), Reply::call("respond", r#"{"message":"hi"}"#)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.content()), ((200, "nudged", "2"), "hi".to_owned()));
    let complaint = upstream.requests()[1].json()["messages"][2]["content"].as_str().unwrap().to_owned();
    assert!(complaint.contains("message"), "{complaint}");
}

#[tokio::test]
async fn a_message_under_another_name_is_said() {
    let (proxy, upstream) = proxy_before([Reply::call("respond", r#"{"text":"hi"}"#)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.content()), ((200, "clean", "1"), "hi".to_owned()));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_response_that_says_nothing_does_not_stop_a_good_call() {
    let calls = [("get_weather", r#"{"city":"Paris"}"#), ("respond", "{}")];
    let (proxy, upstream) = proxy_before([Reply::calls(&calls)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(answer.calls(), [("get_weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())]);
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_response_written_as_text_is_read_too() {
    let (proxy, _upstream) =
        proxy_before([Reply::text("```json\n{\"name\":\"respond\",\"arguments\":{\"message\":\"hi {x}\"}}\n```")]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(
        (answer.outcome(), answer.content(), answer.finish_reason()),
        ((200, "rescued", "1"), "hi {x}".to_owned(), "stop".to_owned())
    );
}

#[tokio::test]
async fn an_empty_message_is_an_empty_answer() {
    let (proxy, _upstream) = proxy_before([Reply::call("respond", r#"{"message":""}"#)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.content(), answer.finish_reason()), (String::new(), "stop".to_owned()));
}

#[tokio::test]
async fn the_tool_stays_unseen_with_validation_off() {
    let (proxy, upstream) = proxy_before([Reply::call("respond", r#"{"message":[3]}"#), paris()]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-disable", "validate")]).await;
    assert_eq!((answer.calls()[0].0.as_str(), upstream.calls()), ("get_weather", 2));
}
