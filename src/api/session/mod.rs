//! `/chat` and `/chat/stream`: one message in, one answer out, with the tools that toolgate runs itself and none of the client's own.

mod decode;
mod encode;

use bytes::Bytes;

use self::encode::Encoder;
use super::{Dialect, openai::ChatCompletions};
use crate::chat::{Problem, Request};

/// The dialect: answers come whole, or as events while they are made.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Whether the client reads events.
    pub stream: bool,
}

impl Dialect for Session {
    fn decode(&self, body: &Bytes, explain: bool) -> Result<(Request, Box<dyn super::Encoder>), Problem> {
        let request = Request { stream: self.stream, ..decode::request(body)? };
        Ok((request, Box::new(Encoder::new(explain))))
    }

    fn error(&self, problem: &Problem, explain: bool) -> Bytes {
        ChatCompletions.error(problem, explain)
    }

    fn is_native(&self) -> bool {
        false
    }
}
