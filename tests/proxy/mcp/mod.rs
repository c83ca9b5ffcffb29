//! MCP servers whose tools toolgate runs itself.

pub(crate) mod chat_dialect;
mod origins;
mod run;
mod settings;
