//! Ollama, by its own `/api/chat`: the one way to say how long the context is, and to have every sampling field.

mod content;
mod context;
mod encode;
mod messages;
mod models;
mod options;
mod refusal;
mod translate;

use std::sync::Arc;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use hyper::header::{ACCEPT, CONTENT_TYPE};

pub use self::context::NumCtx;
use self::{
    context::{Lengths, Size},
    encode::{Call, Think},
    messages::Messages,
    models::Known,
    translate::Translator,
};
use super::{
    Backend, Error, Events, Model, Prompt, Server, Target,
    readiness::Readiness,
    stream::{self, Framing, Opened},
};

/// The settings of an Ollama.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// How long contexts are. A request's own `num_ctx` goes before.
    pub num_ctx: NumCtx,
    /// `true`, `false` or a level, for requests that do not say how much the model is to think. Without it Ollama decides: it lets every
    /// model think that can.
    pub think: Option<String>,
    /// How long a model stays loaded after its last request, such as `10m`; seconds without a unit, for ever when negative. Without it
    /// Ollama decides: five minutes.
    pub keep_alive: Option<String>,
}

const PATH: &str = "/api/chat";

/// An Ollama. Clones share what is known of its models.
#[derive(Debug, Clone)]
pub struct Ollama {
    target: Arc<Target>,
    config: Arc<Config>,
    known: Arc<Known>,
    lengths: Arc<Lengths>,
}

impl Ollama {
    /// The server at `target`.
    pub fn new(target: Arc<Target>, config: Config) -> Self {
        Self { target, config: Arc::new(config), known: Arc::default(), lengths: Arc::default() }
    }

    async fn open(&self, prompt: &Prompt) -> Result<Opened<Translator>, Error> {
        let model = &prompt.request.model;
        let messages = messages::encode(&prompt.request.messages, &prompt.corrections)?;
        let num_ctx = self.num_ctx(prompt, &messages).await;
        let think = encode::think(&prompt.request, &self.config);
        let mut call = Call { messages: messages.json, num_ctx, think };
        let by_level = call.think.as_ref().is_some_and(|think| think.is_effort);
        if by_level && !self.known.takes_levels(model) {
            call.think = Some(THINK);
            return self.send(prompt, &call).await;
        }
        match self.send(prompt, &call).await {
            // Up to 0.17 only one family of models takes levels. What is meant is that it thinks.
            Err(error) if by_level && refusal::is_about_think_level(&error) => {
                self.known.note_without_levels(model);
                call.think = Some(THINK);
                self.send(prompt, &call).await
            }
            outcome => outcome,
        }
    }

    async fn send(&self, prompt: &Prompt, call: &Call) -> Result<Opened<Translator>, Error> {
        let caller = prompt.request.credential.as_ref();
        let request = self
            .target
            .request(PATH, caller)
            .method("POST")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/x-ndjson")
            .body(encode::body(prompt, call, &self.config))
            .map_err(|_| Error::Protocol("the request has no valid address"))?;
        let response = self.target.send(request).await?;
        if !response.status().is_success() {
            return Err(refusal::explained(self.target.refusal(response, caller).await, &prompt.request.model));
        }
        if Framing::of(response.headers()) == Some(Framing::Events) {
            return Err(Error::Protocol("it does not answer in lines of JSON"));
        }
        let translator = Translator::new(Arc::clone(&self.target), Arc::clone(&prompt.request));
        Ok(Opened { body: response.into_body(), framing: Framing::Lines, translator })
    }

    /// How long a context to ask for, `None` where the client or the server says.
    async fn num_ctx(&self, prompt: &Prompt, messages: &Messages) -> Option<u32> {
        match self.config.num_ctx {
            NumCtx::Server => None,
            NumCtx::Fixed(tokens) => Some(tokens),
            NumCtx::Need if options::sets_num_ctx(prompt) => None,
            NumCtx::Need => {
                let bytes = messages.json.len() - messages.image_bytes + encode::tools(prompt).map_or(0, Bytes::len);
                let reply_tokens_max = options::reply_tokens_max(prompt);
                let tokens = Size { bytes, images: messages.images, reply_tokens_max }.tokens();
                let model = &prompt.request.model;
                let known = self.lengths.known(model);
                if known > 0 && tokens <= u64::from(known) {
                    return Some(known);
                }
                let (made_for, set) = self.lengths_of(model).await;
                // Who set a length for the model had a reason.
                Some(self.lengths.grow(model, tokens.max(set.unwrap_or(0)), made_for))
            }
        }
    }
}

/// To think, without a word of how much.
const THINK: Think = Think { json: Bytes::from_static(b"true"), is_effort: false };

impl Backend for Ollama {
    fn stream(&self, prompt: Prompt) -> Events {
        let server = self.clone();
        stream::events(async move { server.open(&prompt).await })
    }
}

impl Server for Ollama {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(self.list())
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(self.target.readiness_at("/api/version"))
    }
}
