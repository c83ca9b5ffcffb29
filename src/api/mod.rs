//! What clients speak: each dialect is read into `chat::Request` and written from `chat::Event`. Pure, no I/O.
//!
//! Inside, a request is one of OpenAI's chat completions, whatever it came as: another dialect writes those fields when it reads.

pub mod openai;

pub mod anthropic;
pub mod responses;
pub mod session;

use bytes::Bytes;

use crate::chat::{Event, Problem, Reply, Request};

/// A wire format of clients.
pub trait Dialect: Sync {
    /// Reads a request body. What is no part of it, `query` and `credential`, is left for the caller to add. With `explain` the answer
    /// will tell what the guardrails did. Fails with a `param` where one field is to blame.
    fn decode(&self, body: &Bytes, explain: bool) -> Result<(Request, Box<dyn Encoder>), Problem>;

    /// The body of an error answer. With `explain` it tells what the guardrails tried.
    fn error(&self, problem: &Problem, explain: bool) -> Bytes;

    /// Whether the client's bytes are a chat completion that a backend understands as they are.
    fn is_native(&self) -> bool;

    /// As [`Self::error`], with the id of the request where the format has a place for it.
    fn error_of(&self, problem: &Problem, _request_id: &str, explain: bool) -> Bytes {
        self.error(problem, explain)
    }

    /// The header in which clients of this format look for the request's id, beside `x-request-id`.
    fn request_id_header(&self) -> Option<&'static str> {
        None
    }
}

/// Writes the answer to one request, whole or as frames.
pub trait Encoder: Send {
    /// Takes over what is known of the request once its headers were read too.
    fn order(&mut self, _request: &Request) {}

    /// The JSON of a whole answer.
    fn whole(&self, reply: &Reply) -> Bytes;

    /// The frames that say `event`; empty when there is nothing to say yet.
    fn event(&mut self, event: Event) -> Bytes;

    /// A frame that says only that the stream lives.
    fn silence(&self) -> Bytes;

    /// The frame that ends a stream that failed. Nothing follows it: clients must not take what came before for the whole.
    fn failure(&mut self, problem: &Problem) -> Bytes;

    /// The frames that end a stream well, after its last event.
    fn end(&mut self) -> Bytes;
}
