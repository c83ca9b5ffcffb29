//! Keys of clients: who is let in, what each may use, and what stays apart.

mod command;
mod tools;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use toolgate::budget::keys::Digest;

use crate::harness::{Answer, PATIENCE, Proxy, Raw, Reply, Upstream, chat};

/// A key that may use everything.
const FULL: &str = "tg_full";
/// One that may use some models and some tools.
const NARROW: &str = "tg_narrow";
/// One that was good once.
const OLD: &str = "tg_old";

/// The keys of most tests, as a file has them.
fn file() -> String {
    let key = |name: &str, secret: &str, more: &str| format!("[[key]]\nname = \"{name}\"\nhash = \"{}\"\n{more}\n", Digest::of(secret));
    let narrow = "models = [\"tiny\", \"claude-*\"]\nallow_tools = [\"fs.*\"]\ndeny_tools = [\"@destructive\"]";
    [key("full", FULL, ""), key("narrow", NARROW, narrow), key("old", OLD, "expires = 2020-01-01")].concat()
}

async fn guarded(replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    (Proxy::start_before(&upstream, &file()).await, upstream)
}

fn bearer(secret: &str) -> String {
    format!("Bearer {secret}")
}

async fn post(proxy: &Proxy, path: &str, secret: &str, body: &Value) -> Answer {
    proxy.client.send("POST", path, &[("authorization", &bearer(secret))], body.to_string()).await
}

async fn get(proxy: &Proxy, path: &str, secret: &str) -> Answer {
    proxy.client.send("GET", path, &[("authorization", &bearer(secret))], "").await
}

/// A body of each dialect that asks for `model`.
fn bodies(model: &str) -> [(&'static str, Value); 6] {
    let messages = json!([{"role": "user", "content": "Hello"}]);
    [
        ("/v1/chat/completions", json!({"model": model, "messages": messages})),
        ("/v1/messages", json!({"model": model, "max_tokens": 9, "messages": messages})),
        ("/v1/messages/count_tokens", json!({"model": model, "messages": messages})),
        ("/v1/responses", json!({"model": model, "input": "Hello"})),
        ("/chat", json!({"model": model, "message": "Hello"})),
        ("/v1/embeddings", json!({"model": model, "input": "Hello"})),
    ]
}

#[tokio::test]
async fn who_shows_no_good_key_is_told_so_in_the_words_of_the_dialect() {
    let (proxy, upstream) = guarded([Reply::text("Hello.")]).await;
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[], "invalid_api_key"),
        (&[("authorization", "Bearer wrong")], "invalid_api_key"),
        (&[("authorization", "Basic tg_full")], "invalid_api_key"),
        (&[("x-api-key", "wrong")], "invalid_api_key"),
        (&[("authorization", "bearer tg_old")], "api_key_expired"),
        (&[("authorization", "Bearer wrong"), ("x-api-key", OLD)], "api_key_expired"),
    ];
    for (headers, code) in cases {
        for (path, body) in bodies("tiny") {
            let answer = proxy.client.send("POST", path, headers, body.to_string()).await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"), "{path}: {}", answer.text());
            if path.starts_with("/v1/messages") {
                let error = answer.json();
                assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("authentication_error")), "{error}");
                assert_eq!(error["error"]["message"].as_str().unwrap().contains("expired"), code == "api_key_expired", "{error}");
            } else {
                let error = answer.error();
                assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &json!(code)), "{path}");
            }
        }
        for path in ["/v1/models", "/models", "/v1/models/tiny", "/tools", "/metrics", "/props", "/slots", "/nothing", "/v1/files"] {
            let answer = proxy.client.send("GET", path, headers, "").await;
            assert_eq!((answer.status, answer.error()["code"].as_str()), (401, Some(code)), "{path}");
        }
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn a_key_is_shown_in_either_header_and_goes_no_further() {
    let (proxy, upstream) = guarded([Reply::text("Hello.")]).await;
    let ways: [&[(&str, &str)]; 4] = [
        &[("authorization", "Bearer tg_full")],
        &[("x-api-key", FULL)],
        &[("authorization", "Bearer sk-of-somebody-else"), ("x-api-key", FULL)],
        &[("authorization", "Bearer tg_full"), ("x-api-key", "sk-of-somebody-else")],
    ];
    let mut asked = 0;
    for headers in ways {
        for (path, body) in bodies("tiny") {
            let answer = proxy.client.send("POST", path, headers, body.to_string()).await;
            assert_ne!(answer.status, 401, "{path}: {}", answer.text());
            asked += 1;
        }
    }
    let requests = upstream.requests();
    assert!(requests.len() >= asked, "{} of {asked}", requests.len());
    for request in requests {
        let sent = format!("{:?}", request.headers);
        assert!(!sent.contains("tg_full") && !sent.contains("sk-of") && !request.headers.contains_key("authorization"), "{sent}");
    }
}

