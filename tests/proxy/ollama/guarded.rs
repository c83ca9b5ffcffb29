//! The guardrails in front of an Ollama, which ignores half of what a request may ask of it.

use serde_json::{Value, json};

use super::{bodies, calls, chats, line, paris, proxy_before, refusal, text};
use crate::harness::{Reply, question, question_with};

const PARIS: &str = r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#;

fn paris_call() -> (String, String) {
    ("get_weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())
}

#[tokio::test]
async fn a_call_is_told_in_the_words_of_openai() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.finish_reason()), ((200, "clean", "1"), "tool_calls".to_owned()));
    assert_eq!(answer.calls(), [paris_call()]);
    assert!(answer.message()["tool_calls"][0]["id"].as_str().unwrap().starts_with("call_"));
    let whole = answer.json();
    assert_eq!((&whole["model"], &whole["created"]), (&json!("tiny"), &json!(1_789_659_779)));
    assert_eq!((&whole["usage"]["prompt_tokens"], &whole["usage"]["completion_tokens"]), (&json!(10), &json!(5)));
    let sent = chats(&upstream).remove(0);
    assert_eq!((sent.method.as_str(), &sent.json()["stream"]), ("POST", &json!(true)));
    assert_eq!(sent.json()["tools"].as_array().map(Vec::len), Some(3), "two and `respond`");
}

#[tokio::test]
async fn a_call_in_text_is_rescued() {
    for said in [PARIS.to_owned(), format!("<tool_call>\n{PARIS}\n</tool_call>")] {
        let (proxy, upstream) = proxy_before([text(&said)]).await;
        let answer = proxy.ask(&question()).await;
        assert_eq!((answer.outcome(), answer.calls().len(), chats(&upstream).len()), ((200, "rescued", "1"), 1, 1), "{said}");
    }
}

#[tokio::test]
async fn a_call_that_is_required_is_made() {
    let (proxy, upstream) = proxy_before([text("It is sunny."), paris()]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "required"}))).await;
    assert_eq!((answer.outcome(), answer.calls()), ((200, "nudged", "2"), vec![paris_call()]));
    assert!(bodies(&upstream).iter().all(|sent| sent["tool_choice"].is_null()), "Ollama has no such field");
}

#[tokio::test]
async fn where_no_call_is_wanted_no_tool_is_shown() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "none"}))).await;
    assert_eq!((answer.outcome(), answer.calls().len()), ((200, "clean", "1"), 0));
    assert_eq!(bodies(&upstream)[0]["tools"], Value::Null);
}

#[tokio::test]
async fn one_call_at_a_time_is_one_call() {
    let two = || calls(&[("get_weather", json!({"city": "Paris"})), ("add", json!({"a": 1, "b": 2}))]);
    let (proxy, _upstream) = proxy_before([two()]).await;
    assert_eq!(proxy.ask(&question()).await.calls().len(), 2);
    let answer = proxy.ask(&question_with(json!({"parallel_tool_calls": false}))).await;
    assert_eq!(answer.calls(), [paris_call()]);
}

#[tokio::test]
async fn wrong_arguments_are_corrected_in_ollamas_own_form() {
    let (proxy, upstream) = proxy_before([calls(&[("add", json!({"a": 1}))]), calls(&[("add", json!({"a": 1, "b": 2}))])]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.calls()[0].1.as_str()), ((200, "nudged", "2"), r#"{"a":1,"b":2}"#));
    let messages = bodies(&upstream)[1]["messages"].as_array().unwrap().clone();
    let [said, result] = &messages[messages.len() - 2..] else { panic!("{messages:?}") };
    assert_eq!(said["tool_calls"][0]["function"], json!({"name": "add", "arguments": {"a": 1}}));
    assert_eq!(
        (&result["role"], &result["tool_name"], &result["tool_call_id"]),
        (&json!("tool"), &json!("add"), &said["tool_calls"][0]["id"])
    );
}

#[tokio::test]
async fn the_reply_after_a_wrong_one_is_held_to_a_form() {
    let (proxy, upstream) = proxy_before([text("Sunny."), text(PARIS)]).await;
    assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
    let sent = bodies(&upstream);
    assert_eq!(sent[0]["format"], Value::Null);
    let names: Vec<&Value> =
        sent[1]["format"]["anyOf"].as_array().unwrap().iter().map(|call| &call["properties"]["name"]["const"]).collect();
    assert_eq!(names, ["get_weather", "add", "respond"]);
    assert_eq!(sent[0]["tools"], sent[1]["tools"], "the prompt's cache still fits");
}

#[tokio::test]
async fn a_form_that_makes_no_grammar_is_left_out_and_not_tried_again() {
    let cannot = refusal(500, "invalid JSON schema in format");
    let (proxy, upstream) = proxy_before([text("Sunny."), cannot, paris(), text("Sunny."), paris()]).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "2"));
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "2"));
    let forced: Vec<bool> = bodies(&upstream).iter().map(|sent| !sent["format"].is_null()).collect();
    assert_eq!(forced, [false, true, false, false, false]);
}

#[tokio::test]
async fn schemas_that_ollama_cannot_read_are_reduced() {
    let odd = json!({"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "any": true}, "required": ["city"]
    }}});
    let said = "json: cannot unmarshal bool into Go struct field ToolFunctionParameters.tools.function.parameters.properties of type api.ToolProperty";
    let (proxy, upstream) = proxy_before([refusal(400, said), paris()]).await;
    assert_eq!(proxy.ask(&question_with(json!({"tools": [odd]}))).await.calls(), [paris_call()]);
    let sent = bodies(&upstream);
    let any = |sent: &Value| sent["tools"][0]["function"]["parameters"]["properties"]["any"].clone();
    assert_eq!((any(&sent[0]), any(&sent[1])), (json!(true), json!({})));
}

/// The name without a tag is the newest, which is listed with one.
#[tokio::test]
async fn a_model_that_declares_no_tools_reads_them_in_its_prompt() {
    let (proxy, upstream) = proxy_before([text(PARIS)]).await;
    upstream.at("/api/tags", Reply::json(200, r#"{"models":[{"name":"tiny:latest","digest":"d1"}]}"#));
    upstream.at("/api/show", Reply::json(200, r#"{"capabilities":["completion"]}"#));
    for _ in 0..2 {
        assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
    }
    for sent in bodies(&upstream) {
        assert_eq!((&sent["tools"], &sent["messages"][0]["role"]), (&Value::Null, &json!("system")));
        assert!(sent["messages"][0]["content"].as_str().unwrap().contains("get_weather"), "{sent}");
    }
    assert_eq!(proxy.get("/v1/models/tiny").await.json()["id"], "tiny:latest");
    assert_eq!(proxy.get("/v1/models/tiny:7b").await.status, 404);
}

#[tokio::test]
async fn log_probabilities_arrive() {
    let mut said = line(json!({"content": "Hello"}));
    said["logprobs"] = json!([{"token": "Hello", "logprob": -0.25}]);
    let (proxy, upstream) = proxy_before([Reply::lines(&[said, super::last("stop")])]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "none", "logprobs": true, "top_logprobs": 1}))).await;
    let expected = json!([{"token": "Hello", "logprob": -0.25, "bytes": null, "top_logprobs": []}]);
    assert_eq!(answer.json()["choices"][0]["logprobs"]["content"], expected);
    assert_eq!((&bodies(&upstream)[0]["logprobs"], &bodies(&upstream)[0]["top_logprobs"]), (&json!(true), &json!(1)));
}
