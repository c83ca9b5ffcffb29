//! Formats on the wire, as pure code: server-sent events, lines of JSON, raw JSON fields, objects and strings; OpenAI's roles, contents,
//! chunk and error objects, Anthropic's requests and events, what Ollama sends.

pub mod anthropic;
pub mod content;
pub mod fields;
pub mod ndjson;
pub mod object;
pub mod ollama;
pub mod openai;
pub mod outline;
pub mod role;
pub mod sse;
pub mod text;
