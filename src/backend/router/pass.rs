//! Requests that are passed on as they are, to the backend that has the model.

use std::{sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Limited;
use hyper::{Response, body::Incoming};

use super::{Member, Router, Served, held::Held, member::Stay, tour};
use crate::{
    backend::{
        Error,
        forward::Forward,
        llama_server::loading::{Patience, is_loading},
    },
    chat::Request,
    upstream,
};

impl Router {
    /// Whether everyone who may be asked for `request` takes it as the client wrote it.
    pub fn is_native(&self, request: &Request) -> bool {
        self.concerned(request).iter().all(|(member, model)| member.kind.is_native() && !member.prompts_tools(model))
    }

    /// Passes a chat completion on, whose client's bytes are `body`. An error status is an [`Error::Status`]; the next backend is asked
    /// where the answer was none.
    pub async fn pass(&self, request: &Request, forward: &Forward<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        let mut tour = self.tour(request, &Served::default()).await?;
        loop {
            let (stay, stop) = tour.next().await?;
            let changed = tour::changed(request, &stay.member, &stop);
            let adapted = stay.member.kind.adapted(changed.as_ref().unwrap_or(request));
            let body = adapted.or(changed).map_or_else(|| body.clone(), |request| written(&request));
            match patiently(&stay.member, forward, body, tour.is_last()).await {
                Ok(response) => return answered(Ok(response), stay),
                Err(error) => tour.failed(&stay, error)?,
            }
        }
    }

    /// Passes any other request on. Any status is an answer. It goes to the first backend that has the `model` which it names, else to the
    /// main one; to another only where the first cannot be reached.
    pub async fn forward(&self, model: Option<String>, forward: &Forward<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        self.send_on(model, Passing { forward, errors: Errors::Answers }, body).await
    }

    /// Passes a request on as [`Self::forward`] does, but makes an error status an [`Error::Status`].
    pub async fn forward_success(&self, model: Option<String>, forward: &Forward<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        self.send_on(model, Passing { forward, errors: Errors::Fail }, body).await
    }

    async fn send_on(&self, model: Option<String>, passing: Passing<'_>, body: Bytes) -> Result<Response<Held>, Error> {
        let Some(model) = model.filter(|model| !model.is_empty()) else {
            // It generates nothing, as far as can be told: it takes nobody's place.
            let stay = self.main()?.stay(None);
            return answered(passing.send(&stay, body).await, stay);
        };
        let request = Request { model, ..Request::default() };
        let mut tour = self.tour(&request, &Served::default()).await?;
        loop {
            let (stay, stop) = tour.next().await?;
            let body = if stop.candidate.model == request.model { body.clone() } else { renamed(&body, &stop.candidate.model) };
            match passing.send(&stay, body).await {
                Err(error @ Error::Connect(_)) => tour.failed(&stay, error)?,
                outcome => return answered(outcome, stay),
            }
        }
    }

    /// Passes a request on to the main backend, its body as it arrives.
    pub async fn forward_stream(&self, forward: &Forward<'_>, body: Limited<Incoming>) -> Result<Response<Held>, Error> {
        let stay = self.main()?.stay(None);
        answered(stay.member.target.forward_stream(forward, body).await, stay)
    }

    /// Whether all requests go to one backend as they are, whatever they name.
    pub fn is_plain(&self) -> bool {
        self.is_single() && self.table.models().is_empty()
    }

    fn main(&self) -> Result<&Arc<Member>, Error> {
        self.members.get(self.default_member().unwrap_or(0)).ok_or(Error::Protocol("there is no backend"))
    }
}

/// Passes a chat completion on, again and again while the server loads its model and `nobody_else` may answer.
async fn patiently(member: &Member, forward: &Forward<'_>, body: Bytes, nobody_else: bool) -> Result<Response<upstream::Body>, Error> {
    let wait = if nobody_else { member.kind.load_timeout() } else { Duration::ZERO };
    let mut patience = Patience::new(wait);
    loop {
        let outcome = member.target.forward_success(forward, body.clone()).await;
        let Err(error) = outcome else { return outcome };
        if wait.is_zero() || !is_loading(&error, &member.target).await || !patience.wait().await {
            return Err(error);
        }
    }
}

/// A request that is passed on.
struct Passing<'a> {
    forward: &'a Forward<'a>,
    errors: Errors,
}

/// What an error status is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Errors {
    /// An answer like any other.
    Answers,
    /// An [`Error::Status`].
    Fail,
}

impl Passing<'_> {
    async fn send(&self, stay: &Stay, body: Bytes) -> Result<Response<upstream::Body>, Error> {
        let target = &stay.member.target;
        if self.errors == Errors::Fail {
            return target.forward_success(self.forward, body).await;
        }
        let response = target.forward(self.forward, body).await?;
        // Some quote the key back.
        if stay.member.has_key && matches!(response.status().as_u16(), 401 | 403) {
            return Err(target.refusal(response, self.forward.caller).await);
        }
        Ok(response)
    }
}

/// What came of a request, for the client and for what is known of the backend.
fn answered(outcome: Result<Response<upstream::Body>, Error>, mut stay: Stay) -> Result<Response<Held>, Error> {
    match outcome {
        Ok(response) => {
            stay.answers = !response.status().is_server_error();
            Ok(response.map(|body| Held::new(body, stay)))
        }
        Err(error) => {
            stay.member.failed(&error);
            Err(error)
        }
    }
}

/// The fields of `request` as a JSON object.
fn written(request: &Request) -> Bytes {
    object(request.fields.iter().map(|(name, value)| (name.as_str(), value)))
}

/// The JSON object `body` with another `model`.
fn renamed(body: &Bytes, model: &str) -> Bytes {
    let Ok(mut fields) = crate::wire::fields::object(body) else { return body.clone() };
    let name = Bytes::from(serde_json::to_vec(model).unwrap_or_default());
    for (_, value) in fields.iter_mut().filter(|(field, _)| field == "model") {
        *value = name.clone();
    }
    object(fields.iter().map(|(name, value)| (name.as_str(), value)))
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a Bytes)>) -> Bytes {
    let mut json = BytesMut::new();
    for (name, value) in fields {
        json.put_slice(if json.is_empty() { b"{" } else { b"," });
        json.put_slice(&serde_json::to_vec(name).unwrap_or_default());
        json.put_slice(b":");
        json.put_slice(value);
    }
    if json.is_empty() {
        json.put_slice(b"{");
    }
    json.put_slice(b"}");
    json.freeze()
}
