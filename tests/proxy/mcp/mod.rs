//! MCP servers whose tools toolgate runs itself.

mod run;
