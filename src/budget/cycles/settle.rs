//! Tells the server what a call cost, until it is booked.
//!
//! Each answer has its one consequence, in [`next`]. Nothing that is unclear ends it, and nothing that is unclear is released.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    Inner, Metrics, ms,
    peer::{self, Answer, Unheard},
    wire::{self, Applied, Commit, Committed, Event},
};
use crate::budget::{
    Amount, Subject,
    journal::Journal,
    ledger::{Code, Overage},
    store::now_ms,
};

/// A cost that the server does not have yet, as it is in the journal. There is no key in it that opens anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The address of the server that it is for.
    pub(super) server: String,
    pub(super) reservation: String,
    /// The idempotency key of the settlement, whichever way it is made.
    pub(super) key: String,
    pub(super) subject: Subject,
    pub(super) action: wire::Action,
    pub(super) actual: Amount,
    pub(super) overage: Overage,
    pub(super) metrics: Metrics,
    pub(super) mode: Mode,
    /// When the server wants to be asked again at the earliest, in milliseconds since 1970.
    pub(super) not_before_ms: u64,
}

/// Which way a cost is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Against its reservation.
    Commit,
    /// Without, since the reservation is over.
    Event,
}

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is booked, now or by an earlier try.
    Settled,
    /// The server will not take it, and says why in words that are understood.
    Refused,
    /// The reservation is over: the cost is to be told as an event.
    Event,
    /// Not with this key: it is kept until there is one that is accepted.
    Locked,
    /// Not known. To be tried again, not before so long.
    Unclear(Option<Duration>),
}

/// How a try went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    /// There is nothing more to do.
    Done,
    /// To be tried again, not before so long.
    Again(Duration),
    /// To be tried again, but not soon.
    Later,
    /// The server said nothing. To be tried again.
    Unheard,
}

/// A cost that is being settled. Until it is written it is in nobody else's hands: dropped before, as at the end of the process, it is
/// written then.
pub(super) struct Settlement {
    inner: Arc<Inner>,
    pending: Pending,
    /// Whether it is on the disk as it is here, or need not be.
    is_written: bool,
}

impl Inner {
    /// Settles it in the background. It is on the disk before the server hears of it.
    pub(super) fn settle(self: &Arc<Self>, pending: Pending) {
        self.settling().insert(pending.reservation.clone());
        let settlement = Settlement { inner: Arc::clone(self), pending, is_written: false };
        self.tasks.spawn_if_possible(settlement.run());
    }

    /// A cost that is in the journal; `None` when it is being settled already.
    pub(super) fn resume(self: &Arc<Self>, pending: Pending) -> Option<Settlement> {
        let is_free = self.settling().insert(pending.reservation.clone());
        is_free.then(|| Settlement { inner: Arc::clone(self), pending, is_written: true })
    }

    fn settling(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // The set is whole after any panic: entries only come and go.
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the journal on a thread that may wait for the disk.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Journal<Pending>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let journal = Arc::clone(&self.journal);
        tokio::task::spawn_blocking(move || operation(&journal)).await.unwrap_or_else(|cut| Err(io::Error::other(cut)))
    }
}

impl Settlement {
    async fn run(mut self) {
        self.write().await;
        let retries = self.inner.retries;
        for tries in 1.. {
            let wait = match self.attempt().await {
                Tried::Done => return,
                Tried::Later => retries.slow,
                Tried::Again(wait) => wait.max(retries.pause(tries)),
                Tried::Unheard => retries.pause(tries),
            };
            // A disk that was full may have room by now.
            if !self.is_written {
                self.write().await;
            }
            // A long wait is the sweep's, as far as it finds it in the journal. So is what is left at the end of the process.
            let is_long = tries >= retries.tries_max || wait > retries.longest;
            if is_long && self.is_written || !self.inner.rest(if is_long { wait.max(retries.slow) } else { wait }).await {
                break;
            }
        }
        tracing::warn!(reservation = self.pending.reservation, "a cost is not settled yet; it is kept and tried again");
        self.inner.keep_sweeping(retries.slow);
    }

