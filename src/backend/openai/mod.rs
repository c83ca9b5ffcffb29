//! Any server that speaks OpenAI's chat completions: vLLM, SGLang, LM Studio, what is hosted.

mod calls;
mod encode;
pub(super) mod models;
mod translate;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use hyper::header::{ACCEPT, CONTENT_TYPE};

pub(super) use self::{encode::body, translate::Translator};
use super::{
    Backend, Error, Events, Model, Prompt, Server, Target,
    readiness::Readiness,
    stream::{self, Opened},
};

const PATH: &str = "/v1/chat/completions";

/// The settings of such a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The name under which the server takes the limit of a reply.
    pub max_tokens_field: MaxTokensField,
    /// Whether usage is asked for with `stream_options`, which some old servers and gateways refuse. Without it most tell none.
    pub stream_options: bool,
}

impl Default for Config {
    /// What nearly all servers take.
    fn default() -> Self {
        Self { max_tokens_field: MaxTokensField::AsSent, stream_options: true }
    }
}

/// A name for the limit of a reply. OpenAI's own models that reason refuse `max_tokens`, old servers do not know its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// As the client wrote it.
    AsSent,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// A server of chat completions.
#[derive(Debug, Clone)]
pub struct OpenAi {
    target: Arc<Target>,
    config: Config,
}

impl OpenAi {
    /// The server at `target`.
    pub fn new(target: Arc<Target>, config: Config) -> Self {
        Self { target, config }
    }
}

impl Backend for OpenAi {
    fn stream(&self, prompt: Prompt) -> Events {
        let Self { target, config } = self.clone();
        stream::events(async move { open(&target, &prompt, body(&prompt, &config, &[])).await })
    }
}

impl Server for OpenAi {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(models::of(&self.target))
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(self.target.readiness())
    }
}

/// Sends `body`, which is what `prompt` asks. Fails unless the answer begins well.
pub(super) async fn open(target: &Arc<Target>, prompt: &Prompt, body: Bytes) -> Result<Opened<Translator>, Error> {
    let caller = prompt.request.credential.as_ref();
    let path = match &prompt.request.query {
        None => Cow::Borrowed(PATH),
        Some(query) => Cow::Owned(format!("{PATH}?{query}")),
    };
    let request = target
        .request(&path, caller)
        .method("POST")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(body)
        .map_err(|_| Error::Protocol("the request has no valid address"))?;
    let response = target.send(request).await?;
    if !response.status().is_success() {
        return Err(target.refusal(response, caller).await);
    }
    if !stream::is_readable(response.headers()) {
        return Err(Error::Protocol("it is no chat completion"));
    }
    let translator = Translator::new(Arc::clone(target), Arc::clone(&prompt.request));
    Ok(Opened { body: response.into_body(), translator })
}
