//! May this still run, given all that was spent? Before every call of a model or a tool its worst case is reserved; after it, what it did
//! cost is committed, or all of it released.
//!
//! [`Gate`] is the process's, [`Meter`] one request's, [`Pass`] one call's. The books are a [`ledger`] in a [`Store`]; its amounts, scopes,
//! checks and their order are those of the Cycles protocol 0.1.25 and its reference server.

pub mod access;
pub mod account;
mod allowance;
pub mod amount;
pub mod change;
pub mod cycles;
pub mod denial;
pub mod estimate;
mod gate;
pub mod journal;
pub mod keys;
pub mod ledger;
mod meter;
mod pass;
pub mod policy;
pub mod price;
pub mod statement;
pub mod store;
pub mod subject;

#[cfg(test)]
mod tests;

pub use self::account::Account;
pub use self::amount::{Amount, Unit};
pub use self::change::Change;
pub use self::denial::Denial;
pub use self::gate::Gate;
pub use self::keys::Keys;
pub use self::ledger::Ledger;
pub use self::meter::{Ask, Meter};
pub use self::pass::Pass;
pub use self::policy::Policy;
pub use self::store::Store;
pub use self::subject::Subject;
