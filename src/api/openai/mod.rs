//! OpenAI's chat completions, after the API reference 2.3.0.

pub(super) mod decode;
mod encode;
pub mod models;
mod stream;

use bytes::Bytes;

use self::{encode::About, stream::Encoder};
use super::Dialect;
use crate::chat::{Problem, Request};

/// The dialect.
#[derive(Debug, Clone, Copy)]
pub struct ChatCompletions;

impl Dialect for ChatCompletions {
    fn decode(&self, body: &Bytes, explain: bool) -> Result<(Request, Box<dyn super::Encoder>), Problem> {
        let request = decode::request(body)?;
        let about = About { model: request.model.clone(), explain };
        let encoder = Encoder::new(about, request.include_usage);
        Ok((request, Box::new(encoder)))
    }

    fn error(&self, problem: &Problem, explain: bool) -> Bytes {
        encode::error(problem, explain)
    }

    fn is_native(&self) -> bool {
        true
    }
}
