//! Formats on the wire, as pure code: server-sent events, lines of JSON, raw JSON fields and objects, OpenAI's contents, chunk and error
//! objects, what Ollama sends, Anthropic's requests and events.

pub mod anthropic;
pub mod content;
pub mod fields;
pub mod ndjson;
pub mod object;
pub mod ollama;
pub mod openai;
pub mod sse;
pub mod text;
