//! toolgate: an OpenAI-compatible proxy that makes small local models call tools correctly.
//!
//! # The way of a request
//!
//! ```text
//! listener::serve → connection::serve → router::route ── auth::identify: whose request it is
//!   │ nothing to guard: routes::chat::pass, routes::forward::to ── Router::pass ── backend::forward ── upstream
//!   │    what costs is asked for and watched as it passes: routes::metered, watched
//!   ▼
//! routes::chat::complete ── body::collect → Dialect::decode → chat::Request, an OpenAI chat completion whatever it came as
//!   ▼
//! Agent::prepare ── tools of MCP servers (Snapshot::offer), what is remembered of the conversation, a meter of the gate
//!   ▼
//! Agent::run → run::recorded ── one record a run
//!   │ with MCP tools: Turns, a turn for each reply ── Turn tells own calls from the client's
//!   │    Toolbox::choose (selector) → Toolbox::run (schema, breaker, place, Meter::tool, call, retries) → mcp::Connection
//!   │    ── Transcript, next turn
//!   ▼
//! Engine::complete ── offer (respond) ── history (repair)
//!   ▼
//! Attempts::prompt (constrain) → Meter::model → Router::stream (which backend, sampling, prompt tools) → Backend::stream of its kind
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
//! - **Dropping is cancelling**: the response body owns the run, the run owns the upstream connection. One thing is spawned for a request:
//!   the call of a tool that may change something, which is finished once it was sent, whoever has left.
//! - **What was shown is the beginning of the answer**: nothing is taken back, and a folded stream is the answer that would come without
//!   one.
//! - **A request without tools is not looked into** beyond its top-level fields, where it is one of OpenAI's; those in other dialects are
//!   translated, and nothing else is done to them.
//! - **Nothing is invented**: a failure is a typed error, never a made-up answer.
//! - **Nothing inner is visible**: the client of a run of several turns sees one answer, with one id, one end and one usage.
//! - What outlives a request: the compiled tool schemas and what a backend refused of them, what is known of each backend and each MCP
//!   server, and in `store` what conversations need later. Losing any of it costs time or a note, never an answer.
//! - **A key of toolgate's own goes nowhere**: where there are keys, no credential of a client leaves the edge, and what is kept for one
//!   account is out of reach for another.
//! - **Nothing costs before it is asked for**: whatever calls a model or a tool holds a `budget::Pass`, which settles what was put aside
//!   for the call however that ends. With no prices, limits, ceilings or books there is no gate, and nothing of it on any path.
//! - Deliberately absent: HTTP/2, TLS for clients.

pub mod agent;
pub mod api;
pub mod app;
pub mod backend;
pub mod budget;
pub mod chat;
pub mod cli;
pub mod config;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod glob;
pub mod inference;
pub mod redis;
pub mod report;
pub mod resilience;
pub mod secret;
pub mod server;
pub mod store;
pub mod tools;
pub mod trace;
pub mod upstream;
pub mod wire;
