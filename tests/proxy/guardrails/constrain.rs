//! Replies that are forced into the form of one call.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::inference::{Constrain, RetrySampling};

use crate::harness::{Proxy, Reply, Upstream, events, fold, paris, proxy_before, question, question_with, text_so_far, tool};

const PARIS: &str = r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#;

fn form(request: &Value) -> Value {
    request["response_format"]["json_schema"]["schema"].clone()
}

fn names(request: &Value) -> Value {
    form(request)["anyOf"].as_array().into_iter().flatten().map(|call| call["properties"]["name"]["const"].clone()).collect()
}

async fn requests(upstream: &Upstream) -> Vec<Value> {
    upstream.requests().iter().map(|request| request.json()).collect()
}

#[tokio::test]
async fn the_reply_after_a_wrong_one_is_one_call() {
    let (proxy, upstream) = proxy_before([Reply::text("Sunny."), Reply::text(PARIS).in_tokens_of(3)]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "auto"}))).await;
    assert_eq!(answer.calls(), [("get_weather".to_owned(), r#"{"city": "Paris"}"#.to_owned())]);
    let sent = requests(&upstream).await;
    assert_eq!((&sent[0]["response_format"], &sent[0]["tool_choice"]), (&Value::Null, &json!("auto")));
    assert_eq!(sent[1]["response_format"]["type"], "json_schema");
    assert_eq!((names(&sent[1]), &sent[1]["tool_choice"]), (json!(["get_weather", "add", "respond"]), &Value::Null));
    // The tools stay in the prompt, whose cache still fits.
    assert_eq!(sent[0]["tools"], sent[1]["tools"]);
    let call = &form(&sent[1])["anyOf"][0];
    assert_eq!(
        call["properties"]["arguments"],
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    );
}

#[tokio::test]
async fn what_it_says_through_respond_flows() {
    let said = r#"{"name": "respond", "arguments": {"message": "It is sunny in Paris, and will stay so."}}"#;
    let (proxy, upstream) =
        proxy_before([Reply::text("Sunny."), Reply::text(said).in_tokens_of(4).dripping(Duration::from_millis(15))]).await;
    let mut stream = proxy.ask_slowly(&question_with(json!({"stream": true}))).await;
    let mut seen = String::new();
    while !text_so_far(&seen).contains("sunny") {
        seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().0).unwrap());
    }
    assert_eq!(upstream.finished(), 1, "the model still speaks");
    seen.push_str(stream.whole().await.unwrap().text());
    assert_eq!(fold(&events(seen.as_bytes()))["message"]["content"], "It is sunny in Paris, and will stay so.");
}

#[tokio::test]
async fn after_wrong_arguments_it_is_that_tool_or_words() {
    let (proxy, upstream) = proxy_before([Reply::call("add", r#"{"a":1}"#), paris()]).await;
    proxy.ask(&question()).await;
    assert_eq!(names(&requests(&upstream).await[1]), json!(["add", "respond"]));
}

#[tokio::test]
async fn a_backend_that_ignores_the_form_is_read_as_ever() {
    let (proxy, _upstream) = proxy_before([Reply::text("Sunny."), Reply::text(&format!("Sure: {PARIS}"))]).await;
    assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
    let (proxy, _upstream) = proxy_before([Reply::text("Sunny."), paris().in_tokens_of(2)]).await;
    assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
}

#[tokio::test]
async fn a_backend_that_cannot_force_is_asked_without_and_not_tried_again() {
    let refusal = Reply::error(400, "response_format is not supported");
    let (proxy, upstream) = proxy_before([Reply::text("Sunny."), refusal, paris(), Reply::text("Sunny."), paris()]).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "2"));
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "2"));
    let forced: Vec<bool> = requests(&upstream).await.iter().map(|sent| !sent["response_format"].is_null()).collect();
    assert_eq!(forced, [false, true, false, false, false]);
}

