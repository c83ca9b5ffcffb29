//! `/metrics`: what Prometheus collects.

use hyper::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};

use crate::{
    server::{State, reply},
    tools::{Health, server::State as ServerState},
    trace::metrics::ServerGauge,
};

pub(in crate::server) fn show(state: &State) -> Response<reply::Body> {
    let health = state.toolbox.as_ref().map(|toolbox| toolbox.health()).unwrap_or_default();
    let trace = state.agent.trace();
    let states = ServerState::ALL.map(ServerState::as_str);
    let text = trace.metrics().text(health.iter().map(gauge), &states, trace.dropped());
    let mut response = reply::json(StatusCode::OK, text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    response
}

fn gauge(health: &Health) -> ServerGauge<'_> {
    let Health { server, state, tools, changed, .. } = health;
    ServerGauge { server, state: state.as_str(), tools: *tools, changed: *changed }
}

/// What `prometheus_client` writes.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
