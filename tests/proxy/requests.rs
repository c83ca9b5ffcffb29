//! Requests that are wrong, too large, too slow or oddly sent.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::harness::{Proxy, Raw, Reply, Upstream, chat, proxy_before, question};

#[tokio::test]
async fn a_wrong_request_is_told_what_is_wrong() {
    let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
    let check = async |body: &str, param: Value, part: &str| {
        let answer = proxy.post("/v1/chat/completions", body.to_owned()).await;
        let error = answer.error();
        assert_eq!((answer.status, &error["param"], &error["type"]), (400, &param, &json!("invalid_request_error")), "{body}");
        assert!(error["message"].as_str().unwrap().contains(part), "{body}: {error}");
    };
    check("", Value::Null, "empty").await;
    check("{", Value::Null, "not valid JSON").await;
    check("{'messages':[]}", Value::Null, "not valid JSON").await;
    check("\u{feff}{}", Value::Null, "not valid JSON").await;
    check("[]", Value::Null, "must be a JSON object").await;
    check("null", Value::Null, "must be a JSON object").await;
    check("{}", json!("messages"), "missing").await;
    check(r#"{"messages":{}}"#, json!("messages"), "list").await;
    check(r#"{"messages":null}"#, json!("messages"), "list").await;
    check(r#"{"messages":[],"tools":{}}"#, json!("tools"), "list").await;
    check(r#"{"messages":[],"tools":[1]}"#, json!("tools[0]"), "tools[0]").await;
    check(r#"{"messages":[],"stream":"yes"}"#, json!("stream"), "boolean").await;
    check(r#"{"messages":[],"tool_choice":"maybe"}"#, json!("tool_choice"), "auto").await;
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_no_json() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    let answer = proxy.post("/v1/chat/completions", Bytes::from_static(b"{\"messages\":[\"\xff\xfe\"]}")).await;
    assert_eq!(answer.status, 400);
    answer.error();
}

#[tokio::test]
async fn an_unknown_guardrail_name_is_refused() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-disable", "rescues")]).await;
    assert_eq!((answer.status, answer.error()["param"].as_str()), (400, Some("x-toolgate-disable")));
}

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
    for path in ["/", "/v1", "/v2/chat/completions", "/completions", "/health/x", "/v1chat"] {
        let answer = proxy.post(path, chat().to_string()).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("unknown_url")), "{path}");
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn a_wrong_method_is_refused_and_the_right_one_named() {
    let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
    let check = async |method: &str, path: &str, allowed: &str| {
        let answer = proxy.client.send(method, path, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, allowed), "{method} {path}");
        assert_eq!(answer.error()["code"], "method_not_allowed");
    };
    check("GET", "/v1/chat/completions", "POST").await;
    check("DELETE", "/chat/completions", "POST").await;
    check("POST", "/props", "GET, HEAD").await;
    check("PUT", "/models", "GET, HEAD").await;
    assert_eq!(upstream.calls(), 0);
}

async fn small() -> (Proxy, Upstream) {
    let upstream = Upstream::saying([Reply::text("hi")]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.server.body_bytes_max = 1000;
        config.server.request_timeout = Duration::from_millis(200);
    })
    .await;
    (proxy, upstream)
}

/// A chat request of exactly `bytes` bytes.
fn of_size(bytes: usize) -> String {
    let frame = json!({"messages": [{"role": "user", "content": ""}]}).to_string();
    frame.replace("\"content\":\"\"", &format!("\"content\":\"{}\"", "x".repeat(bytes - frame.len())))
}

fn chunked(body: &str, chunk: usize) -> String {
    let pieces: String =
        body.as_bytes().chunks(chunk).map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece))).collect();
    format!("{pieces}0\r\n\r\n")
}

fn head(path: &str, framing: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{framing}\r\n\r\n")
}

#[tokio::test]
async fn a_body_at_the_limit_passes_and_one_beyond_is_too_large() {
    let (proxy, upstream) = small().await;
    assert_eq!(proxy.post("/v1/chat/completions", of_size(1000)).await.status, 200);
    for path in ["/v1/chat/completions", "/v1/files"] {
        let answer = proxy.post(path, of_size(1001)).await;
        assert_eq!((answer.status, answer.error()["type"].as_str()), (413, Some("invalid_request_error")), "{path}");
    }
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_chunked_body_is_read_and_limited_like_a_sized_one() {
    let (proxy, upstream) = small().await;
    let raw = Raw::to(proxy.address);
    let send = async |path: &str, size: usize| {
        let body = chunked(&of_size(size), 100);
        raw.say(&(head(path, "transfer-encoding: chunked") + &body)).await
    };
    let answer = send("/v1/chat/completions", 1000).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(upstream.only_request().text(), of_size(1000));
    for path in ["/v1/chat/completions", "/v1/files"] {
        let answer = send(path, 1500).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains(r#""param":null"#), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_still_learns_why_it_was_refused() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    let size = 24 << 20;
    let request = head("/v1/chat/completions", &format!("content-length: {size}")) + &" ".repeat(size);
    for _ in 0..3 {
        let answer = Raw::to(proxy.address).say(&request).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let (proxy, _upstream) = small().await;
    for framing in ["content-length: 100", "transfer-encoding: chunked"] {
        let answer = Raw::to(proxy.address).say(&(head("/v1/chat/completions", framing) + "5\r\n{\"me")).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains(r#""code":"#), "{answer}");
    }
}

#[tokio::test]
async fn an_upload_that_does_not_arrive_times_out_too() {
    let upstream = Upstream::saying([Reply::text("hi")]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.server.request_timeout = Duration::from_millis(200);
        config.upstream.first_byte_timeout = Duration::from_millis(600);
    })
    .await;
    let answer = Raw::to(proxy.address).say(&(head("/v1/files", "content-length: 100") + "half")).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "the client was slow, not the backend: {answer}");
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
    let answer = proxy.ask_with(&chat(), &[("content-encoding", "gzip")]).await;
    assert_eq!((answer.status, answer.error()["param"].as_str()), (400, Some("content-encoding")));
    assert_eq!(upstream.calls(), 0);
    assert_eq!(proxy.ask_with(&chat(), &[("content-encoding", "identity")]).await.status, 200);
}

#[tokio::test]
async fn a_client_may_ask_before_it_sends_its_body() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    for path in ["/v1/chat/completions", "/v1/files"] {
        let body = chat().to_string();
        let head = head(path, &format!("expect: 100-continue\r\ncontent-length: {}", body.len()));
        let parts = vec![Bytes::from(head), Bytes::from(body)];
        let answer = Raw::to(proxy.address).exchange(parts, Duration::from_millis(50)).await;
        assert!(answer.starts_with("HTTP/1.1 100") && answer.contains("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn what_is_no_http_ends_the_connection_and_no_other() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    let answer = Raw::to(proxy.address).say("\x16\x03\x01 hello\r\n\r\n").await;
    assert!(!answer.contains("200"), "{answer}");
    assert_eq!(proxy.ask(&chat()).await.status, 200);
}

#[tokio::test]
async fn an_old_client_is_served() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    let body = chat().to_string();
    let answer =
        Raw::to(proxy.address).say(&format!("POST /chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
}
