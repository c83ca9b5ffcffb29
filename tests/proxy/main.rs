//! The real proxy, driven over real sockets, in front of a backend that says what a test tells it to say.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test may panic"
)]

mod harness;

mod passthrough;

mod requests;

mod identity;

mod keys;

mod budget_command;
mod budget_routes;

mod backends;
mod models;

mod llama_server;

mod openai_servers;

mod trace;

mod report;

mod errors;

mod guardrails;

mod lifecycle;

mod health;

mod mcp;

mod messages;
mod metered;

mod golden;

mod anthropic_backend;
mod budget;
mod ollama;
mod prompt_tools;
mod responses;
