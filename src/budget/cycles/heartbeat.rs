//! Keeps a reservation alive while its call runs: extends it so late that it is not extended for nothing, and so early that a lost extension
//! can be tried again.
//!
//! The times are those of the protocol. They are counted on a clock that nobody sets. A heart that stops is reported and ends nothing: the call
//! goes on, and is settled when its cost is known.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Inner, key,
    peer::{self, Answer, Unheard},
    wire::{Extend, Extended},
};
use crate::budget::{ledger::Code, store::now_ms};

/// What the times are worked out from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How long one request may take.
    pub(super) timeout: Duration,
    /// The longest that one took so far, from being sent to its answer.
    pub(super) round_trip_max: Duration,
}

/// The least that an attempt, and the rest of a lease behind it, is taken for: clocks and schedulers are no better.
const LEAST: Duration = Duration::from_secs(1);
/// How long after a failed try the same extension is tried again, at first.
const PAUSE: Duration = Duration::from_millis(500);

impl Pace {
    /// How long one try may take.
    fn attempt(self) -> Duration {
        self.timeout.max(LEAST).max(self.round_trip_max * 2)
    }

    /// What is to be left of the lease when the last try is over.
    fn safety(self) -> Duration {
        LEAST.max(self.round_trip_max * 2)
    }

    /// How long to wait before the next extension of a lease that stands for `lead`: there is time for two tries after it.
    pub(super) fn delay(self, lead: Duration) -> Duration {
        lead.saturating_sub(self.attempt() * 2 + self.safety())
    }

    /// Whether there is time for another try of the same extension.
    pub(super) fn may_retry(self, lead: Duration) -> bool {
        lead >= self.attempt() + self.safety()
    }

    fn note(&mut self, round_trip: Duration) {
        self.round_trip_max = self.round_trip_max.max(round_trip);
    }
}

/// A reservation whose end is known.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pub(super) reservation: String,
    /// What was asked for under this key.
    pub(super) key: String,
    pub(super) pace: Pace,
    /// When the lease ends at the earliest.
    pub(super) until: Instant,
}

/// Why a heart stops.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error("the server says no: {0}")]
    Refused(String),
    #[error("there is no time for another try: {0}")]
    TooLate(String),
    #[error("its leases are too short to be extended in time")]
    TooShort,
}

impl Heartbeat {
    /// Extends until it is dropped, or cannot go on.
    pub(super) async fn beat(mut self, inner: &Inner) {
        let mut was_at_once = false;
        for count in 1.. {
            let delay = self.pace.delay(self.until.saturating_duration_since(Instant::now()));
            if delay.is_zero() && was_at_once {
                return self.report(&Stopped::TooShort);
            }
            was_at_once = delay.is_zero();
            tokio::time::sleep(delay).await;
            if let Err(stopped) = self.extend(inner, count).await {
                return self.report(&stopped);
            }
        }
    }

    /// Extends once. A try that failed is made again under the same key while there is time.
    async fn extend(&mut self, inner: &Inner, count: u32) -> Result<(), Stopped> {
        let by = u64::try_from(inner.ttl.as_millis()).unwrap_or(u64::MAX);
        let question = Extend { idempotency_key: key::extend(count, &self.key), extend_by_ms: by };
        let path = peer::reservation_path(&self.reservation, "extend");
        let mut pause = PAUSE;
        loop {
            let sent = Instant::now();
            let answer = inner.peer.post(&path, &question).await;
            self.pace.note(sent.elapsed());
            let (why, wait) = match outcome(&answer) {
                Outcome::Extended(remaining) => {
                    self.until = sent + remaining;
                    return Ok(());
                }
                Outcome::Refused => return Err(Stopped::Refused(inner.why(&answer))),
                Outcome::Unclear(wait) => (inner.why(&answer), wait.map_or(pause, |wait| wait.max(pause))),
            };
            let lead = self.until.saturating_duration_since(Instant::now() + wait);
            if !self.pace.may_retry(lead) {
                return Err(Stopped::TooLate(why));
            }
            tracing::warn!(reservation = %self.reservation, why, "a reservation was not extended; it is tried again");
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
    }

    fn report(&self, stopped: &Stopped) {
        tracing::warn!(reservation = %self.reservation, %stopped, "a reservation is extended no more; its call goes on and is settled");
    }
}

/// What an answer to an extension means.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The lease stands so long from when the question was sent.
    Extended(Duration),
    /// It will not get better.
    Refused,
    /// Perhaps extended, perhaps not; perhaps not to be asked again at once.
    Unclear(Option<Duration>),
}

