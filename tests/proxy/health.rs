//! `/health/live` is the proxy's own; `/health` and `/health/ready` speak for the backend.

use std::net::TcpListener;

use crate::harness::{Proxy, Reply, proxy_before};

#[tokio::test]
async fn live_needs_no_backend() {
    let proxy = Proxy::start_at(&nobody(), |_| {}).await;
    let answer = proxy.get("/health/live").await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"status":"ok"}"#));
}

#[tokio::test]
async fn ready_when_the_backend_says_so() {
    let (proxy, upstream) = proxy_before([]).await;
    for path in ["/health", "/health/ready"] {
        assert_eq!(proxy.get(path).await.status, 200);
    }
    assert!(upstream.requests().iter().all(|request| request.path == "/health"));
}

#[tokio::test]
async fn not_ready_while_it_loads_its_model() {
    let (proxy, upstream) = proxy_before([]).await;
    upstream.at("/health", Reply::error(503, "Loading model"));
    let answer = proxy.get("/health").await;
    let error = answer.error();
    assert_eq!((answer.status, error["code"].as_str()), (503, Some("backend_not_ready")));
    assert!(error["message"].as_str().unwrap().contains("loading"), "{error}");
}

#[tokio::test]
async fn not_ready_when_it_cannot_be_reached() {
    let proxy = Proxy::start_at(&nobody(), |_| {}).await;
    for path in ["/health", "/health/ready"] {
        let answer = proxy.get(path).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (503, Some("backend_not_ready")));
    }
}

#[tokio::test]
async fn a_backend_without_a_health_path_is_asked_for_its_models() {
    let check = async |models: u16, ready: u16| {
        let (proxy, upstream) = proxy_before([]).await;
        upstream.at("/health", Reply::error(404, "no"));
        upstream.at("/v1/models", Reply::json(models, "{}"));
        assert_eq!(proxy.get("/health").await.status, ready, "models answered {models}");
    };
    check(200, 200).await;
    check(401, 200).await;
    check(500, 503).await;
}

#[tokio::test]
async fn other_methods_are_refused() {
    let (proxy, _upstream) = proxy_before([]).await;
    for path in ["/health", "/health/live", "/health/ready"] {
        let answer = proxy.post(path, "").await;
        assert_eq!(answer.status, 405);
        answer.error();
    }
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}
