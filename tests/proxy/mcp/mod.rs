//! MCP servers whose tools toolgate runs itself.

mod catalog;
mod http;
mod names;
mod origins;
mod run;
mod settings;
mod store;
