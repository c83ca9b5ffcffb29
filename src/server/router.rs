//! Paths to handlers.

use hyper::{Method, Request, Response, body::Incoming};

use super::{
    State,
    auth::{self, Caller},
    body, origin, reply, routes,
};
use crate::{
    api::{Dialect, anthropic::Messages, openai::ChatCompletions, responses::Responses, session::Session},
    chat::{Problem, problem::Kind},
};

/// The dialect of those who ask for `path`, in which they are told of failures too.
pub(super) fn dialect(path: &str) -> &'static dyn Dialect {
    match path {
        path if is_below(path, &[MESSAGES]) => &Messages,
        path if is_below(path, &RESPONSES) => &Responses,
        CHAT => &Session { stream: false },
        CHAT_STREAM => &Session { stream: true },
        _ => &ChatCompletions,
    }
}

/// Whether `path` is one of `bases` or below it.
fn is_below(path: &str, bases: &[&str]) -> bool {
    bases.iter().filter_map(|base| path.strip_prefix(base)).any(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where Anthropic's clients ask.
const MESSAGES: &str = "/v1/messages";
const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
/// Where clients of OpenAI's Responses ask.
const RESPONSES: [&str; 2] = ["/v1/responses", "/responses"];
/// Where those ask who leave the tools to toolgate.
const CHAT: &str = "/chat";
const CHAT_STREAM: &str = "/chat/stream";

/// Where budgets are seen and changed.
const BUDGET: &str = "/budget";

/// Answers `request`, or says why not.
pub(super) async fn route(state: &State, request: Request<Incoming>) -> Result<Response<reply::Body>, Problem> {
    match auth::identify(&state.keys, &request) {
        Ok(caller) => answer(state, request, caller).await,
        Err(problem) => {
            auth::turn_away(request).await;
            Err(problem)
        }
    }
}

async fn answer(state: &State, request: Request<Incoming>, caller: Caller) -> Result<Response<reply::Body>, Problem> {
    let get = request.method() == Method::GET || request.method() == Method::HEAD;
    match request.uri().path() {
        "/v1/chat/completions" | "/chat/completions" if request.method() == Method::POST => {
            routes::chat::complete(state, &ChatCompletions, request, caller).await
        }
        "/v1/chat/completions" | "/chat/completions" => Err(wrong_method("POST")),
        MESSAGES if request.method() == Method::POST => routes::chat::complete(state, &Messages, request, caller).await,
        COUNT_TOKENS if request.method() == Method::POST => routes::count_tokens::count(state, request, caller).await,
        MESSAGES | COUNT_TOKENS => Err(wrong_method("POST")),
        path if path.starts_with("/v1/messages/") => Err(nothing_at(request.method(), path)),
        path if RESPONSES.contains(&path) && request.method() == Method::POST => {
            routes::chat::complete(state, &Responses, request, caller).await
        }
        path if RESPONSES.contains(&path) => Err(wrong_method("POST")),
        CHAT | CHAT_STREAM if request.method() == Method::POST => {
            let stream = request.uri().path() == CHAT_STREAM;
            routes::chat::complete(state, &Session { stream }, request, caller).await
        }
        CHAT | CHAT_STREAM => Err(wrong_method("POST")),
        path if is_below(path, &RESPONSES) => {
            let message = format!("There is nothing at {} {path}: responses are not stored here.", request.method());
            // A connection with an unread body on it cannot be used again, and some clients try.
            body::collect(request.into_body(), &state.config).await?;
            Err(Problem::new(Kind::NotFound, message).with_code("not_found"))
        }
        "/health/live" if get => Ok(routes::health::live()),
        path @ ("/health" | "/health/ready" | "/tools" | "/metrics") if get => {
            origin::check_reader(request.headers(), state)?;
            match path {
                "/tools" => routes::tools::list(state, request.uri().query(), &caller.account),
                "/metrics" => Ok(routes::metrics::show(state)),
                _ => Ok(routes::health::ready(state, caller.is_stranger).await),
            }
        }
        "/models" | "/v1/models" if get => routes::models::list(state, request, caller).await,
        path @ ("/props" | "/slots") if get => {
            let path = path.to_owned();
            routes::forward::to(state, request, (&path, caller)).await
        }
        "/health" | "/health/ready" | "/health/live" | "/models" | "/props" | "/slots" | "/tools" | "/metrics" => {
            Err(wrong_method("GET, HEAD"))
        }
        path if path.starts_with("/v1/models/") => {
            let name = path.trim_start_matches("/v1/models/").to_owned();
            routes::models::one(state, request, (&name, caller)).await
        }
        path if path.starts_with("/v1/") => {
            let path = path.to_owned();
            routes::forward::to(state, request, (&path, caller)).await
        }
        path if is_below(path, &[BUDGET]) => routes::budget::answer(state, request, caller).await,
        path => Err(nothing_at(request.method(), path)),
    }
}

pub(super) fn nothing_at(method: &Method, path: &str) -> Problem {
    Problem::new(Kind::NotFound, format!("There is nothing at {method} {path}.")).with_code("unknown_url")
}

pub(super) fn wrong_method(allowed: &'static str) -> Problem {
    Problem::new(Kind::Method(allowed), format!("This path takes {allowed}.")).with_code("method_not_allowed")
}
