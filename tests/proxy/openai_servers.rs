//! Servers of chat completions that are not llama-server: what they want otherwise, what they say otherwise.

use serde_json::{Value, json};

use crate::harness::{Answer, Proxy, Reply, Upstream, chat, events, fold, paris, question, question_with};

async fn proxy_before(replies: impl IntoIterator<Item = Reply>, settings: &str) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    (Proxy::start_before(&upstream, &format!("[backend]\nkind = \"openai\"\n{settings}")).await, upstream)
}

async fn answer_to(reply: Reply) -> Answer {
    proxy_before([reply], "").await.0.ask(&question()).await
}

/// A completion as a server sends it that does not stream.
fn completion(message: Value) -> String {
    json!({
        "id": "c", "object": "chat.completion", "created": 7, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    })
    .to_string()
}

fn call() -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}},
        {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rome"}}},
    ]})
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_all_the_same() {
    let body = completion(call());
    let with_done = format!("{body}\n\ndata: [DONE]\n\n");
    let replies = [
        Reply::json(200, &body),
        Reply::json(200, &body).in_pieces_of(1),
        Reply::body(200, "text/event-stream", &with_done),
        Reply::body(200, "text/plain", &body),
        Reply::body(200, "application/x-ndjson", &body),
        Reply::events(&[&body, "[DONE]"]),
    ];
    for reply in replies {
        let answer = answer_to(reply.clone()).await;
        let arguments: Vec<_> = answer.calls().into_iter().map(|(_, arguments)| arguments).collect();
        assert_eq!(arguments, [r#"{"city":"Paris"}"#, r#"{"city":"Rome"}"#], "{reply:?}");
        assert_eq!((answer.outcome(), answer.finish_reason().as_str()), ((200, "clean", "1"), "tool_calls"));
        assert_eq!(answer.json()["usage"]["total_tokens"], 5);
        let ids: Vec<_> = answer.message()["tool_calls"].as_array().unwrap().iter().map(|call| call["id"].clone()).collect();
        assert!(ids[0] != ids[1] && ids.iter().all(|id| id.as_str().is_some_and(|id| !id.is_empty())), "{ids:?}");
    }
}

#[tokio::test]
async fn what_was_not_streamed_is_streamed_to_the_client() {
    let (proxy, upstream) = proxy_before([Reply::json(200, &completion(json!({"content": "It is sunny."})))], "").await;
    let request = json!({"stream": true, "stream_options": {"include_usage": true}, "tool_choice": "none"});
    let answer = proxy.ask(&question_with(request)).await;
    let message = fold(&events(&answer.body));
    assert_eq!(message["message"]["content"], "It is sunny.", "{message}");
    assert_eq!(message["usage"]["total_tokens"], 5);
    assert_eq!(upstream.only_request().json()["stream"], true);
}

#[tokio::test]
async fn a_stream_may_name_another_type() {
    for kind in ["application/json", "text/plain; charset=utf-8", "application/octet-stream", ""] {
        assert_eq!(answer_to(paris().header("content-type", kind)).await.outcome(), (200, "clean", "1"), "{kind}");
    }
    let answer = answer_to(Reply::body(200, "text/html; charset=utf-8", "<html>secret</html>")).await;
    assert_eq!(answer.error()["code"], "backend_protocol_error");
}

#[tokio::test]
async fn reasoning_reaches_the_client_from_other_fields() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
    let call = json!([{"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}}]);
    for field in ["reasoning", "reasoning_content", "thinking"] {
        let reply = Reply::events(&[&delta(json!({field: "hm"})), &delta(json!({"tool_calls": call})), "[DONE]"]);
        let message = answer_to(reply).await.message();
        assert_eq!(message["reasoning_content"], "hm", "{field}");
    }
}

#[tokio::test]
async fn the_limit_goes_up_under_the_name_that_the_server_takes() {
    for request in [question(), chat()] {
        for (settings, sent, expected, absent) in [
            ("", "max_tokens", "max_tokens", "max_completion_tokens"),
            ("max_tokens_field = \"max_completion_tokens\"", "max_tokens", "max_completion_tokens", "max_tokens"),
            ("max_tokens_field = \"max_tokens\"", "max_completion_tokens", "max_tokens", "max_completion_tokens"),
        ] {
            let (proxy, upstream) = proxy_before([paris()], settings).await;
            let mut request = request.clone();
            request[sent] = json!(64);
            assert_eq!(proxy.ask(&request).await.status, 200);
            let body = upstream.only_request().json();
            assert_eq!((&body[expected], body.get(absent)), (&json!(64), None), "{settings} {body}");
        }
    }
}

#[tokio::test]
async fn stream_options_are_left_out_where_they_are_refused() {
    for (settings, sent) in [("", true), ("stream_options = false", false)] {
        let (proxy, upstream) = proxy_before([paris()], settings).await;
        proxy.ask(&question()).await;
        let own = json!({"stream": true, "stream_options": {"include_usage": true}});
        let mut plain = chat();
        plain.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        proxy.ask(&question_with(own)).await;
        proxy.ask(&plain).await;
        let bodies = upstream.requests();
        assert!(bodies.len() == 3 && bodies.iter().all(|body| body.json().get("stream_options").is_some() == sent), "{settings}");
    }
}

#[tokio::test]
async fn a_request_is_the_clients_own_byte_for_byte_otherwise() {
    let (proxy, upstream) = proxy_before([paris()], "").await;
    let body = r#"{"messages":[ {"role":"user","content":"\u0068i"} ],"max_tokens":1e2,"x":{"b":1,"a":18446744073709551616}}"#;
    proxy.post("/v1/chat/completions", body).await;
    assert_eq!(upstream.only_request().text(), body);
}

#[tokio::test]
async fn an_error_is_told_in_the_words_of_the_server() {
    let check = async |reply: Reply, status: u16, message: &str| {
        let answer = answer_to(reply.clone()).await;
        assert_eq!((answer.status, answer.error()["message"].as_str()), (status, Some(message)), "{reply:?}");
    };
    let vllm = r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#;
    check(Reply::json(400, vllm), 400, "too long").await;
    check(Reply::events(&[vllm, "[DONE]"]), 400, "too long").await;
    check(Reply::json(422, r#"{"detail":[{"loc":["body","n"],"msg":"Field required"}]}"#), 422, "Field required").await;
    check(Reply::json(200, r#"{"error":{"code":402,"message":"no credit"}}"#), 402, "no credit").await;
    check(Reply::json(200, r#"[{"error":{"code":400,"message":"bad schema"}}]"#), 400, "bad schema").await;
    let cut = r#"{"id":"x","error":{"code":"server_error","message":"gone"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#;
    check(Reply::events(&[cut, "[DONE]"]), 502, "gone").await;
}

const KIND: &str = "[backend]\nkind = \"openai\"";

#[tokio::test]
async fn models_are_listed_with_the_lengths_that_the_server_tells() {
    let upstream = Upstream::saying([paris()]).await;
    let list = json!({"object": "list", "data": [{"id": "q", "object": "model", "owned_by": "vllm", "max_model_len": 8192}]});
    upstream.at("/v1/models", Reply::json(200, &list.to_string()));
    let models = upstream.models(KIND).await;
    assert_eq!(models.iter().map(|model| (model.id.as_str(), model.context_length)).collect::<Vec<_>>(), [("q", Some(8192))]);
    assert_eq!(upstream.only_request().path, "/v1/models");
}

#[tokio::test]
async fn lm_studio_tells_more_in_a_list_of_its_own() {
    let upstream = Upstream::saying([paris()]).await;
    upstream.at("/v1/models", Reply::json(200, r#"{"object":"list","data":[{"id":"l","owned_by":"organization_owner"}]}"#));
    let own = json!({"id": "l", "type": "llm", "max_context_length": 32768, "loaded_context_length": 4096, "capabilities": ["tool_use"]});
    upstream.at("/api/v0/models", Reply::json(200, &json!({"data": [own]}).to_string()));
    let models = upstream.models(KIND).await;
    assert_eq!((models[0].context_length, models[0].capabilities.as_slice()), (Some(4096), ["tools".to_owned()].as_slice()));
    // An older one has no such list.
    upstream.at("/api/v0/models", Reply::error(404, "no such page"));
    assert_eq!(upstream.models(KIND).await[0].id, "l");
}
