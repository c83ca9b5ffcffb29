//! MCP servers whose tools toolgate runs itself.

mod bench;

mod origins;
mod run;

mod mixed;

mod approval;

mod limits;

mod dry_run;

mod explain;

mod cancel;

mod settings;
