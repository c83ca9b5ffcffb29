//! MCP servers whose tools toolgate runs itself.

mod acting;
mod execution;
mod origins;
mod run;
mod selection;
