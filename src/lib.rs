//! toolgate: an OpenAI-compatible proxy that makes small local models call tools correctly.
//!
//! # The way of a request
//!
//! ```text
//! listener::serve → connection::serve → router::route
//!   │ nothing to guard: routes::chat::pass, routes::forward::to ── Router::pass ── backend::forward ── upstream
//!   ▼
//! routes::chat::complete ── body::collect → Dialect::decode → chat::Request, an OpenAI chat completion whatever it came as
//!   ▼
//! Agent::run → run::start ── one record a run
//!   ▼
//! Engine::complete ── offer (respond) ── history (repair)
//!   ▼
//! Attempts::prompt (constrain) → Router::stream (which backend, sampling, prompt tools) → Backend::stream of its kind
//!   ▼
//! hearing (thinking, forced, accumulate, hold) → judge (rescue, validate, repair, coerce) ── nudge, ask again: Attempts::prompt
//!   │ what is certain at once, all else when it is judged
//!   ▼ chat::Event
//! Encoder::whole or Encoder::event ── one JSON object or one stream, in the client's dialect
//! ```
//!
//! # Invariants
//!
//! - **Imports point the way the request travels**; `tests/architecture.rs` has the table. `chat` may use `secret`, since a request
//!   carries its caller's credential.
//! - **The client's `tools`, sound messages and unknown fields travel byte for byte**, on every attempt.
//! - **Every upstream call streams**; a JSON answer is a fold at the edge.
//! - **Dropping is cancelling**: the response body owns the run, the run owns the upstream connection. Nothing is spawned for a request.
//! - **What was shown is the beginning of the answer**: nothing is taken back, and a folded stream is the answer that would come without
//!   one.
//! - **A request without tools is not looked into** beyond its top-level fields, where it is one of OpenAI's; those in other dialects are
//!   translated, and nothing else is done to them.
//! - **Nothing is invented**: a failure is a typed error, never a made-up answer.
//! - Deliberately absent: inbound authentication, HTTP/2, state that outlives a request (but the compiled tool schemas, what a
//!   backend refused of them, and what is known of each backend).

pub mod agent;
pub mod api;
pub mod app;
pub mod backend;
pub mod chat;
pub mod cli;
pub mod config;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod inference;
pub mod resilience;
pub mod secret;
pub mod server;
pub mod store;
pub mod tools;
pub mod trace;
pub mod upstream;
pub mod wire;
