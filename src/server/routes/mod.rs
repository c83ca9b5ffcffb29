//! What stands behind each path.

pub(super) mod chat;
pub(super) mod count_tokens;
pub(super) mod forward;
pub(super) mod health;
pub(super) mod models;
