//! MCP servers whose tools toolgate runs itself.

mod origins;
mod run;
mod settings;
mod stdio;
mod supervision;