    /// One try; two where the reservation turns out to be over.
    pub(super) async fn attempt(&mut self) -> Tried {
        loop {
            let answer = self.ask().await;
            let next = next(&answer, &self.pending);
            let (reservation, why) = (&self.pending.reservation, self.inner.why(&answer));
            match next {
                Next::Settled => {}
                Next::Refused => {
                    let amount = self.pending.actual.amount;
                    tracing::error!(reservation, amount, why, "the Cycles server does not book a cost; it is given up");
                }
                Next::Event => {
                    // The change is on the disk first: a process that takes over must not commit again.
                    self.pending.mode = Mode::Event;
                    self.write().await;
                    continue;
                }
                Next::Locked => {
                    tracing::error!(reservation, why, "the Cycles server does not accept the API key; a cost is kept until it does");
                    return Tried::Later;
                }
                Next::Unclear(wait) => {
                    tracing::warn!(reservation, why, "it is not clear whether a cost was booked");
                    return match wait {
                        Some(wait) => self.wait(wait).await,
                        None if answer.is_err() => Tried::Unheard,
                        None => Tried::Again(Duration::ZERO),
                    };
                }
            }
            self.forget().await;
            self.is_written = true;
            return Tried::Done;
        }
    }

    async fn ask(&self) -> Result<Answer, Unheard> {
        let Pending { key, subject, action, actual, overage, metrics, reservation, .. } = &self.pending;
        match self.pending.mode {
            Mode::Commit => {
                let path = peer::reservation_path(reservation, "commit");
                self.inner.peer.post(&path, &Commit { idempotency_key: key, actual: *actual, metrics }).await
            }
            Mode::Event => {
                let overage_policy = overage.afterwards();
                let event = Event { idempotency_key: key, subject, action, actual: *actual, overage_policy, metrics };
                self.inner.peer.post("/v1/events", &event).await
            }
        }
    }

    /// Keeps to what the server wants, be it in the next process.
    async fn wait(&mut self, wait: Duration) -> Tried {
        self.pending.not_before_ms = now_ms().saturating_add(ms(wait));
        self.write().await;
        Tried::Again(wait)
    }

    async fn write(&mut self) {
        let pending = self.pending.clone();
        let written = self.inner.on_disk(move |journal| journal.put(&pending.reservation, &pending)).await;
        self.is_written = written.is_ok();
        self.report(written);
    }

    async fn forget(&self) {
        let reservation = self.pending.reservation.clone();
        if let Err(error) = self.inner.on_disk(move |journal| journal.remove(&reservation)).await {
            // It is settled once more, under the same key, which changes nothing.
            tracing::warn!(%error, "a settled cost cannot be taken out of the journal");
        }
    }

