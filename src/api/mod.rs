//! The formats in which clients speak, as pure code: bytes to [`chat::Request`](crate::chat::Request), events to bytes.

pub mod openai;
