//! Anthropic's Messages, after the API reference of 2026: `POST /v1/messages` and what belongs to it.
//!
//! What a local model cannot do is left out with a word in the log: tools that Anthropic's servers run, and its own tools whose schemas no
//! other model knows. What only Anthropic's servers act on, such as cache marks, betas, containers and tiers, is read over.

mod decode;
mod encode;
mod messages;
mod models;
mod parts;
mod stream;
mod tokens;
mod tools;

use bytes::Bytes;

pub use self::models::models;
pub use self::tokens::{count, estimate};
use self::{decode::Decoded, encode::About, stream::Encoder};
use super::Dialect;
use crate::chat::{Problem, Request};

/// The dialect.
#[derive(Debug, Clone, Copy)]
pub struct Messages;

impl Dialect for Messages {
    fn decode(&self, body: &Bytes, explain: bool) -> Result<(Request, Box<dyn super::Encoder>), Problem> {
        let Decoded { request, shows_thinking, call_ids } = decode::request(body)?;
        let about = About { model: request.model.clone(), shows_thinking, call_ids, explain };
        Ok((request, Box::new(Encoder::new(about))))
    }

    fn error(&self, problem: &Problem, explain: bool) -> Bytes {
        encode::error(problem, None, explain)
    }

    fn is_native(&self) -> bool {
        false
    }

    fn error_of(&self, problem: &Problem, request_id: &str, explain: bool) -> Bytes {
        encode::error(problem, Some(request_id), explain)
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("request-id")
    }
}
