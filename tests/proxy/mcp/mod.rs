//! MCP servers whose tools toolgate runs itself.

mod catalog;
mod names;
mod run;
mod store;
