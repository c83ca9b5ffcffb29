//! MCP servers whose tools toolgate runs itself.

mod origins;
mod run;
