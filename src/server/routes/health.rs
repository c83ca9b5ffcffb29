//! `/health/live`: this process answers. `/health/ready`, `/health`: a backend does too, and how each of them is.

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::json;

use crate::{
    api::openai::ChatCompletions,
    chat::{Problem, problem::Kind},
    server::{State, reply},
};

pub(in crate::server) fn live() -> Response<reply::Body> {
    reply::json(StatusCode::OK, Bytes::from_static(br#"{"status":"ok"}"#))
}

/// Ready is who has one backend that is.
pub(in crate::server) async fn ready(state: &State) -> Response<reply::Body> {
    let backends = state.router.health().await;
    if backends.iter().any(|backend| backend.status == "ready") {
        return reply::json(StatusCode::OK, json!({"status": "ok", "backends": backends}).to_string().into());
    }
    let reasons: Vec<String> =
        backends.iter().map(|backend| format!("{}: {}", backend.name, backend.reason.as_deref().unwrap_or("no reason given"))).collect();
    let problem = Problem::new(Kind::NotReady, format!("The backend is not ready: {}.", reasons.join("; "))).with_code("backend_not_ready");
    reply::problem(&problem, &ChatCompletions, None, false)
}