fn outcome(answer: &Result<Answer, Unheard>) -> Outcome {
    let Ok(answer) = answer else { return Outcome::Unclear(None) };
    if answer.status == 200 {
        let remaining = answer.read::<Extended>().and_then(|extended| extended.remaining_ms(now_ms()));
        return remaining.map_or(Outcome::Unclear(None), |remaining| Outcome::Extended(Duration::from_millis(remaining)));
    }
    let is_no = match (answer.status, answer.code()) {
        (429 | 500.., _) => false,
        (401 | 403 | 404 | 410, _) => true,
        // Whatever is wrong with it, the same question gets the same answer.
        (400..500, Some(Code::InvalidRequest | Code::UnitMismatch | Code::NotFound | Code::IdempotencyMismatch)) => true,
        (400..500, Some(Code::ReservationFinalized | Code::ReservationExpired | Code::MaxExtensionsExceeded | Code::TenantClosed)) => true,
        _ => false,
    };
    if is_no { Outcome::Refused } else { Outcome::Unclear(answer.retry_after) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_leaves_time_for_two_tries_and_a_rest() {
        let check = |lead_ms: u64, timeout_ms: u64, round_trip_ms: u64, delay_ms: u64| {
            let pace = Pace { timeout: Duration::from_millis(timeout_ms), round_trip_max: Duration::from_millis(round_trip_ms) };
            assert_eq!(
                pace.delay(Duration::from_millis(lead_ms)),
                Duration::from_millis(delay_ms),
                "{lead_ms} {timeout_ms} {round_trip_ms}"
            );
        };
        // The examples of the protocol.
        check(60_000, 10_000, 1_500, 37_000);
        check(60_000, 30_000, 1_500, 0);
        // Short times count as a second; long round trips count twice.
        check(60_000, 100, 10, 57_000);
        check(60_000, 2_000, 5_000, 30_000);
        check(3_000, 100, 10, 0);
        check(0, 100, 10, 0);
    }

    #[test]
    fn a_try_is_made_again_only_when_the_lease_outlasts_it() {
        let check = |lead_ms: u64, expected: bool| {
            let pace = Pace { timeout: Duration::from_secs(10), round_trip_max: Duration::from_millis(1_500) };
            assert_eq!(pace.may_retry(Duration::from_millis(lead_ms)), expected, "{lead_ms}");
        };
        check(13_000, true);
        check(12_999, false);
    }

    #[test]
    fn answers_to_an_extension_are_told_apart() {
        let check =
            |status: u16, body: &str, expected: Outcome| assert_eq!(outcome(&Ok(Answer::of(status, body))), expected, "{status} {body}");
        let error = |code: &str| format!(r#"{{"error":"{code}","message":"m","request_id":"r"}}"#);
        let good = r#"{"status":"ACTIVE","expires_at_ms":1,"remaining_ttl_ms":59000,"new":{}}"#;
        check(200, good, Outcome::Extended(Duration::from_secs(59)));
        check(200, r#"{"status":"ACTIVE"}"#, Outcome::Unclear(None));
        check(200, r#"{"status":"EXPIRED","expires_at_ms":1,"remaining_ttl_ms":0}"#, Outcome::Unclear(None));
        check(202, good, Outcome::Unclear(None));
        for code in ["RESERVATION_FINALIZED", "MAX_EXTENSIONS_EXCEEDED", "TENANT_CLOSED", "IDEMPOTENCY_MISMATCH"] {
            check(409, &error(code), Outcome::Refused);
        }
        check(410, "", Outcome::Refused);
        check(404, "", Outcome::Refused);
        check(401, "", Outcome::Refused);
        check(400, &error("INVALID_REQUEST"), Outcome::Refused);
        check(409, &error("SOMETHING_NEW"), Outcome::Unclear(None));
        check(500, &error("INTERNAL_ERROR"), Outcome::Unclear(None));
        check(503, &error("RESERVATION_FINALIZED"), Outcome::Unclear(None));
        assert_eq!(outcome(&Err(Unheard::Cut)), Outcome::Unclear(None));
        let busy = Answer::of(429, &error("LIMIT_EXCEEDED")).after(Duration::from_secs(2));
        assert_eq!(outcome(&Ok(busy)), Outcome::Unclear(Some(Duration::from_secs(2))));
    }
}
