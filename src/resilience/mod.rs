//! What keeps a fault in its place: a breaker that steps away from a peer that fails, a bulkhead that bounds how many use it at once.

pub mod breaker;
pub mod bulkhead;
