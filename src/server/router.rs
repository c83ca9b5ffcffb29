//! Paths to handlers.

use hyper::{Method, Request, Response, body::Incoming};

use super::{State, body, reply, routes};
use crate::{
    api::{Dialect, openai::ChatCompletions, responses::Responses},
    chat::{Problem, problem::Kind},
};

/// The dialect of those who ask for `path`, in which they are told of failures too.
pub(super) fn dialect(path: &str) -> &'static dyn Dialect {
    if is_responses(path) { &Responses } else { &ChatCompletions }
}

/// `/v1/responses` and what is below it.
fn is_responses(path: &str) -> bool {
    let below = ["/v1/responses", "/responses"].into_iter().find_map(|base| path.strip_prefix(base));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Answers `request`, or says why not.
pub(super) async fn route(state: &State, request: Request<Incoming>) -> Result<Response<reply::Body>, Problem> {
    let get = request.method() == Method::GET || request.method() == Method::HEAD;
    match request.uri().path() {
        "/v1/chat/completions" | "/chat/completions" if request.method() == Method::POST => {
            routes::chat::complete(state, &ChatCompletions, request).await
        }
        "/v1/chat/completions" | "/chat/completions" => Err(wrong_method("POST")),
        "/v1/responses" | "/responses" if request.method() == Method::POST => routes::chat::complete(state, &Responses, request).await,
        "/v1/responses" | "/responses" => Err(wrong_method("POST")),
        path if is_responses(path) => {
            let message = format!("There is nothing at {} {path}: responses are not stored here.", request.method());
            // A connection with an unread body on it cannot be used again, and some clients try.
            body::collect(request.into_body(), &state.config).await?;
            Err(Problem::new(Kind::NotFound, message).with_code("not_found"))
        }
        "/health/live" if get => Ok(routes::health::live()),
        "/health" | "/health/ready" if get => Ok(routes::health::ready(state).await),
        "/models" if get => routes::forward::to(state, request, "/v1/models").await,
        path @ ("/props" | "/slots") if get => {
            let path = path.to_owned();
            routes::forward::to(state, request, &path).await
        }
        "/health" | "/health/ready" | "/health/live" | "/models" | "/props" | "/slots" => Err(wrong_method("GET, HEAD")),
        path if path.starts_with("/v1/") => {
            let path = path.to_owned();
            routes::forward::to(state, request, &path).await
        }
        path => Err(Problem::new(Kind::NotFound, format!("There is nothing at {} {path}.", request.method())).with_code("unknown_url")),
    }
}

fn wrong_method(allowed: &'static str) -> Problem {
    Problem::new(Kind::Method(allowed), format!("This path takes {allowed}.")).with_code("method_not_allowed")
}
