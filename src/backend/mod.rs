//! Model servers: one trait, one stream of events, one file per kind of server.
//!
//! A backend translates and nothing more. What a server cannot do is made up for in `inference`.

pub mod anthropic;
mod ask;
mod error;
pub mod forward;
pub mod kind;
pub mod llama_server;
mod model;
pub mod ollama;
pub mod openai;
pub mod prompt_tools;
pub mod readiness;
pub mod router;
pub mod sampling;
mod stream;
pub mod target;

use std::sync::Arc;

use bytes::Bytes;
use futures_core::{future::BoxFuture, stream::BoxStream};

pub use self::error::{Error, Refusal};
pub use self::kind::{Config, Kind, Tools};
pub use self::model::Model;
use self::readiness::Readiness;
pub use self::router::{Router, Served};
pub use self::target::{Slot, Target};
use crate::chat::{Event, Message, Request};

/// The tools of one upstream call.
#[derive(Debug, Clone)]
pub enum Offered {
    /// Those of the request, as the client wrote them.
    AsRequested,
    /// A JSON array that replaces them.
    Instead(Bytes),
    /// None, and nothing that speaks of tools.
    Withheld,
}

/// One upstream call: the client's request and what an attempt adds to it.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What the client asks.
    pub request: Arc<Request>,
    /// The tools that the model sees.
    pub offered: Offered,
    /// Messages appended to the client's.
    pub corrections: Vec<Message>,
    /// A JSON schema that the reply's text is forced to satisfy. The tools stay in the prompt.
    pub form: Option<Bytes>,
    /// Fields that replace the request's, in the words of OpenAI.
    pub sampling: Vec<(&'static str, Bytes)>,
    /// Who answered before, where the model is asked again.
    pub served: Served,
}

/// What a backend wants of a request, beside what is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// No two messages of one role in a row, and no system messages but the first.
    pub strict_alternation: bool,
    /// Tools are written into the prompt, so calls come as text.
    pub prompt_tools: bool,
    /// It does not keep a model to a required call by itself: one in its own form is all that it lets pass, and a small model that writes
    /// another goes on until its limit.
    pub form_when_required: bool,
}

/// The events of one reply: `Started` first, `Finished` before the end. Ends after the first error. Dropping it closes the
/// connection, which stops the model.
pub type Events = BoxStream<'static, Result<Event, Error>>;

/// Who answers prompts: a model server, or several as one.
pub trait Backend: Send + Sync {
    /// Asks the model. Nothing is sent before the stream is polled.
    fn stream(&self, prompt: Prompt) -> Events;

    /// What those who may be asked want of `request`.
    fn needs(&self, _request: &Request) -> Needs {
        Needs::default()
    }
}

/// A model server.
pub trait Server: Backend {
    /// The models that it has now. Fails as a request does; a server that keeps no list has an empty one.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>>;

    /// Whether it can answer now. Takes a few seconds at most.
    fn readiness(&self) -> BoxFuture<'_, Readiness>;
}
