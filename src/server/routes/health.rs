//! `/health/live`: this process answers. `/health/ready`, `/health`: the backend does too.

use bytes::Bytes;
use hyper::{Response, StatusCode};

use crate::{
    api::openai::ChatCompletions,
    backend::readiness::Readiness,
    chat::{Problem, problem::Kind},
    server::{State, reply},
};

pub(in crate::server) fn live() -> Response<reply::Body> {
    reply::json(StatusCode::OK, Bytes::from_static(br#"{"status":"ok"}"#))
}

pub(in crate::server) async fn ready(state: &State) -> Response<reply::Body> {
    let reason = match state.target.readiness().await {
        Readiness::Ready => return live(),
        Readiness::NotReady(reason) | Readiness::Unreachable(reason) => reason,
    };
    let problem = Problem::new(Kind::NotReady, format!("The backend is not ready: {reason}.")).with_code("backend_not_ready");
    reply::problem(&problem, &ChatCompletions, None, false)
}
