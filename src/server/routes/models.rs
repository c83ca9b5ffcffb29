//! The models that a request may name: those of all backends in one list.

use hyper::{Method, Request, Response, StatusCode, body::Incoming};

use super::forward;
use crate::{
    api::openai::models,
    backend::{Error, router::Listed},
    chat::{Problem, problem::Kind},
    server::{
        State,
        auth::{self, Caller},
        reply,
    },
};

/// `GET /v1/models`: those that `caller` may use. A backend that lists its models only for the caller's key is asked with it.
pub(in crate::server) async fn list(state: &State, request: Request<Incoming>, caller: Caller) -> Result<Response<reply::Body>, Problem> {
    let listed = match state.router.models().await {
        Err(Error::Status(refusal)) if state.keys.is_empty() && matches!(refusal.status, 401 | 403) => {
            return forward::to(state, request, ("/v1/models", caller)).await;
        }
        listed => listed?,
    };
    Ok(reply::json(StatusCode::OK, models::list(listed.iter().filter(|listed| may_use(&caller, listed)).map(entry))))
}

/// `GET /v1/models/NAME`; any other method is the backend's business.
pub(in crate::server) async fn one(
    state: &State,
    request: Request<Incoming>,
    (name, caller): (&str, Caller),
) -> Result<Response<reply::Body>, Problem> {
    auth::check_model(&caller.account, name)?;
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let path = request.uri().path().to_owned();
        return forward::to(state, request, (&path, caller)).await;
    }
    let listed = state.router.models().await?;
    let found = listed.iter().find(|listed| listed.model.is_called(name));
    let found = found.ok_or_else(|| {
        let known: Vec<&str> = listed.iter().filter(|listed| may_use(&caller, listed)).map(|listed| listed.model.id.as_str()).collect();
        Problem::new(Kind::NotFound, format!("There is no model `{name}`, only {}.", known.join(", "))).with_code("model_not_found")
    })?;
    Ok(reply::json(StatusCode::OK, models::one(entry(found))))
}

/// Whether `caller` may ask for it by one of its names.
fn may_use(caller: &Caller, listed: &Listed) -> bool {
    listed.model.names().any(|name| caller.account.allows_model(name))
}

fn entry(listed: &Listed) -> models::Entry<'_> {
    let model = &listed.model;
    models::Entry { id: &model.id, owned_by: &listed.backend, context_length: model.context_length, capabilities: &model.capabilities }
}
