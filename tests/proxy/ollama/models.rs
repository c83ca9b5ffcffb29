//! What an Ollama says of itself and its models.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolgate::{
    backend::{
        Error, Server, Slot, Target,
        ollama::{Config, NumCtx, Ollama},
        readiness::Readiness,
        target,
    },
    upstream,
};

use super::shown;
use crate::harness::{Reply, Upstream};

fn server(upstream: &Upstream, config: Config) -> Ollama {
    let url = format!("http://{}", upstream.address).parse().unwrap();
    let patience = Duration::from_secs(5);
    let limits =
        upstream::Config { connect_timeout: patience, first_byte_timeout: patience, idle_timeout: patience, total_timeout: patience };
    Ollama::new(Arc::new(Target::new(target::Config { url, api_key: None, slot: Slot::Authorization }, limits)), config)
}

async fn with_models(names: &[&str]) -> Upstream {
    let upstream = Upstream::saying([Reply::error(404, "nothing else is asked")]).await;
    let tags: Vec<_> = names.iter().map(|name| json!({"name": name, "model": name, "digest": format!("sha-{name}"), "size": 1})).collect();
    upstream.at("/api/tags", Reply::json(200, &json!({ "models": tags }).to_string()));
    upstream.at("/api/show", Reply::json(200, &shown(32_768).to_string()));
    upstream
}

#[tokio::test]
async fn each_model_is_asked_about_once() {
    let names = ["a:latest", "b:1b", "c:7b", "d:8b", "e:3b", "f:2b"];
    let upstream = with_models(&names).await;
    let server = server(&upstream, Config::default());
    for _ in 0..2 {
        let models = server.models().await.unwrap();
        assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), names);
        assert!(models.iter().all(|model| model.context_length == Some(32_768) && model.capabilities == ["completion", "tools"]));
    }
    let asked = |path: &str| upstream.requests().iter().filter(|request| request.path == path).count();
    assert_eq!((asked("/api/tags"), asked("/api/show")), (2, names.len()));
    // Another digest is another model.
    upstream.at("/api/tags", Reply::json(200, r#"{"models":[{"name":"a:latest","digest":"new"}]}"#));
    upstream.at("/api/show", Reply::json(200, &shown(1024).to_string()));
    assert_eq!(server.models().await.unwrap()[0].context_length, Some(1024));
}

#[tokio::test]
async fn the_newest_of_a_model_needs_no_tag() {
    let upstream = with_models(&["a:latest", "b:1b"]).await;
    let models = server(&upstream, Config::default()).models().await.unwrap();
    let called = |name: &str| models.iter().filter(|model| model.is_called(name)).count();
    assert_eq!((called("a"), called("a:latest"), called("b"), called("b:1b")), (1, 1, 0, 1));
}

#[tokio::test]
async fn the_context_is_as_long_as_it_is_run() {
    let upstream = with_models(&["a"]).await;
    let length = async |num_ctx| server(&upstream, Config { num_ctx, ..Config::default() }).models().await.unwrap()[0].context_length;
    assert_eq!((length(NumCtx::Fixed(4096)).await, length(NumCtx::Fixed(65_536)).await), (Some(4096), Some(32_768)));
    let mut own = shown(32_768);
    own["parameters"] = json!("stop \"x\"\nnum_ctx 16384");
    upstream.at("/api/show", Reply::json(200, &own.to_string()));
    assert_eq!((length(NumCtx::Server).await, length(NumCtx::Need).await), (Some(16_384), Some(32_768)));
}

#[tokio::test]
async fn a_model_that_cannot_be_asked_about_is_there_all_the_same() {
    let upstream = with_models(&["a"]).await;
    upstream.at("/api/show", Reply::json(500, r#"{"error":"broken"}"#));
    let models = server(&upstream, Config::default()).models().await.unwrap();
    assert_eq!((models.len(), models[0].context_length, models[0].capabilities.len()), (1, None, 0));
}

#[tokio::test]
async fn a_list_that_is_none_is_an_error() {
    let upstream = with_models(&[]).await;
    let server = server(&upstream, Config::default());
    assert!(server.models().await.unwrap().is_empty());
    upstream.at("/api/tags", Reply::body(200, "text/html", "<html>"));
    assert!(matches!(server.models().await, Err(Error::Protocol(_))));
    upstream.at("/api/tags", Reply::json(403, r#"{"error":"no"}"#));
    assert!(matches!(server.models().await, Err(Error::Status(refusal)) if refusal.status == 403));
}

#[tokio::test]
async fn it_is_ready_when_it_tells_its_version() {
    let upstream = with_models(&[]).await;
    let server = server(&upstream, Config::default());
    upstream.at("/api/version", Reply::json(200, r#"{"version":"0.17.4"}"#));
    assert!(matches!(server.readiness().await, Readiness::Ready));
    upstream.at("/api/version", Reply::json(500, "{}"));
    assert!(matches!(server.readiness().await, Readiness::NotReady(_)));
    upstream.at("/api/version", Reply::json(200, "{}").after(Duration::from_secs(3)));
    assert!(matches!(server.readiness().await, Readiness::Unreachable(_)));
}
