//! The limits of a run.

use std::time::Duration;

/// How much one run may do. At a limit the model is asked once more, without tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How often the model may reply.
    pub turns_max: usize,
    /// How many tools may be called.
    pub calls_max: usize,
    /// How many calls of one reply run at once.
    pub parallel_max: usize,
    /// How long calls may be made.
    pub wall_clock: Duration,
    /// How many tokens the model may read and write, over all its replies; 0 is as many as it likes.
    pub tokens_max: u64,
    /// How long a conversation is remembered: its servers, the order of its tools, and what is hidden from the client between two requests.
    pub session_ttl: Duration,
}