#[tokio::test]
async fn a_backend_gets_its_own_key_and_never_that_of_a_client() {
    let upstream = Upstream::saying([Reply::text("Hello.")]).await;
    let proxy = Proxy::start_before(&upstream, &format!("[backend]\napi_key = \"backends-own\"\n{}", file())).await;
    assert_eq!(post(&proxy, "/v1/chat/completions", FULL, &chat()).await.status, 200);
    assert_eq!(upstream.only_request().headers["authorization"], "Bearer backends-own");
}

#[tokio::test]
async fn who_is_turned_away_can_come_again_with_a_key() {
    let (proxy, _upstream) = guarded([Reply::text("Hello.")]).await;
    for size in [0, 1 << 10, 1 << 19, 5 << 20] {
        let mut request = chat();
        request["metadata"] = json!({"more": "x".repeat(size)});
        let refused = proxy.client.open("POST", "/v1/chat/completions", &[], request.to_string()).await;
        assert_eq!(refused.map(|answer| answer.status).ok(), Some(401), "{size}");
        assert_eq!(post(&proxy, "/v1/chat/completions", FULL, &chat()).await.status, 200);
    }
}

#[tokio::test]
async fn the_body_of_a_stranger_is_not_waited_for() {
    let (proxy, _upstream) = guarded([Reply::text("Hello.")]).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n";
    let raw = Raw::to(proxy.address);
    for more in ["", "expect: 100-continue\r\n"] {
        let begun = std::time::Instant::now();
        let answer = raw.say(&format!("{head}{more}\r\n{{")).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{answer}");
        assert!(begun.elapsed() < Duration::from_millis(1400), "the connection is closed: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_model_that_may_not_be_used_is_refused_before_anybody_is_asked() {
    let (proxy, upstream) = guarded([Reply::text("Hello.")]).await;
    for (path, body) in bodies("large") {
        let answer = post(&proxy, path, NARROW, &body).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "permission_error", "{path}");
        assert!(error["message"].as_str().unwrap().contains("`large`"), "{error}");
        if !path.starts_with("/v1/messages") {
            assert_eq!((&error["code"], &error["param"]), (&json!("model_not_allowed"), &json!("model")), "{path}");
        }
    }
    assert_eq!(upstream.calls(), 0);
    for (path, body) in bodies("claude-x") {
        assert_eq!(post(&proxy, path, NARROW, &body).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn who_may_use_certain_models_names_one() {
    let (proxy, upstream) = guarded([Reply::text("Hello.")]).await;
    let messages = r#""messages":[{"role":"user","content":"Hello"}]"#;
    let bodies = [
        ("/v1/chat/completions", format!("{{{messages}}}")),
        ("/v1/chat/completions", format!(r#"{{"model":7,{messages}}}"#)),
        ("/v1/embeddings", "{}".to_owned()),
        ("/v1/audio/transcriptions", "--x\r\nmodel=tiny".to_owned()),
        ("/v1/rerank", format!(r#"{{"model":"large","text":"{}"}}"#, "x".repeat(2 << 20))),
    ];
    let headers = [("authorization", bearer(NARROW))];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for (path, body) in bodies {
        let answer = proxy.client.send("POST", path, &headers, body).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (403, Some("model_not_allowed")), "{path}");
    }
    for (path, body) in [
        ("/v1/chat/completions", format!(r#"{{"model":"large","model":"tiny",{messages}}}"#)),
        ("/v1/embeddings", r#"{"model":"large","model":"tiny"}"#.to_owned()),
    ] {
        let answer = proxy.client.send("POST", path, &headers, body).await;
        assert_eq!((answer.status, answer.error()["param"].as_str()), (400, Some("model")), "{path}");
    }
    assert_eq!(get(&proxy, "/props", NARROW).await.status, 403);
    assert_eq!(upstream.calls(), 0);
    assert_eq!(post(&proxy, "/v1/chat/completions", FULL, &json!({"messages": chat()["messages"]})).await.status, 200);
}

#[tokio::test]
async fn the_list_of_models_has_those_that_may_be_used() {
    let (proxy, upstream) = guarded([]).await;
    upstream.at("/v1/models", Reply::json(200, r#"{"object":"list","data":[{"id":"tiny"},{"id":"large"},{"id":"claude-x"}]}"#));
    let ids = |answer: Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(get(&proxy, "/v1/models", FULL).await), ["tiny", "large", "claude-x"]);
    assert_eq!(ids(get(&proxy, "/v1/models", NARROW).await), ["tiny", "claude-x"]);
    assert_eq!(get(&proxy, "/v1/models/tiny", NARROW).await.status, 200);
    for method in ["GET", "DELETE"] {
        let answer = proxy.client.send(method, "/v1/models/large", &[("x-api-key", NARROW)], "").await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (403, Some("model_not_allowed")), "{method}");
    }
    let absent = get(&proxy, "/v1/models/claude-y", NARROW).await;
    assert_eq!(absent.status, 404);
    assert!(!absent.text().contains("large"), "{}", absent.text());
}

#[tokio::test]
async fn a_list_that_a_backend_keeps_to_itself_is_not_passed_on() {
    let (proxy, upstream) = guarded([]).await;
    upstream.at("/v1/models", Reply::error(401, "No key"));
    let answer = get(&proxy, "/v1/models", NARROW).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(upstream.requests().iter().all(|request| !request.headers.contains_key("authorization")));
}

#[tokio::test]
async fn health_is_told_to_everybody_and_its_details_to_those_with_a_key() {
    let (proxy, upstream) = guarded([]).await;
    for path in ["/health", "/health/ready", "/health/live"] {
        assert_eq!((proxy.get(path).await.status, proxy.get(path).await.text()), (200, r#"{"status":"ok"}"#), "{path}");
    }
    assert!(get(&proxy, "/health", FULL).await.json()["backends"].is_array());
    upstream.at("/health", Reply::error(503, "Loading secret-model"));
    let (stranger, known) = (proxy.get("/health/ready").await, get(&proxy, "/health/ready", FULL).await);
    assert_eq!((stranger.status, stranger.error()["message"].as_str()), (503, Some("The backend is not ready.")));
    assert_eq!(known.status, 503);
    assert!(known.text().contains("llama_server"), "{}", known.text());
    assert_eq!(proxy.client.send("POST", "/health", &[], "").await.status, 405);
}

#[tokio::test]
async fn a_preflight_needs_no_key() {
    let (proxy, upstream) = guarded([]).await;
    upstream.at("/v1/embeddings", Reply::json(204, ""));
    let preflight = [("origin", "http://localhost:3000"), ("access-control-request-method", "POST")];
    assert_eq!(proxy.client.send("OPTIONS", "/v1/chat/completions", &preflight, "").await.status, 405, "as without keys");
    assert_eq!(proxy.client.send("OPTIONS", "/v1/embeddings", &preflight, "").await.status, 204);
    assert_eq!(proxy.client.send("OPTIONS", "/v1/embeddings", &preflight, "{}").await.status, 401);
    assert_eq!(proxy.client.send("OPTIONS", "/v1/embeddings", &[], "").await.status, 401);
}

#[tokio::test]
async fn without_keys_nobody_needs_one() {
    let upstream = Upstream::saying([Reply::text("Hello.")]).await;
    let proxy = Proxy::start(&upstream).await;
    assert_eq!(post(&proxy, "/v1/chat/completions", "sk-own", &chat()).await.status, 200);
    assert_eq!(upstream.only_request().headers["authorization"], "Bearer sk-own");
}

#[tokio::test]
async fn a_failed_request_is_soon_over() {
    let (proxy, _upstream) = guarded([]).await;
    let begun = std::time::Instant::now();
    let long = bearer(&"x".repeat(8 << 10));
    for _ in 0..50 {
        let answer = proxy.client.send("POST", "/v1/chat/completions", &[("authorization", &long)], Bytes::from(chat().to_string())).await;
        assert_eq!(answer.status, 401);
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}
