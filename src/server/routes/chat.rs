//! Chat completions: passed through when there is nothing to guard, else run and encoded.

use std::time::Duration;

use async_stream::stream;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use hyper::{Request, Response, StatusCode, body::Incoming, http::request::Parts};
use tokio::time::Instant;

use super::{forward::with_query, metered};
use crate::{
    agent::{Job, Run},
    api::{Dialect, Encoder},
    backend::forward::Forward,
    chat::{Event, Problem, Reply},
    server::{
        State,
        auth::{self, Caller},
        body, headers, origin, reply,
    },
};

pub(in crate::server) async fn complete(
    state: &State,
    dialect: &dyn Dialect,
    request: Request<Incoming>,
    caller: Caller,
) -> Result<Response<reply::Body>, Problem> {
    let (head, incoming) = request.into_parts();
    body::refuse_encoded(&head.headers)?;
    let guardrails = headers::guardrails(&head.headers, state.agent.guardrails())?;
    let body = body::collect(incoming, &state.config).await?;
    let (mut request, mut encoder) = dialect.decode(&body, headers::explain(&head.headers))?;
    auth::check_models(&caller.account, &request)?;
    request.credential = caller.credential;
    headers::order(&head, &mut request)?;
    encoder.order(&request);
    if dialect.is_native() {
        request.query = head.uri.query().map(str::to_owned);
    }
    let job = state.agent.prepare(request, caller.account).await?;
    let is_work = job.is_work(guardrails);
    if job.runs_tools() {
        origin::check(&head.headers, &state.config.origins)?;
    }
    if dialect.is_native() && !is_work && state.router.is_native(job.request()) {
        return pass(state, &head, &job, body).await;
    }
    if job.request().choices != 1 && !is_work {
        return Err(Problem::invalid("n", "The backend gives one choice only: leave `n` out, or ask several times."));
    }
    let stream = job.request().stream;
    let is_lost = job.is_lost();
    let run = state.agent.run(job, guardrails);
    let answer = if stream { answer_stream(state, run, encoder).await } else { answer(run, encoder).await };
    let mut response = answer?;
    headers::continuation(response.headers_mut(), is_lost);
    Ok(response)
}

/// The short cut: the client's bytes go up, the backend's come down.
async fn pass(state: &State, head: &Parts, job: &Job, body: Bytes) -> Result<Response<reply::Body>, Problem> {
    let path = with_query("/v1/chat/completions", head.uri.query());
    let caller = job.request().credential.as_ref();
    let forward = Forward { method: &head.method, path: &path, headers: &head.headers, caller };
    if job.meter().is_on() {
        return metered::pass(state, job, &forward, body).await;
    }
    Ok(reply::passed(state.router.pass(job.request(), &forward, body).await?))
}

async fn answer(mut run: Run, encoder: Box<dyn Encoder>) -> Result<Response<reply::Body>, Problem> {
    let mut answer = Reply::default();
    while let Some(event) = run.next().await {
        answer.add(event?);
    }
    let mut response = reply::json(StatusCode::OK, encoder.whole(&answer));
    if let Some(report) = &answer.report {
        headers::report(response.headers_mut(), report);
    }
    Ok(response)
}

/// The head leaves with the first frame, or after a grace without one: a failure until then has a status of its own.
async fn answer_stream(state: &State, mut run: Run, mut encoder: Box<dyn Encoder>) -> Result<Response<reply::Body>, Problem> {
    let until = Instant::now() + state.config.head_grace;
    let mut report = None;
    let coming = loop {
        match tokio::time::timeout_at(until, run.next()).await {
            Ok(Some(event)) => {
                let event = event?;
                if let Event::Settled(settled) = &event {
                    report = Some(settled.clone());
                }
                let frames = encoder.event(event);
                if !frames.is_empty() {
                    break Next::Frames(frames);
                }
            }
            Ok(None) => break Next::End,
            Err(_) => break Next::Silence,
        }
    };
    let mut response = reply::events(frames(coming, run, encoder, state.config.keep_alive));
    if let Some(report) = &report {
        headers::report(response.headers_mut(), report);
    }
    Ok(response)
}

/// What comes next in a stream.
enum Next {
    Frames(Bytes),
    Event(Event),
    Failure(Problem),
    /// Nothing for a while.
    Silence,
    End,
}

async fn next(run: &mut Run, keep_alive: Option<Duration>) -> Next {
    let coming = match keep_alive {
        Some(keep_alive) => tokio::time::timeout(keep_alive, run.next()).await,
        None => Ok(run.next().await),
    };
    match coming {
        Ok(Some(Ok(event))) => Next::Event(event),
        Ok(Some(Err(problem))) => Next::Failure(problem),
        Ok(None) => Next::End,
        Err(_) => Next::Silence,
    }
}

fn frames(first: Next, mut run: Run, mut encoder: Box<dyn Encoder>, keep_alive: Option<Duration>) -> impl Stream<Item = Bytes> + Send {
    stream! {
        let mut coming = first;
        loop {
            match coming {
                Next::Frames(frames) => yield frames,
                Next::Event(event) => {
                    let frames = encoder.event(event);
                    if !frames.is_empty() {
                        yield frames;
                    }
                }
                Next::Silence => yield encoder.silence(),
                // No `[DONE]`: clients must not take what came before for the whole.
                Next::Failure(problem) => {
                    yield encoder.failure(&problem);
                    break;
                }
                Next::End => {
                    yield encoder.end();
                    break;
                }
            }
            coming = next(&mut run, keep_alive).await;
        }
    }
}
