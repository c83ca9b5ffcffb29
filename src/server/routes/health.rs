//! `/health/live`: this process answers. `/health/ready`, `/health`: a backend does too, and how each of them is, and each MCP server.

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    api::{Dialect, openai::ChatCompletions},
    chat::{Problem, problem::Kind},
    server::{State, error, reply},
};

pub(in crate::server) fn live() -> Response<reply::Body> {
    reply::json(StatusCode::OK, Bytes::from_static(br#"{"status":"ok"}"#))
}

/// Ready is who has one backend that is; that is all that a stranger is told. MCP servers are told of and change nothing about it: there is an answer without their tools.
pub(in crate::server) async fn ready(state: &State, is_stranger: bool) -> Response<reply::Body> {
    let backends = state.router.health().await;
    let is_ready = backends.iter().any(|backend| backend.status == "ready");
    if is_stranger {
        return if is_ready { live() } else { reply::problem(&not_ready("The backend is not ready."), &ChatCompletions, None, false) };
    }
    if is_ready {
        return reply::json(StatusCode::OK, with_servers(state, json!({"status": "ok", "backends": backends})));
    }
    let reasons: Vec<String> =
        backends.iter().map(|backend| format!("{}: {}", backend.name, backend.reason.as_deref().unwrap_or("no reason given"))).collect();
    let problem = not_ready(&format!("The backend is not ready: {}.", reasons.join("; ")));
    // What a dialect writes is JSON.
    let body = serde_json::from_slice(&ChatCompletions.error(&problem, false)).unwrap_or_default();
    reply::json(error::status(problem.kind), with_servers(state, body))
}

fn not_ready(message: &str) -> Problem {
    Problem::new(Kind::NotReady, message).with_code("backend_not_ready")
}

/// `body`, an object, with how each MCP server is.
fn with_servers(state: &State, mut body: Value) -> Bytes {
    if let (Some(toolbox), Some(body)) = (&state.toolbox, body.as_object_mut()) {
        body.insert("mcp".to_owned(), json!(toolbox.health()));
    }
    body.to_string().into()
}
