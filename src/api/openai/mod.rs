//! OpenAI's chat completions, after the API reference 2.3.0.

pub mod decode;
pub mod encode;
pub mod stream;
