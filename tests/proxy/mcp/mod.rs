//! MCP servers whose tools toolgate runs itself.

mod absent;
mod acting;
mod approval;
pub(crate) mod bench;
mod cancel;
mod catalog;
pub(crate) mod chat_dialect;
mod dry_run;
mod execution;
mod explain;
mod http;
mod limits;
mod mixed;
mod names;
mod origins;
mod run;
mod selection;
mod settings;
mod stdio;
mod store;
mod supervision;
