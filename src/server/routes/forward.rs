//! Paths that belong to the backend: both ways as they are.

use std::sync::Arc;

use hyper::{
    Request, Response,
    body::{Body, Incoming},
};
use serde::Deserialize;

use super::metered;
use crate::{
    backend::forward::Forward,
    budget::Account,
    chat::Problem,
    server::{State, body, headers, reply},
};

const AT_HAND_BYTES_MAX: u64 = 1 << 20;

/// Sends `request` to `path` of the backend, with its query.
pub(in crate::server) async fn to(state: &State, request: Request<Incoming>, path: &str) -> Result<Response<reply::Body>, Problem> {
    if state.gate.is_on() && metered::is_counted(request.method(), path) {
        return metered::forward(state, request, path, Arc::new(Account::anonymous())).await;
    }
    let (head, incoming) = request.into_parts();
    let caller = headers::credential(&head.headers);
    let path = with_query(path, head.uri.query());
    let forward = Forward { method: &head.method, path: &path, headers: &head.headers, caller: caller.as_ref() };
    // What is short is read first: it can go out on a kept connection, and a client that stalls costs the backend nothing.
    // And where names lead somewhere, the body says where.
    let is_short = incoming.size_hint().upper().is_some_and(|length| length <= AT_HAND_BYTES_MAX);
    let response = if is_short || !state.router.is_plain() {
        let body = body::collect(incoming, &state.config).await?;
        state.router.forward(model(&body), &forward, body).await?
    } else {
        state.router.forward_stream(&forward, body::limited(incoming, &state.config)?).await?
    };
    Ok(reply::passed(response))
}

/// The model that a JSON body names.
pub(super) fn model(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        model: Option<String>,
    }
    serde_json::from_slice::<Named>(body).ok().and_then(|named| named.model)
}

/// `path` with `query` behind it.
pub(in crate::server) fn with_query(path: &str, query: Option<&str>) -> String {
    query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}
