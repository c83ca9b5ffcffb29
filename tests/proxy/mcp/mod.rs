//! MCP servers whose tools toolgate runs itself.

mod catalog;
pub(crate) mod chat_dialect;
mod http;
mod names;
mod origins;
mod run;
mod settings;
mod stdio;
mod store;
mod supervision;
