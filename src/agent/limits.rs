//! How far a run has gone, and what it still may do.

use std::time::Instant;

use super::{Config, repeats::Repeats};
use crate::{
    chat::{Usage, report::HaltReason},
    tools::config::Policy,
};

/// The limits of one run and what was used of them.
#[derive(Debug)]
pub(super) struct Limits {
    config: Config,
    /// When no call is made any more, and those that run are cut.
    pub(super) deadline: Instant,
    /// The part of it that is of calls: after it the model may still say what it knows.
    wall_clock: Instant,
    turns: usize,
    calls: usize,
    tokens: u64,
    repeats: Repeats,
}

/// What the model is told when a limit is reached.
pub(super) const LAST_WORDS: &str = "No more tools can be called now. Answer with what you know, and say what is missing.";

impl Limits {
    /// Nothing used yet; the time begins now, and ends at `deadline` at the latest, after which nobody is asked for anything.
    pub(super) fn new(config: Config, deadline: Option<Instant>) -> Self {
        let wall_clock = Instant::now() + config.wall_clock;
        let deadline = deadline.map_or(wall_clock, |deadline| deadline.min(wall_clock));
        Self { config, deadline, wall_clock, turns: 0, calls: 0, tokens: 0, repeats: Repeats::default() }
    }

    /// The limit that the run has reached, if any.
    pub(super) fn reached(&self) -> Option<HaltReason> {
        let Config { turns_max, calls_max, tokens_max, .. } = self.config;
        if self.turns >= turns_max {
            Some(HaltReason::Turns)
        } else if self.calls >= calls_max {
            Some(HaltReason::Calls)
        } else if Instant::now() >= self.wall_clock {
            Some(HaltReason::Deadline)
        } else if tokens_max > 0 && self.tokens >= tokens_max {
            Some(HaltReason::Tokens)
        } else {
            None
        }
    }

    /// How many turns have begun.
    pub(super) fn turns(&self) -> usize {
        self.turns
    }

    /// One more turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.turns += 1;
    }

    /// A turn cost so much.
    pub(super) fn spend(&mut self, usage: Usage) {
        self.tokens = self.tokens.saturating_add(usage.total_tokens());
    }

    /// The number of the next call, from 1.
    pub(super) fn next_step(&mut self) -> usize {
        self.calls += 1;
        self.calls
    }

    /// Whether the call that was numbered last may be made. Fails with what the model is told.
    pub(super) fn admit(&mut self, tool: &str, arguments_hash: &str) -> Result<(), String> {
        if self.calls > self.config.calls_max {
            return Err(format!("Not called: {} calls are the most in one answer.", self.config.calls_max));
        }
        if Instant::now() >= self.wall_clock {
            return Err("Not called: the time for calls is over.".to_owned());
        }
        self.repeats.admit(tool, arguments_hash)
    }
}

/// Whether the client is asked about a call of a tool with `policy`. Nobody is asked about a rehearsal.
pub(super) fn asks(policy: Policy, is_rehearsal: bool) -> bool {
    policy != Policy::Allow && !is_rehearsal
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits(change: impl FnOnce(&mut Config)) -> Limits {
        let mut config = Config {
            turns_max: 3,
            calls_max: 2,
            parallel_max: 1,
            wall_clock: Duration::from_secs(60),
            tokens_max: 100,
            session_ttl: Duration::from_secs(60),
        };
        change(&mut config);
        Limits::new(config, None)
    }

    #[test]
    fn each_limit_has_its_name() {
        let mut turns = limits(|_| {});
        assert_eq!(turns.reached(), None);
        (0..3).for_each(|_| turns.begin_turn());
        assert_eq!(turns.reached(), Some(HaltReason::Turns));

        let mut calls = limits(|_| {});
        assert_eq!((calls.next_step(), calls.next_step()), (1, 2));
        assert_eq!(calls.reached(), Some(HaltReason::Calls));

        assert_eq!(limits(|config| config.wall_clock = Duration::ZERO).reached(), Some(HaltReason::Deadline));

        let mut tokens = limits(|_| {});
        tokens.spend(Usage { prompt_tokens: 60, completion_tokens: 39, ..Usage::default() });
        assert_eq!(tokens.reached(), None);
        tokens.spend(Usage { completion_tokens: 1, ..Usage::default() });
        assert_eq!(tokens.reached(), Some(HaltReason::Tokens));
    }

    #[test]
    fn no_limit_of_tokens_is_none() {
        let mut endless = limits(|config| config.tokens_max = 0);
        endless.spend(Usage { prompt_tokens: u64::MAX, completion_tokens: u64::MAX, ..Usage::default() });
        assert_eq!(endless.reached(), None);
    }

    #[test]
    fn a_call_over_the_limit_is_told_so() {
        let mut limits = limits(|_| {});
        for hash in ["a", "b"] {
            limits.next_step();
            assert_eq!(limits.admit("f", hash), Ok(()));
        }
        limits.next_step();
        assert!(limits.admit("f", "c").unwrap_err().contains("2 calls"));
    }

    #[test]
    fn the_client_is_asked_about_what_is_not_allowed() {
        assert!(!asks(Policy::Allow, false));
        assert!(asks(Policy::Ask, false) && !asks(Policy::Ask, true));
    }
}
