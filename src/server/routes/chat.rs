//! Chat completions: passed through when there is nothing to guard, else run and encoded.

use super::forward::with_query;
use crate::{
    agent::{self, Run},
    api::openai::{
        decode,
        encode::{self, About},
        stream::{self, Encoder},
    },
    backend::forward::Forward,
    chat::{Event, Problem, Reply},
    server::{State, body, headers, reply},
};
use async_stream::stream;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use hyper::{Request, Response, StatusCode, body::Incoming, http::request::Parts};

pub(in crate::server) async fn complete(state: &State, request: Request<Incoming>) -> Result<Response<reply::Body>, Problem> {
    let (head, incoming) = request.into_parts();
    body::refuse_encoded(&head.headers)?;
    let guardrails = headers::guardrails(&head.headers, state.agent.guardrails())?;
    let body = body::collect(incoming, &state.config).await?;
    let mut request = decode::request(&body)?;
    request.credential = headers::credential(&head.headers);
    if !agent::guards(&request, guardrails) {
        return pass(state, &head, &request, body).await;
    }
    request.query = head.uri.query().map(str::to_owned);
    let about = About { model: request.model.clone(), explain: headers::explain(&head.headers) };
    let (stream, include_usage) = (request.stream, request.include_usage);
    let run = state.agent.run(request, guardrails);
    if stream { answer_stream(run, Encoder::new(about, include_usage)).await } else { answer(run, &about).await }
}

/// The short cut: the client's bytes go up, the backend's come down.
async fn pass(state: &State, head: &Parts, request: &crate::chat::Request, body: Bytes) -> Result<Response<reply::Body>, Problem> {
    let path = with_query("/v1/chat/completions", head.uri.query());
    let caller = request.credential.as_ref();
    let forward = Forward { method: &head.method, path: &path, headers: &head.headers, caller };
    Ok(reply::passed(state.target.forward_success(&forward, body).await?))
}

async fn answer(mut run: Run, about: &About) -> Result<Response<reply::Body>, Problem> {
    let mut answer = Reply::default();
    while let Some(event) = run.next().await {
        answer.add(event?);
    }
    let mut response = reply::json(StatusCode::OK, encode::completion(&answer, about));
    if let Some(report) = &answer.report {
        headers::report(response.headers_mut(), report);
    }
    Ok(response)
}

/// The head leaves with the first event: until then a failure still has a status of its own.
async fn answer_stream(mut run: Run, encoder: Encoder) -> Result<Response<reply::Body>, Problem> {
    let first = run.next().await.transpose()?;
    let report = match &first {
        Some(Event::Settled(report)) => Some(report.clone()),
        _ => None,
    };
    let mut response = reply::events(frames(first, run, encoder));
    if let Some(report) = &report {
        headers::report(response.headers_mut(), report);
    }
    Ok(response)
}

fn frames(first: Option<Event>, mut run: Run, mut encoder: Encoder) -> impl Stream<Item = Bytes> + Send {
    stream! {
        let mut next = first.map(Ok);
        loop {
            match next {
                Some(Ok(event)) => {
                    let frames = encoder.encode(event);
                    if !frames.is_empty() {
                        yield frames;
                    }
                }
                // No `[DONE]`: clients must not take what came before for the whole.
                Some(Err(problem)) => {
                    yield stream::failure(&problem);
                    break;
                }
                None => {
                    yield stream::done();
                    break;
                }
            }
            next = run.next().await;
        }
    }
}
