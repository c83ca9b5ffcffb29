//! MCP servers whose tools toolgate runs itself.

mod acting;
mod catalog;
pub(crate) mod chat_dialect;
mod execution;
mod http;
mod names;
mod origins;
mod run;
mod selection;
mod settings;
mod stdio;
mod store;
mod supervision;
