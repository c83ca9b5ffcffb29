//! MCP servers whose tools toolgate runs itself.

mod bench;

mod catalog;
pub(crate) mod chat_dialect;
mod http;
mod names;
mod origins;
mod run;
mod settings;
mod store;

mod mixed;

mod approval;

mod limits;

mod dry_run;

mod explain;

mod cancel;
