//! The vocabulary of a chat completion, shared by every layer: what a client asks, what a model streams, what went wrong.
//!
//! Nothing here does I/O or knows a wire format. JSON that toolgate does not act on stays [`Bytes`](bytes::Bytes) in the
//! client's own spelling.

pub mod call;
pub mod canonical;
pub mod cost;
pub mod event;
pub mod id;
pub mod message;
pub mod problem;
pub mod reply;
pub mod report;
pub mod request;
pub mod usage;

pub use self::call::CallRecord;
pub use self::event::{Event, FinishReason, Meta};
pub use self::message::{Call, Message};
pub use self::problem::Problem;
pub use self::reply::Reply;
pub use self::report::Report;
pub use self::request::{Request, Servers, Tool, ToolChoice};
pub use self::usage::Usage;
