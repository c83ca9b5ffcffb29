//! Paths to handlers.

use hyper::{Method, Request, Response, body::Incoming};

use super::{State, reply, routes};
use crate::{
    api::{Dialect, anthropic::Messages, openai::ChatCompletions},
    chat::{Problem, problem::Kind},
};

/// The dialect of those who ask for `path`, in which they are told of failures too.
pub(super) fn dialect(path: &str) -> &'static dyn Dialect {
    if path.strip_prefix(MESSAGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) { &Messages } else { &ChatCompletions }
}

/// Where Anthropic's clients ask.
const MESSAGES: &str = "/v1/messages";
const COUNT_TOKENS: &str = "/v1/messages/count_tokens";

/// Answers `request`, or says why not.
pub(super) async fn route(state: &State, request: Request<Incoming>) -> Result<Response<reply::Body>, Problem> {
    let get = request.method() == Method::GET || request.method() == Method::HEAD;
    match request.uri().path() {
        "/v1/chat/completions" | "/chat/completions" if request.method() == Method::POST => {
            routes::chat::complete(state, &ChatCompletions, request).await
        }
        "/v1/chat/completions" | "/chat/completions" => Err(wrong_method("POST")),
        MESSAGES if request.method() == Method::POST => routes::chat::complete(state, &Messages, request).await,
        COUNT_TOKENS if request.method() == Method::POST => routes::count_tokens::count(state, request).await,
        MESSAGES | COUNT_TOKENS => Err(wrong_method("POST")),
        path if path.starts_with("/v1/messages/") => Err(nothing_at(&request, path)),
        "/health/live" if get => Ok(routes::health::live()),
        "/health" | "/health/ready" if get => Ok(routes::health::ready(state).await),
        "/models" | "/v1/models" if get => routes::models::list(state).await,
        path @ ("/props" | "/slots") if get => {
            let path = path.to_owned();
            routes::forward::to(state, request, &path).await
        }
        "/health" | "/health/ready" | "/health/live" | "/models" | "/props" | "/slots" => Err(wrong_method("GET, HEAD")),
        path if path.starts_with("/v1/models/") => {
            let name = path.trim_start_matches("/v1/models/").to_owned();
            routes::models::one(state, request, &name).await
        }
        path if path.starts_with("/v1/") => {
            let path = path.to_owned();
            routes::forward::to(state, request, &path).await
        }
        path => Err(nothing_at(&request, path)),
    }
}

fn nothing_at(request: &Request<Incoming>, path: &str) -> Problem {
    Problem::new(Kind::NotFound, format!("There is nothing at {} {path}.", request.method())).with_code("unknown_url")
}

fn wrong_method(allowed: &'static str) -> Problem {
    Problem::new(Kind::Method(allowed), format!("This path takes {allowed}.")).with_code("method_not_allowed")
}
