//! May this still run, given all that was spent? A ledger of budgets: what a call may cost at most is reserved before it, what it did cost
//! is committed after it.
//!
//! Amounts, scopes, checks and their order are those of the Cycles protocol 0.1.25 and its reference server.

pub mod access;
pub mod account;
pub mod amount;
pub mod keys;
pub mod ledger;
pub mod store;
pub mod subject;

pub use self::account::Account;
pub use self::amount::{Amount, Unit};
pub use self::keys::Keys;
pub use self::ledger::Ledger;
pub use self::store::Store;
pub use self::subject::Subject;
