//! What goes wrong: requests that cannot be answered, backends that fail, clients that leave.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{chat, fold::events, open, question, question_with, stream, texts, with};
use crate::harness::{PATIENCE, Proxy, Raw, Reply, Upstream, paris, proxy_before};

#[tokio::test]
async fn what_needs_a_store_is_refused_by_name() {
    let (proxy, upstream) = proxy_before([Reply::text("x")]).await;
    let check = async |more: Value, param: &str, said: &str| {
        let answer = proxy.post("/v1/responses", with(&chat(), more).to_string()).await;
        let error = answer.error();
        assert_eq!((answer.status, error["param"].as_str()), (400, Some(param)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
    };
    check(json!({"previous_response_id": "resp_1"}), "previous_response_id", "stored").await;
    check(json!({"conversation": "conv_1"}), "conversation", "stored").await;
    check(json!({"background": true}), "background", "stored").await;
    check(json!({"input": [{"type": "item_reference", "id": "msg_1"}]}), "input[0]", "stored").await;
    check(
        json!({"input": [{"type": "message", "role": "user", "content": [{"type": "nonsense"}]}]}),
        "input[0].content[0].type",
        "nonsense",
    )
    .await;
    check(json!({"tool_choice": "required"}), "tool_choice", "no tools").await;
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn nothing_is_found_below() {
    let (proxy, upstream) = proxy_before([Reply::text("x")]).await;
    for (method, path) in [("GET", "/v1/responses/resp_1"), ("DELETE", "/v1/responses/resp_1"), ("POST", "/v1/responses/compact")] {
        let answer = proxy.client.send(method, path, &[], "{}").await;
        let error = answer.error();
        assert_eq!((answer.status, error["code"].as_str()), (404, Some("not_found")));
        assert!(error["message"].as_str().unwrap().contains("not stored"), "{error}");
    }
    let answer = proxy.get("/v1/responses").await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
    let raw = Raw::to(proxy.address);
    let asked = Bytes::from("POST /v1/responses/compact HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n");
    let parts = vec![asked.clone(), Bytes::from("{}"), asked, Bytes::from("{}")];
    let answers = raw.exchange(parts, Duration::from_millis(20)).await;
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 2, "the connection is used again: {answers}");
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn a_refusal_of_the_backend_has_its_status() {
    for body in [chat(), question(), question_with(json!({"stream": true}))] {
        let (proxy, _upstream) = proxy_before([Reply::error(429, "too busy").header("retry-after", "3")]).await;
        let answer = proxy.post("/v1/responses", body.to_string()).await;
        assert_eq!((answer.status, answer.header("retry-after")), (429, "3"));
        assert!(answer.error()["message"].as_str().unwrap().contains("too busy"));
    }
}

#[tokio::test]
async fn a_backend_that_is_gone_is_an_error() {
    let proxy = Proxy::start_at("http://127.0.0.1:1", |_| {}).await;
    let answer = proxy.post("/v1/responses", chat().to_string()).await;
    assert_eq!((answer.status, answer.error()["type"].as_str()), (502, Some("upstream_error")));
}

#[tokio::test]
async fn a_failure_in_mid_stream_fails_the_response() {
    let cut = Reply::text("one two three").in_tokens_of(4).cut_after(3);
    let failing = Reply::text("one two three").failing_with(json!({"message": "out of memory", "type": "server_error"}));
    for reply in [cut, failing] {
        let (proxy, _upstream) = proxy_before([reply.dripping(Duration::from_millis(5))]).await;
        let events = events(&stream(&proxy, &chat()).await.body);
        let [error, failed] = &events[events.len() - 2..] else { panic!("{events:?}") };
        assert_eq!((&error["type"], &failed["type"]), (&json!("error"), &json!("response.failed")));
        assert_eq!(error["message"], error["error"]["message"]);
        assert!(error["code"].is_string());
        let response = &failed["response"];
        assert_eq!((&response["status"], &response["error"]["message"]), (&json!("failed"), &error["message"]));
        assert!(texts(response).starts_with("one"), "{response}");
        let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_failure_before_the_first_word_of_a_begun_stream_has_both_ends() {
    let upstream = Upstream::saying([Reply::error(500, "fell over").after(Duration::from_millis(200))]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.server.head_grace = Duration::from_millis(20)).await;
    let answer = stream(&proxy, &chat()).await;
    let kinds: Vec<_> = events(&answer.body).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["response.created", "response.in_progress", "error", "response.failed"]);
}

#[tokio::test]
async fn a_model_that_never_calls_rightly_is_an_error() {
    let (proxy, _upstream) = proxy_before([Reply::call("get_weather", "{}")]).await;
    let answer = proxy.post("/v1/responses", question().to_string()).await;
    assert_eq!((answer.status, answer.error()["type"].as_str()), (502, Some("tool_call_error")));
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_model() {
    for body in [chat(), question()] {
        let reply = Reply::call("respond", &json!({"message": "word ".repeat(400)}).to_string()).in_pieces_of(30);
        let reply = if body["tools"].is_null() { Reply::text(&"word ".repeat(400)).in_tokens_of(3) } else { reply };
        let (proxy, upstream) = proxy_before([reply.dripping(Duration::from_millis(10))]).await;
        let mut answer = open(&proxy, &with(&body, json!({"stream": true}))).await;
        answer.next().await.unwrap();
        drop(answer);
        let left = Instant::now();
        while upstream.cancellations() == 0 {
            assert!(left.elapsed() < PATIENCE, "the model goes on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn the_callers_credential_goes_up() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    proxy.client.send("POST", "/v1/responses?x=1", &[("authorization", "Bearer k")], question().to_string()).await;
    let sent = upstream.only_request();
    assert_eq!((sent.headers["authorization"].to_str().unwrap(), sent.path.as_str()), ("Bearer k", "/v1/chat/completions"));
}
