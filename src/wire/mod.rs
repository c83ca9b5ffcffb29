//! Formats on the wire, as pure code: server-sent events, raw JSON fields, OpenAI's chunk and error objects.

pub mod fields;
pub mod openai;
pub mod sse;
