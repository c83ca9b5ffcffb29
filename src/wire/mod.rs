//! Formats on the wire, as pure code: server-sent events, raw JSON fields and objects, OpenAI's roles, contents, chunk and error objects.

pub mod content;
pub mod fields;
pub mod object;
pub mod openai;
pub mod role;
pub mod sse;
