//! A circuit breaker: a pure function of what happened and when.
//!
//! Closed, it lets everything through and counts failures in a row. Open, it lets nothing through for a while, twice as long after each
//! failed trial. Half-open, it lets one trial through, whose outcome decides.

use std::time::{Duration, Instant};

/// When a breaker opens and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many failures in a row open it; 0 leaves it closed whatever happens.
    pub failures_max: u32,
    /// How long it stays open at first.
    pub open_for: Duration,
}

/// Its longest time open, in multiples of the first.
const OPEN_FACTOR_MAX: u32 = 8;

/// The state of one peer.
#[derive(Debug, Clone)]
pub struct Breaker {
    config: Config,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, factor: u32 },
    HalfOpen { until: Instant, factor: u32 },
}

/// A state in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All is let through.
    Closed,
    /// Nothing is let through.
    Open,
    /// One trial is under way or due.
    HalfOpen,
}

impl Phase {
    /// The usual word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

impl Breaker {
    /// A closed breaker.
    pub fn new(config: Config) -> Self {
        Self { config, state: State::Closed { failures: 0 } }
    }

    /// Whether a call may go through at `now`. The first yes after an open time is the trial; another is given only when that one has told
    /// nothing for as long as the breaker was open.
    pub fn try_enter(&mut self, now: Instant) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until, .. } | State::HalfOpen { until, .. } if now < until => false,
            State::Open { factor, .. } | State::HalfOpen { factor, .. } => {
                self.state = State::HalfOpen { until: now + self.config.open_for * factor, factor };
                true
            }
        }
    }

    /// A call went well: whatever was, the peer works.
    pub fn succeeded(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// A call failed at `now`.
    pub fn failed(&mut self, now: Instant) {
        let open = |factor| State::Open { until: now + self.config.open_for * factor, factor };
        self.state = match self.state {
            State::Closed { failures } if self.config.failures_max == 0 || failures + 1 < self.config.failures_max => {
                State::Closed { failures: failures.saturating_add(1).min(self.config.failures_max) }
            }
            State::Closed { .. } => open(1),
            State::HalfOpen { factor, .. } => open((factor * 2).min(OPEN_FACTOR_MAX)),
            // A call that began before it opened tells nothing new.
            open @ State::Open { .. } => open,
        };
    }

    /// The trial came to no end at `now` that tells anything about the peer, as when nobody waited for it any more: another may be made.
    pub fn trial_abandoned(&mut self, now: Instant) {
        if let State::HalfOpen { factor, .. } = self.state {
            self.state = State::HalfOpen { until: now, factor };
        }
    }

    /// Its state at `now`.
    pub fn phase(&self, now: Instant) -> Phase {
        match self.state {
            State::Closed { .. } => Phase::Closed,
            State::Open { until, .. } if now < until => Phase::Open,
            State::Open { .. } | State::HalfOpen { .. } => Phase::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(10);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(Config { failures_max: 3, open_for: OPEN_FOR });
        for _ in 0..3 {
            assert!(breaker.try_enter(now));
            breaker.failed(now);
        }
        breaker
    }

    #[test]
    fn opens_after_failures_in_a_row() {
        let now = Instant::now();
        let mut breaker = Breaker::new(Config { failures_max: 3, open_for: OPEN_FOR });
        for _ in 0..5 {
            breaker.failed(now);
            breaker.failed(now);
            breaker.succeeded();
        }
        assert_eq!(breaker.phase(now), Phase::Closed);
        let mut breaker = opened(now);
        assert_eq!(breaker.phase(now), Phase::Open);
        assert!(!breaker.try_enter(now + OPEN_FOR - Duration::from_millis(1)));
    }

    #[test]
    fn one_trial_decides() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + OPEN_FOR;
        assert_eq!(breaker.phase(later), Phase::HalfOpen);
        assert!(breaker.try_enter(later));
        assert!(!breaker.try_enter(later), "a second trial beside the first");
        breaker.succeeded();
        assert_eq!(breaker.phase(later), Phase::Closed);
    }

    #[test]
    fn a_failed_trial_opens_it_for_longer_up_to_a_limit() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for factor in [1, 2, 4, 8, 8] {
            assert!(!breaker.try_enter(now + OPEN_FOR * factor - Duration::from_millis(1)), "{factor}");
            now += OPEN_FOR * factor;
            assert!(breaker.try_enter(now), "{factor}");
            breaker.failed(now);
        }
    }

    #[test]
    fn a_trial_that_tells_nothing_does_not_keep_it_open() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(breaker.try_enter(now + OPEN_FOR));
        assert!(breaker.try_enter(now + OPEN_FOR * 2));
    }

    #[test]
    fn an_abandoned_trial_makes_room_for_another() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.trial_abandoned(now);
        assert_eq!(breaker.phase(now), Phase::Open, "there was no trial");
        let later = now + OPEN_FOR;
        assert!(breaker.try_enter(later));
        assert!(!breaker.try_enter(later));
        breaker.trial_abandoned(later);
        assert!(breaker.try_enter(later));
        assert!(!breaker.try_enter(later), "one, not two");
    }

    #[test]
    fn without_a_limit_it_never_opens() {
        let now = Instant::now();
        let mut breaker = Breaker::new(Config { failures_max: 0, open_for: OPEN_FOR });
        (0..100).for_each(|_| breaker.failed(now));
        assert!(breaker.try_enter(now));
    }
}
