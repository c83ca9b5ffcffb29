//! Settings: defaults < file < environment < flags, read once at start into types that cannot be wrong.
//!
//! What was typed is a table of values with their source ([`keys`]); what the program needs are the modules' own `Config` types, made
//! in [`resolve`]. Every problem is reported in one go, with its path in the file.

pub mod access_keys;
mod backends;
pub mod budget;
pub mod env;
pub mod keys;
mod kind;
mod mcp;
pub mod mcp_servers;
pub mod resolve;
mod store;
mod trace;
pub mod units;

pub use self::keys::Problem;
pub use self::resolve::{Config, Log, LogFormat, Typed, WHOLE_FILE, from_text, load};
