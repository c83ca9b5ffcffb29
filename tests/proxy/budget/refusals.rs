//! Requests for which nothing is left.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolgate::budget::Unit;

use super::{REPLY, daily, dialects, file, post, reserved, settled, spent};
use crate::harness::{Proxy, Reply, Upstream, chat};

#[tokio::test]
async fn nothing_is_asked_and_clients_are_told_not_to_come_again() {
    for (keys, more, halt) in [
        ("", daily("0 calls"), "call_quota"),
        ("", daily("0.00001 USD"), "cost_ceiling"),
        ("", daily("20 tokens"), "token_ceiling"),
        ("request_ceiling_usd = 0.00001", String::new(), "cost_ceiling"),
        ("request_ceiling_tokens = 10", String::new(), "token_ceiling"),
    ] {
        let upstream = Upstream::saying([Reply::text("Hi.")]).await;
        let proxy = Proxy::start_before(&upstream, &file(keys, &more)).await;
        for (path, body) in dialects() {
            for stream in [false, true] {
                let (path, mut body) = (if stream && path == "/chat" { "/chat/stream" } else { path }, body.clone());
                if stream && !path.starts_with("/chat") {
                    body["stream"] = json!(true);
                }
                let answer = post(&proxy, path, &body).await;
                assert_eq!((answer.status, answer.header("x-should-retry")), (429, "false"), "{path} {halt}: {}", answer.text());
                assert_eq!(answer.header("x-toolgate-halt"), halt, "{path}");
                assert!(answer.text().contains("insufficient_quota") || path == "/v1/messages", "{}", answer.text());
            }
        }
        assert_eq!((upstream.calls(), settled(&proxy).await.len()), (0, 0));
    }
}

#[tokio::test]
async fn requests_that_come_at_once_share_what_is_left() {
    let upstream = Upstream::saying([Reply::text("Hi.").after(Duration::from_millis(100))]).await;
    let proxy = Proxy::start_before(&upstream, &file("", &daily("7 calls"))).await;
    let request = chat();
    let answers = join_all((0..40).map(|_| proxy.ask(&request))).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(200), count(429), upstream.calls()), (7, 33, 7));
    assert_eq!(settled(&proxy).await.len(), 7);
}

#[tokio::test]
async fn the_worst_case_is_reserved_before_the_model_hears_anything() {
    let upstream = Upstream::saying([Reply::text("Hi.").after(Duration::from_millis(300))]).await;
    let proxy = Proxy::start_before(&upstream, &file("", "")).await;
    let mut request = chat();
    request["max_completion_tokens"] = json!(50);
    let asking = proxy.ask(&request);
    let looking = async {
        upstream.arrived(1).await;
        reserved(&proxy).await
    };
    let (answer, reserved) = tokio::join!(asking, looking);
    // Money for 50 tokens and the prompt, the tokens, and the call.
    assert!((50 * 1000 + 10 * 100 + 60..50 * 1000 + 30 * 100 + 100).contains(&reserved), "{reserved}");
    assert_eq!((answer.status, settled(&proxy).await.len()), (200, 1));
    assert_eq!((spent(&proxy, Unit::UsdMicrocents).await, spent(&proxy, Unit::Tokens).await), (REPLY, 15));
    assert_eq!(upstream.only_request().json()["max_completion_tokens"], 50);
}

#[tokio::test]
async fn without_prices_limits_and_ceilings_requests_pass_untouched() {
    let upstream = Upstream::saying([Reply::json(200, r#"{"odd":  "bytes"}"#)]).await;
    let proxy = Proxy::start(&upstream).await;
    let body = r#"{"model":"tiny",  "messages":[{"role":"user","content":"Hello"}]}"#;
    let answer = proxy.post("/v1/chat/completions", body).await;
    assert_eq!((answer.text(), upstream.only_request().text()), (r#"{"odd":  "bytes"}"#, body));
    assert!(proxy.gate.store().is_none());
}
