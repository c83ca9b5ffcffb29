//! MCP servers whose tools toolgate runs itself.

mod origins;
mod run;
mod stdio;
mod supervision;