#[tokio::test]
async fn schemas_that_make_no_grammar_are_reduced_and_remembered() {
    let odd = tool(
        "find",
        json!({"type": "object", "properties": {"what": {"type": "string", "pattern": "x$", "minLength": 90_000}}, "required": ["what"]}),
    );
    let refusal = Reply::error(400, "Failed to initialize samplers: failed to parse grammar");
    let wrong = Reply::call("find", r#"{"what":"y"}"#);
    let (proxy, upstream) = proxy_before([refusal, wrong.clone(), wrong]).await;
    let request = question_with(json!({"tools": [odd]}));
    // What the model writes is checked against the whole schema all the same.
    assert_eq!(proxy.ask(&request).await.status, 502);
    let sent = requests(&upstream).await;
    assert_eq!(sent[0]["tools"][0]["function"]["parameters"]["properties"]["what"]["pattern"], "x$");
    for sent in &sent[1..] {
        let expected = json!({"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]});
        assert_eq!(sent["tools"][0]["function"]["parameters"], expected);
    }
    let before = upstream.calls();
    proxy.ask(&request).await;
    assert_eq!(requests(&upstream).await[before]["tools"], sent[1]["tools"], "the first attempt knows");
}

#[tokio::test]
async fn a_reply_that_the_server_could_not_read_is_rescued_or_asked_again() {
    let unread = |said: &str| Reply::error(500, &format!("Failed to parse input at pos 0: {said}"));
    let (proxy, upstream) = proxy_before([unread(PARIS)]).await;
    assert_eq!((proxy.ask(&question()).await.outcome(), upstream.calls()), ((200, "rescued", "1"), 1));
    let (proxy, upstream) = proxy_before([unread("<tool_call>{\"name"), paris()]).await;
    assert_eq!((proxy.ask(&question()).await.outcome(), upstream.calls()), ((200, "nudged", "2"), 2));
}

#[tokio::test]
async fn it_can_be_always_or_never() {
    for (when, forced) in [(Constrain::Always, [true, true]), (Constrain::Never, [false, false])] {
        let upstream = Upstream::saying([Reply::text("Sunny."), paris()]).await;
        let proxy = Proxy::start_with(&upstream, |config| config.inference.constrain = when).await;
        assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
        let sent: Vec<bool> = requests(&upstream).await.iter().map(|sent| !sent["response_format"].is_null()).collect();
        assert_eq!(sent, forced, "{when:?}");
    }
}

#[tokio::test]
async fn a_form_that_the_client_wants_is_left_alone() {
    let (proxy, upstream) = proxy_before([Reply::text("Sunny."), paris()]).await;
    proxy.ask(&question_with(json!({"response_format": {"type": "json_object"}}))).await;
    assert_eq!(requests(&upstream).await[1]["response_format"], json!({"type": "json_object"}));
}

#[tokio::test]
async fn a_retry_is_sampled_otherwise_where_configured() {
    let upstream = Upstream::saying([Reply::text("Sunny."), Reply::text("Sunny."), paris()]).await;
    let sampling = RetrySampling { temperature_step: 0.25, seed_step: 10 };
    let proxy = Proxy::start_with(&upstream, |config| config.inference.retry_sampling = sampling).await;
    proxy.ask(&question_with(json!({"temperature": 0.5, "seed": 7}))).await;
    let sent: Vec<(f64, u64)> =
        requests(&upstream).await.iter().map(|sent| (sent["temperature"].as_f64().unwrap(), sent["seed"].as_u64().unwrap())).collect();
    assert_eq!(sent, [(0.5, 7), (0.75, 17), (1.0, 27)]);
}

#[tokio::test]
async fn where_one_tool_is_wanted_the_model_sees_no_other() {
    let (proxy, upstream) = proxy_before([Reply::text("Sunny."), paris()]).await;
    let named = json!({"type": "function", "function": {"name": "get_weather"}});
    assert_eq!(proxy.ask(&question_with(json!({"tool_choice": named}))).await.calls().len(), 1);
    let sent = requests(&upstream).await;
    assert_eq!(sent[0]["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(names(&sent[1]), json!(["get_weather"]));
}
