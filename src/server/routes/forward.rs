//! Paths that belong to the backend: both ways as they are.

use hyper::{
    Request, Response,
    body::{Body, Incoming},
};

use super::metered;
use crate::{
    backend::forward::Forward,
    chat::{Problem, problem::repeated},
    server::{
        State,
        auth::{self, Caller},
        body, reply,
    },
    wire::object::Object,
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
    let matters = !state.router.is_plain() || !caller.account.models.is_empty();
    let response = if is_short || matters {
        let body = body::collect(incoming, &state.config).await?;
        let model = if matters { model(&body)? } else { None };
        auth::check_model(&caller.account, model.as_deref().unwrap_or_default())?;
        state.router.forward(model, &forward, body).await?
    } else {
        state.router.forward_stream(&forward, body::limited(incoming, &state.config)?).await?
    };
    Ok(reply::passed(response))
}

/// The model that a JSON body names. Fails where it names two.
pub(super) fn model(body: &[u8]) -> Result<Option<String>, Problem> {
    let Some(object) = std::str::from_utf8(body).ok().and_then(Object::read) else { return Ok(None) };
    if object.repeats("model") { Err(repeated("model")) } else { Ok(object.text("model")) }
}

/// `path` with `query` behind it.
pub(in crate::server) fn with_query(path: &str, query: Option<&str>) -> String {
    query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}
