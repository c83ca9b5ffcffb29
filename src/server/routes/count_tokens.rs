//! How many tokens a message would have: the backend's own count where it keeps one, else an estimate.

use hyper::{Request, Response, StatusCode, body::Incoming};

use super::forward::{model, with_query};
use crate::{
    api::anthropic,
    backend::{self, forward::Forward},
    chat::Problem,
    server::{
        State,
        auth::{self, Caller},
        body, reply,
    },
};

/// The statuses of a server that does not count.
const NOT_THERE: [u16; 3] = [404, 405, 501];

pub(in crate::server) async fn count(state: &State, request: Request<Incoming>, caller: Caller) -> Result<Response<reply::Body>, Problem> {
    let (head, incoming) = request.into_parts();
    body::refuse_encoded(&head.headers)?;
    let body = body::collect(incoming, &state.config).await?;
    let estimate = anthropic::estimate(&body)?;
    let model = model(&body)?;
    auth::check_model(&caller.account, model.as_deref().unwrap_or_default())?;
    let path = with_query(head.uri.path(), head.uri.query());
    let forward = Forward { method: &head.method, path: &path, headers: &head.headers, caller: caller.credential.as_ref() };
    match state.router.forward_success(model, &forward, body).await {
        Ok(response) => Ok(reply::passed(response)),
        Err(backend::Error::Status(refusal)) if NOT_THERE.contains(&refusal.status) => {
            Ok(reply::json(StatusCode::OK, anthropic::count(estimate)))
        }
        Err(error) => Err(error.into()),
    }
}
