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

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Response,
    header::{ACCEPT, CONTENT_TYPE},
    http::request,
};

use self::translate::Translator;
use super::{
    Backend, Error, Events, Model, Prompt, Server, Target,
    readiness::Readiness,
    stream::{self, Framing, Opened},
};
use crate::{
    secret::Secret,
    upstream,
    wire::anthropic::{VERSION, stream::Models},
};

/// A health probe that takes longer is no good news.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// A list is at hand.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
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

    async fn open(&self, prompt: &Prompt) -> Result<Opened<Translator>, Error> {
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
        let framing = Framing::of_reply(response.headers()).ok_or(Error::Protocol("it answered with something else than a message"))?;
        let translator = Translator::new(Arc::clone(&self.target), caller.cloned());
        Ok(Opened { body: response.into_body(), framing, translator })
    }

    async fn list(&self, patience: Duration) -> Result<Response<upstream::Body>, Error> {
        let request = self.request(MODELS, None).body(Bytes::new()).map_err(|_| NO_ADDRESS)?;
        let late = |_| Error::Stalled(upstream::Error::FirstByte(patience));
        tokio::time::timeout(patience, self.target.send(request)).await.map_err(late)?
    }
}

const NO_ADDRESS: Error = Error::Protocol("the request has no valid address");

impl Backend for Anthropic {
    fn stream(&self, prompt: Prompt) -> Events {
        let server = self.clone();
        stream::events(async move { server.open(&prompt).await })
    }
}

impl Server for Anthropic {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(async {
            let response = self.list(LIST_TIMEOUT).await?;
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
            let status = match self.list(PROBE_TIMEOUT).await {
                Ok(response) => response.status().as_u16(),
                Err(Error::Connect(_)) => return Readiness::Unreachable("it cannot be reached".to_owned()),
                Err(Error::Stalled(_)) => return Readiness::Unreachable(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
                Err(error) => return Readiness::Unreachable(error.to_string()),
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
    let context_length = model.max_input_tokens.or_else(|| model.meta?.n_ctx);
    Model { id: model.id.into_string(), context_length, capabilities: capabilities.unwrap_or_default() }
}
