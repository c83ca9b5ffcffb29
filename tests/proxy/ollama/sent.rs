//! What of a request reaches an Ollama, and how.

use serde_json::{Value, json};

use super::{bodies, paris, proxy_before, proxy_with, shown, text};
use crate::harness::{Reply, chat, question_with};

#[tokio::test]
async fn every_message_has_ollamas_form() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1,\"b\":2}"}});
    let messages = json!([
        {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "See?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "user", "content": "And Paris?"},
    ]);
    assert_eq!(proxy.ask(&question_with(json!({ "messages": messages }))).await.calls().len(), 1);
    assert_eq!(
        bodies(&upstream)[0]["messages"],
        json!([
            {"role": "system", "content": "Be\nbrief."},
            {"role": "user", "content": "See?", "images": ["AAAA"]},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}]},
            {"role": "tool", "content": "3", "tool_name": "add", "tool_call_id": "c1"},
            {"role": "user", "content": "And Paris?"},
        ])
    );
}

#[tokio::test]
async fn a_picture_elsewhere_is_refused_before_anyone_is_asked() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let content = json!([{"type": "text", "text": "See?"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]);
    let answer = proxy.ask(&question_with(json!({"messages": [{"role": "user", "content": content}]}))).await;
    let error = answer.error();
    assert_eq!((answer.status, &error["param"], &error["code"]), (400, &json!("messages"), &json!("unsupported_by_backend")));
    assert!(error["message"].as_str().unwrap().starts_with("messages[0].content[1].image_url: "), "{error}");
    assert!(bodies(&upstream).is_empty());
}

#[tokio::test]
async fn the_form_of_the_answer_arrives_as_format() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let (proxy, upstream) = proxy_before([text("{\"x\":1}")]).await;
    let mut request = chat();
    request["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}});
    assert_eq!(proxy.ask(&request).await.content(), "{\"x\":1}");
    request["response_format"] = json!({"type": "json_object"});
    proxy.ask(&request).await;
    let sent = bodies(&upstream);
    assert_eq!((&sent[0]["format"], &sent[1]["format"]), (&schema, &json!("json")));
}

#[tokio::test]
async fn sampling_and_settings_arrive_as_options() {
    let (proxy, upstream) = proxy_with([text("hi")], "num_ctx = 6000\nkeep_alive = \"10m\"\nthink = false").await;
    let mut request = chat();
    for (name, value) in [("temperature", json!(0.5)), ("stop", json!("END")), ("max_tokens", json!(7)), ("options", json!({"top_k": 3}))] {
        request[name] = value;
    }
    assert_eq!(proxy.ask(&request).await.content(), "hi");
    request["keep_alive"] = json!(0);
    request["think"] = json!(true);
    request["options"]["num_ctx"] = json!(512);
    proxy.ask(&request).await;
    let sent = bodies(&upstream);
    assert_eq!(sent[0]["options"], json!({"temperature": 0.5, "stop": ["END"], "num_predict": 7, "top_k": 3, "num_ctx": 6000}));
    assert_eq!((&sent[0]["keep_alive"], &sent[0]["think"]), (&json!("10m"), &json!(false)));
    assert_eq!((&sent[1]["keep_alive"], &sent[1]["think"], &sent[1]["options"]["num_ctx"]), (&json!(0), &json!(true), &json!(512)));
}

#[tokio::test]
async fn the_context_is_as_long_as_it_must_be_and_does_not_shrink() {
    let (proxy, upstream) = proxy_before([text("hi")]).await;
    let ask = async |words: usize| {
        let mut request = chat();
        request["messages"][0]["content"] = json!("word ".repeat(words));
        proxy.ask(&request).await;
        bodies(&upstream).last().unwrap()["options"]["num_ctx"].as_u64().unwrap()
    };
    assert_eq!((ask(1).await, ask(1500).await, ask(1).await), (4096, 8192, 8192));
    // The model was made for no more.
    assert_eq!(ask(20_000).await, 8192);
    let shows = upstream.requests().iter().filter(|request| request.path == "/api/show").count();
    assert_eq!(shows, 1, "it is asked once");
}

#[tokio::test]
async fn the_context_is_no_shorter_than_the_models_owner_set() {
    let (proxy, upstream) = proxy_before([text("hi")]).await;
    let mut set = shown(40_960);
    set["parameters"] = json!("num_ctx                        16384");
    upstream.at("/api/show", Reply::json(200, &set.to_string()));
    proxy.ask(&chat()).await;
    assert_eq!(bodies(&upstream)[0]["options"]["num_ctx"], 16_384);
}

#[tokio::test]
async fn where_nothing_is_known_of_a_model_it_is_asked_all_the_same() {
    let (proxy, upstream) = proxy_before([text("hi")]).await;
    upstream.at("/api/show", Reply::error(500, "no"));
    let mut request = chat();
    request["max_tokens"] = json!(10_000);
    assert_eq!(proxy.ask(&request).await.status, 200);
    assert_eq!(bodies(&upstream)[0]["options"]["num_ctx"], 16_384);
    upstream.at("/api/show", Reply::json(200, &shown(9000).to_string()));
    request["model"] = json!("other");
    proxy.ask(&request).await;
    assert_eq!(bodies(&upstream)[1]["options"]["num_ctx"], 9000);
}

#[tokio::test]
async fn the_server_may_keep_its_own_context() {
    let (proxy, upstream) = proxy_with([text("hi")], "num_ctx = \"server\"").await;
    proxy.ask(&chat()).await;
    assert_eq!(bodies(&upstream)[0]["options"], Value::Null);
}

#[tokio::test]
async fn the_key_is_the_only_identity() {
    let (proxy, upstream) = proxy_with([text("hi")], "api_key = \"configured-key\"").await;
    proxy.ask_with(&chat(), &[("authorization", "Bearer callers-key")]).await;
    for request in upstream.requests() {
        assert_eq!(request.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer configured-key"], "{}", request.path);
    }
}
