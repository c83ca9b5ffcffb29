//! OpenAI's Responses, as far as they need no store: each request says everything itself.
//!
//! Source: OpenAI API reference 2.3.0, the Open Responses specification, and what Codex 0.169 sends and reads.

mod choice;
mod content;
mod decode;
mod echo;
mod encode;
mod frame;
mod items;
mod object;
mod output;
mod stream;
mod tools;

use bytes::Bytes;

use self::stream::Encoder;
use super::{Dialect, openai::ChatCompletions};
use crate::chat::{Problem, Request};

/// The dialect.
#[derive(Debug, Clone, Copy)]
pub struct Responses;

impl Dialect for Responses {
    fn decode(&self, body: &Bytes, explain: bool) -> Result<(Request, Box<dyn super::Encoder>), Problem> {
        let (request, mut about) = decode::request(body)?;
        about.explain = explain;
        Ok((request, Box::new(Encoder::new(about))))
    }

    fn error(&self, problem: &Problem, explain: bool) -> Bytes {
        ChatCompletions.error(problem, explain)
    }

    fn is_native(&self) -> bool {
        false
    }
}