    fn report(&self, written: io::Result<()>) {
        if let Err(error) = written {
            let (reservation, amount) = (&self.pending.reservation, self.pending.actual.amount);
            tracing::error!(reservation, amount, %error, "a cost cannot be written to the journal; it is lost if the process ends before it is settled");
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if !self.is_written {
            self.report(self.inner.journal.put(&self.pending.reservation, &self.pending));
        }
        self.inner.settling().remove(&self.pending.reservation);
    }
}

/// What follows from `answer`.
fn next(answer: &Result<Answer, Unheard>, pending: &Pending) -> Next {
    let Ok(answer) = answer else { return Next::Unclear(None) };
    let is_booked = match (pending.mode, answer.status) {
        (Mode::Commit, 200) => answer.read::<Committed>().is_some_and(|committed| committed.is_of(pending.actual.unit)),
        (Mode::Event, 201) => answer.read::<Applied>().is_some_and(|applied| applied.is_it()),
        _ => false,
    };
    match (answer.status, answer.code()) {
        _ if is_booked => Next::Settled,
        (401 | 403, _) => Next::Locked,
        (429, _) => Next::Unclear(answer.retry_after),
        (410, _) | (400..500, Some(Code::ReservationExpired)) if pending.mode == Mode::Commit => Next::Event,
        (400..500, Some(Code::ReservationFinalized | Code::IdempotencyMismatch)) => Next::Settled,
        // An event has no reservation that could be over.
        (400..500, Some(Code::ReservationExpired)) => Next::Unclear(None),
        (400..500, Some(_)) => Next::Refused,
        _ => Next::Unclear(answer.retry_after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Unit;

    fn pending(mode: Mode) -> Pending {
        Pending {
            server: "http://a".to_owned(),
            reservation: "r".to_owned(),
            key: "commit:k".to_owned(),
            subject: Subject { tenant: Some("acme".to_owned()), ..Subject::default() },
            action: wire::Action::from(&crate::budget::ledger::Action::default()),
            actual: Amount::new(Unit::UsdMicrocents, 31_000),
            overage: Overage::Reject,
            metrics: Metrics::default(),
            mode,
            not_before_ms: 0,
        }
    }

    fn check(mode: Mode, status: u16, body: &str, expected: Next) {
        assert_eq!(next(&Ok(Answer::of(status, body)), &pending(mode)), expected, "{mode:?} {status} {body}");
    }

    fn error(code: &str) -> String {
        format!(r#"{{"error":"{code}","message":"m","request_id":"r"}}"#)
    }

    const BOOKED: &str = r#"{"status":"COMMITTED","charged":{"unit":"USD_MICROCENTS","amount":31000},"balances":[],"new":1}"#;
    const APPLIED: &str = r#"{"status":"APPLIED","event_id":"e1"}"#;

    #[test]
    fn only_a_success_of_the_right_form_is_one() {
        check(Mode::Commit, 200, BOOKED, Next::Settled);
        check(Mode::Event, 201, APPLIED, Next::Settled);
        let of_tokens = BOOKED.replace("USD_MICROCENTS", "TOKENS");
        for (mode, status, body) in [
            (Mode::Commit, 201, BOOKED),
            (Mode::Commit, 202, ""),
            (Mode::Commit, 204, ""),
            (Mode::Commit, 200, ""),
            (Mode::Commit, 200, "{}"),
            (Mode::Commit, 200, APPLIED),
            (Mode::Commit, 200, r#"{"status":"RELEASED","charged":{"unit":"USD_MICROCENTS","amount":1}}"#),
            (Mode::Commit, 200, r#"{"status":"COMMITTED"}"#),
            (Mode::Commit, 200, of_tokens.as_str()),
            (Mode::Event, 200, APPLIED),
            (Mode::Event, 201, BOOKED),
            (Mode::Event, 201, r#"{"status":"APPLIED","event_id":""}"#),
        ] {
            check(mode, status, body, Next::Unclear(None));
        }
    }

    #[test]
    fn silence_and_failures_of_the_server_say_nothing() {
        assert_eq!(next(&Err(Unheard::Late(Duration::from_secs(1))), &pending(Mode::Commit)), Next::Unclear(None));
        check(Mode::Commit, 500, &error("INTERNAL_ERROR"), Next::Unclear(None));
        check(Mode::Commit, 503, &error("BUDGET_EXCEEDED"), Next::Unclear(None));
        check(Mode::Commit, 302, "", Next::Unclear(None));
        let busy = Answer::of(429, &error("LIMIT_EXCEEDED")).after(Duration::from_secs(7));
        assert_eq!(next(&Ok(busy), &pending(Mode::Commit)), Next::Unclear(Some(Duration::from_secs(7))));
    }

    #[test]
    fn a_key_that_is_not_accepted_settles_nothing() {
        check(Mode::Commit, 401, &error("UNAUTHORIZED"), Next::Locked);
        check(Mode::Event, 403, &error("FORBIDDEN"), Next::Locked);
        check(Mode::Commit, 403, "", Next::Locked);
    }

    #[test]
    fn a_reservation_that_is_over_is_told_as_an_event() {
        check(Mode::Commit, 410, "", Next::Event);
        check(Mode::Commit, 410, &error("RESERVATION_EXPIRED"), Next::Event);
        check(Mode::Commit, 409, &error("RESERVATION_EXPIRED"), Next::Event);
        check(Mode::Event, 410, &error("RESERVATION_EXPIRED"), Next::Unclear(None));
        check(Mode::Event, 410, "", Next::Unclear(None));
    }

    #[test]
    fn what_is_settled_already_is_done() {
        check(Mode::Commit, 409, &error("RESERVATION_FINALIZED"), Next::Settled);
        check(Mode::Commit, 409, &error("IDEMPOTENCY_MISMATCH"), Next::Settled);
        check(Mode::Event, 409, &error("IDEMPOTENCY_MISMATCH"), Next::Settled);
    }

    #[test]
    fn a_no_that_is_understood_is_a_no_and_any_other_is_not() {
        for code in ["BUDGET_EXCEEDED", "BUDGET_FROZEN", "OVERDRAFT_LIMIT_EXCEEDED", "TENANT_CLOSED", "UNIT_MISMATCH", "INVALID_REQUEST"] {
            check(Mode::Commit, 409, &error(code), Next::Refused);
        }
        check(Mode::Commit, 404, &error("NOT_FOUND"), Next::Refused);
        check(Mode::Commit, 409, &error("SOMETHING_NEW"), Next::Unclear(None));
        check(Mode::Commit, 404, "<html>not here</html>", Next::Unclear(None));
        check(Mode::Commit, 400, "", Next::Unclear(None));
    }
}
