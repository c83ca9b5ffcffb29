//! What stands behind each path.

mod asked;
pub(super) mod budget;
pub(super) mod chat;
pub(super) mod count_tokens;
pub(super) mod forward;
pub(super) mod health;
mod metered;
pub(super) mod metrics;
pub(super) mod models;
pub(super) mod tools;
