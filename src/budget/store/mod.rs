//! Where the ledger is kept.

pub mod memory;
