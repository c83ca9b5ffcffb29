//! `/health/live`: this process answers. `/health/ready`, `/health`: a backend does too, and how each of them is, and each MCP server.

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

/// Ready is who has one backend that is. MCP servers are told of and change nothing about it: there is an answer without their tools.
pub(in crate::server) async fn ready(state: &State) -> Response<reply::Body> {
    let backends = state.router.health().await;
    if backends.iter().any(|backend| backend.status == "ready") {
        let mut body = json!({"status": "ok", "backends": backends});
        if let (Some(toolbox), Some(body)) = (&state.toolbox, body.as_object_mut()) {
            body.insert("mcp".to_owned(), json!(toolbox.health()));
        }
        return reply::json(StatusCode::OK, body.to_string().into());
    }
    let reasons: Vec<String> =
        backends.iter().map(|backend| format!("{}: {}", backend.name, backend.reason.as_deref().unwrap_or("no reason given"))).collect();
    let problem = Problem::new(Kind::NotReady, format!("The backend is not ready: {}.", reasons.join("; "))).with_code("backend_not_ready");
    reply::problem(&problem, &ChatCompletions, None, false)
}
