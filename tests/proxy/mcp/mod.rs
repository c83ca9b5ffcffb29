//! MCP servers whose tools toolgate runs itself.

mod http;
mod origins;
mod run;
mod settings;
