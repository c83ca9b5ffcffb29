//! Calls of models whose bytes are passed on: the gate is asked before, and what the answer tells is charged after.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, Request, Response, body::Incoming, http::request::Parts};

use super::{
    asked::{Asked, Work, with_fields},
    forward::with_query,
};
use crate::{
    agent::Job,
    backend::{self, forward::Forward, router::Held},
    budget::Meter,
    chat::{self, Problem, problem::repeated},
    secret::Secret,
    server::{
        State,
        auth::{self, Caller},
        body, headers, reply,
        watched::Call,
    },
    trace,
};

/// What a POST below `/v1/` may be about without making a model work. Anything else does, as far as can be told.
const FREE: [&str; 7] = ["models", "files", "uploads", "vector_stores", "tokenize", "detokenize", "apply-template"];

/// Whether a request of this kind makes a model work.
pub(super) fn is_counted(method: &Method, path: &str) -> bool {
    let first = path.strip_prefix("/v1/").and_then(|path| path.split('/').next());
    method == Method::POST && first.is_some_and(|first| !FREE.contains(&first))
}

/// Sends the request of `caller` to `path` of the backend, if that may be done on their account.
pub(super) async fn forward(
    state: &State,
    request: Request<Incoming>,
    (path, caller): (&str, Caller),
) -> Result<Response<reply::Body>, Problem> {
    let (head, incoming) = request.into_parts();
    // What cannot be read cannot be counted.
    body::refuse_encoded(&head.headers)?;
    let body = body::collect(incoming, &state.config).await?;
    let asked = Asked::read(&body, Work::of(path));
    if let Some(name) = asked.repeated {
        return Err(repeated(name));
    }
    auth::check_model(&caller.account, &asked.model)?;
    let account = &caller.account;
    let named = named(&head, &asked, caller.credential);
    let session = named.session.as_deref().unwrap_or(&named.id);
    let meter = state.gate.meter(account, &named.id, session);
    let trace = state.agent.trace();
    let turn =
        if trace.is_on() { trace.turn(&Arc::new(trace::Run::new(&named, session, &account.key)), 1) } else { trace::Turn::default() };
    let admitted = admit(&meter, turn, &asked, body).await?;
    let path = with_query(path, head.uri.query());
    let forward = Forward { method: &head.method, path: &path, headers: &head.headers, caller: named.credential.as_ref() };
    let Admitted { mut call, body, .. } = admitted;
    call.begin();
    let model = Some(asked.model).filter(|model| !model.is_empty());
    answered(call, state.router.forward(model, &forward, body).await)
}

/// Passes the chat completion of `job` on, whose client's bytes are `body`, if it may be asked for.
pub(super) async fn pass(state: &State, job: &Job, forward: &Forward<'_>, body: Bytes) -> Result<Response<reply::Body>, Problem> {
    let mut asked = Asked::read(&body, Work::Completes);
    job.request().model.clone_into(&mut asked.model);
    let Admitted { mut call, body, fields } = admit(job.meter(), state.agent.only_turn(job), &asked, body).await?;
    call.begin();
    if fields.is_empty() {
        return answered(call, state.router.pass(job.request(), forward, body).await);
    }
    let mut request = job.request().clone();
    for (name, value) in fields {
        request.set_field(name, value.to_string().into());
    }
    answered(call, state.router.pass(&request, forward, body).await)
}

/// A call that may be made.
struct Admitted {
    call: Call,
    /// What is sent for it.
    body: Bytes,
    /// What is in it in place of what the client wrote.
    fields: Vec<(&'static str, u64)>,
}

async fn admit(meter: &Meter, turn: trace::Turn, asked: &Asked, body: Bytes) -> Result<Admitted, Problem> {
    let pass = meter.model(asked.ask()).await?;
    let fields = asked.held_to(pass.max_tokens());
    let body = with_fields(&body, &fields);
    Ok(Admitted { call: Call::new(pass, turn, asked.replies), body, fields })
}

/// The answer for the client, watched on its way.
fn answered(call: Call, outcome: Result<Response<Held>, backend::Error>) -> Result<Response<reply::Body>, Problem> {
    match outcome {
        Ok(response) => Ok(reply::passed(call.answered(response))),
        Err(error) => {
            call.failed(&error);
            Err(error.into())
        }
    }
}

/// What is known of a request that is not read.
fn named(head: &Parts, asked: &Asked, credential: Option<Secret>) -> chat::Request {
    chat::Request {
        id: headers::id_of(head).to_owned(),
        model: asked.model.clone(),
        session: headers::session(&head.headers).map(str::to_owned),
        credential,
        ..chat::Request::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_model_work_is_counted() {
        for path in ["/v1/completions", "/v1/embeddings", "/v1/rerank", "/v1/audio/speech", "/v1/whatever", "/v1/"] {
            assert!(is_counted(&Method::POST, path) && !is_counted(&Method::GET, path), "{path}");
        }
        for path in ["/v1/files", "/v1/models/m/load", "/v1/tokenize", "/props", "/slots"] {
            assert!(!is_counted(&Method::POST, path), "{path}");
        }
    }
}
