//! The vocabulary of a chat completion, shared by every layer: what a client asks, what a model streams, what went wrong.
//!
//! Nothing here does I/O or knows a wire format. JSON that toolgate does not act on stays [`Bytes`](bytes::Bytes) in the
//! client's own spelling.

pub mod event;
pub mod id;
pub mod message;
pub mod problem;
pub mod reply;
pub mod report;
pub mod request;
pub mod usage;

pub use event::{Event, FinishReason, Meta};
pub use message::{Call, Message};
pub use problem::Problem;
pub use reply::Reply;
pub use report::Report;
pub use request::{Request, Tool, ToolChoice};
pub use usage::Usage;
