//! What keeps a fault in its place: a breaker that steps away from a peer that fails, a bulkhead that bounds how many use it at once, and
//! the tasks that outlive who began them.

pub mod breaker;
pub mod bulkhead;
pub mod tasks;
