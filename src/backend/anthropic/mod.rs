//! A server of Anthropic's Messages API: Anthropic itself, and what speaks like it, such as llama-server.

mod calls;
mod content;
mod encode;
mod form;
mod refuse;
mod thinking;
mod tools;
mod transcript;
mod translate;

use std::{sync::Arc, time::Duration};

use async_stream::try_stream;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Response,
    body::Frame,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
    http::request,
};

use self::translate::Translator;
use super::{Backend, Error, Events, Model, Prompt, Server, Target, readiness::Readiness};
use crate::{
    secret::Secret,
    upstream,
    wire::{
        anthropic::{VERSION, stream::Models},
        sse,
    },
};

/// One event of a stream is a few hundred bytes; a whole call in one event may be long.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// How long the end of the body may be behind the last event; usually it comes with it.
const AFTER_DONE: Duration = Duration::from_millis(50);
/// A health probe that takes longer is no good news.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Thousands of models.
const MODELS_BYTES_MAX: usize = 4 << 20;
const MESSAGES: &str = "/v1/messages";
/// As many as one page has.
const MODELS: &str = "/v1/models?limit=1000";

/// The settings of such a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The limit of a reply where the client sets none: the API insists on one.
    pub max_tokens: u64,
    /// Whether the prompt is marked for the server's cache.
    pub cache: bool,
    /// How the model is told to think.
    pub thinking: ThinkBy,
    /// Whether `temperature`, `top_p` and `top_k` go up: models after Claude Opus 4.6 refuse them.
    pub sampling: bool,
    /// Whether the server forces a form of text (`output_config.format`). Without it, a forced call is a forced `tool_choice`.
    pub output_format: bool,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkBy {
    /// So many tokens: what llama-server and Claude up to 4.6 read.
    Budget,
    /// So hard: what Claude reads from 4.6 on, and nothing else after that.
    Effort,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_tokens: 4096, cache: true, thinking: ThinkBy::Budget, sampling: true, output_format: false }
    }
}

/// A server of the Messages API.
#[derive(Debug, Clone)]
pub struct Anthropic {
    target: Arc<Target>,
    config: Config,
}

impl Anthropic {
    /// The server at `target`.
    pub fn new(target: Arc<Target>, config: Config) -> Self {
        Self { target, config }
    }

    fn request(&self, path: &str, caller: Option<&Secret>) -> request::Builder {
        let (name, version) = VERSION;
        self.target.request(path, caller).header(name, version)
    }

    async fn open(&self, prompt: &Prompt) -> Result<upstream::Body, Error> {
        let caller = prompt.request.credential.as_ref();
        let request = self
            .request(MESSAGES, caller)
            .method("POST")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(encode::body(prompt, &self.config)?)
            .map_err(|_| NO_ADDRESS)?;
        let response = self.target.send(request).await?;
        if !response.status().is_success() {
            return Err(self.target.refusal(response, caller).await);
        }
        if !is_event_stream(response.headers()) {
            return Err(Error::Protocol("it did not stream"));
        }
        Ok(response.into_body())
    }

    async fn list(&self) -> Result<Response<upstream::Body>, Error> {
        let request = self.request(MODELS, None).body(Bytes::new()).map_err(|_| NO_ADDRESS)?;
        self.target.send(request).await
    }
}

const NO_ADDRESS: Error = Error::Protocol("the request has no valid address");

impl Backend for Anthropic {
    fn stream(&self, prompt: Prompt) -> Events {
        let server = self.clone();
        Box::pin(try_stream! {
            let mut body = server.open(&prompt).await?;
            let mut decoder = sse::Decoder::new(EVENT_BYTES_MAX);
            let mut translator = Translator::new(Arc::clone(&server.target), prompt.request.credential.clone());
            while let Some(frame) = next_frame(&mut body, translator.is_done()).await? {
                let Ok(data) = frame.into_data() else { continue };
                decoder.push(&data);
                while let Some(payload) = decoder.next_event().map_err(|_| Error::Protocol("an event is too long"))? {
                    translator.read(payload)?;
                }
                while let Some(event) = translator.next() {
                    yield event;
                }
            }
            translator.finish()?;
        })
    }
}

impl Server for Anthropic {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(async {
            let response = self.list().await?;
            if !response.status().is_success() {
                return Err(self.target.refusal(response, None).await);
            }
            let body = Limited::new(response.into_body(), MODELS_BYTES_MAX).collect().await.map_err(|_| NO_LIST)?.to_bytes();
            let models: Models<'_> = serde_json::from_slice(&body).map_err(|_| NO_LIST)?;
            Ok(models.data.into_iter().map(model).collect())
        })
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(async {
            let status = match tokio::time::timeout(PROBE_TIMEOUT, self.list()).await {
                Ok(Ok(response)) => response.status().as_u16(),
                Ok(Err(Error::Connect(_))) => return Readiness::Unreachable("it cannot be reached".to_owned()),
                Ok(Err(error)) => return Readiness::Unreachable(error.to_string()),
                Err(_) => return Readiness::Unreachable(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
            };
            match status {
                // A server that wants a key which the probe does not have is up, and so is one that keeps no list.
                200..300 | 401 | 403 | 404 | 405 => Readiness::Ready,
                529 => Readiness::NotReady("it is overloaded".to_owned()),
                status => Readiness::NotReady(format!("it answers its health check with {status}")),
            }
        })
    }
}

const NO_LIST: Error = Error::Protocol("its list of models cannot be read");

fn model(model: crate::wire::anthropic::stream::Model<'_>) -> Model {
    let can = |word: &str| word.to_owned();
    let capabilities = model.capabilities.map(|capabilities| {
        let seen = capabilities.image_input.supported.then(|| can("vision"));
        let thought = capabilities.thinking.supported.then(|| can("thinking"));
        // What every model of the API can do.
        [can("completion"), can("tools")].into_iter().chain(seen).chain(thought).collect()
    });
    Model { id: model.id.into_string(), context_length: model.max_input_tokens, capabilities: capabilities.unwrap_or_default() }
}

/// The next frame of the body. After the last event everything is said: the body is read on only so that its connection can be used again,
/// for a moment and whatever happens.
async fn next_frame(body: &mut upstream::Body, done: bool) -> Result<Option<Frame<Bytes>>, Error> {
    if !done {
        return Ok(body.frame().await.transpose()?);
    }
    let end = tokio::time::timeout(AFTER_DONE, body.frame()).await;
    Ok(end.ok().flatten().and_then(Result::ok))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().get(..EVENT_STREAM.len()));
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case(EVENT_STREAM))
}
