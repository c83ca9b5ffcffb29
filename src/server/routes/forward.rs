//! Paths that belong to the backend: both ways as they are.

use hyper::{
    Request, Response,
    body::{Body, Incoming},
};
use serde::Deserialize;

use super::metered;
use crate::{
    backend::forward::Forward,
    chat::Problem,
    server::{
        State,
        auth::{self, Caller},
        body, reply,
    },
};

const AT_HAND_BYTES_MAX: u64 = 1 << 20;

/// Sends the request of `caller` to `path` of the backend, with its query. Who may use certain models only must name one.
pub(in crate::server) async fn to(
    state: &State,
    request: Request<Incoming>,
    (path, caller): (&str, Caller),
) -> Result<Response<reply::Body>, Problem> {
    if state.gate.is_on() && metered::is_counted(request.method(), path) {
        return metered::forward(state, request, (path, caller)).await;
    }
    let (head, incoming) = request.into_parts();
    let path = with_query(path, head.uri.query());
    let forward = Forward { method: &head.method, path: &path, headers: &head.headers, caller: caller.credential.as_ref() };
    // What is short is read first: it can go out on a kept connection, and a client that stalls costs the backend nothing.
    // And where names lead somewhere, the body says where; where some may not be used, it says whether this is one.
    let is_short = incoming.size_hint().upper().is_some_and(|length| length <= AT_HAND_BYTES_MAX);
    let response = if is_short || !state.router.is_plain() || !caller.account.models.is_empty() {
        let body = body::collect(incoming, &state.config).await?;
        let model = model(&body);
        auth::check_model(&caller.account, model.as_deref().unwrap_or_default())?;
        state.router.forward(model, &forward, body).await?
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
