//! The question whether a call may be made.
//!
//! It is asked again under the same key until the answer is clear, for a while. What is not clear by then is no yes: the call is not made,
//! and what the server may have put aside for it is given back.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    Cycles, Inner, Lease, key,
    lease::Held,
    ms,
    peer::{Answer, Unheard},
    wire::{self, Decide, Decided, Decision, Reserve},
};
use crate::budget::{
    Amount, Subject, Unit,
    amount::AMOUNT_MAX,
    ledger::{self, Action, Caps, Code, Refusal, StoreError},
    store::now_ms,
};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The same for each try of the same call, another for each other.
    pub idempotency_key: String,
    /// On whose account. The server refuses those of another tenant than its key's.
    pub subject: Subject,
    /// What is to be done.
    pub action: Action,
    /// How much it may cost at most, in the unit of the configuration.
    pub estimate: u64,
}

/// How often a question is asked while somebody waits.
const TRIES_MAX: u32 = 3;
/// The pause after the first of them; the next is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of a reason is repeated.
const REASON_CHARS_MAX: usize = 64;

impl Cycles {
    /// Puts the estimate aside. What comes back is to be settled, be it by a commit or by a release. Fails with a refusal when the server says
    /// no, and otherwise when it does not say anything clear: nothing may be done then either.
    ///
    /// Dropping it, or a failure, leaves nothing put aside for longer than it takes to find out.
    pub async fn reserve(&self, ask: &Ask) -> Result<Lease, ledger::Error> {
        let inner = &self.inner;
        inner.take_over(&ask.idempotency_key)?;
        let question = inner.question(ask);
        let mut asked = Asked { inner: Arc::clone(inner), key: ask.idempotency_key.clone(), question: spelled(&question), is_open: false };
        let heard = inner.ask("/v1/reservations", &asked.question.clone(), &mut asked.is_open).await?;
        let Heard { decided, sent, round_trip } = heard;
        let caps = match (decided.decision(), decided.reservation()) {
            (Decision::Allow(caps), Some(_)) => caps,
            (Decision::Deny(reason), reservation) => {
                asked.is_open = false;
                // Only a server of another version says no and puts aside.
                if let Some(reservation) = reservation {
                    inner.release(reservation.to_owned(), &ask.idempotency_key);
                }
                return Err(about(inner.unit, denial(reason.as_deref())).into());
            }
            (Decision::Allow(_) | Decision::Malformed, _) => return Err(unusable("its answer is none of the protocol").into()),
        };
        asked.is_open = false;
        let remaining = decided.remaining_ms(ms(inner.ttl), now_ms());
        if remaining == 0 {
            return Err(Refusal::new(Code::ReservationFinalized, "What was put aside for this call is settled.").into());
        }
        let held = Held {
            inner: Arc::clone(inner),
            reservation: decided.reservation().unwrap_or_default().to_owned(),
            key: ask.idempotency_key.clone(),
            subject: question.subject,
            action: question.action,
        };
        Ok(Lease::new(held, caps, sent + Duration::from_millis(remaining), round_trip))
    }

    /// Whether the call could be made now, and what it would have to keep to. Puts nothing aside. Fails as [`Self::reserve`] does.
    pub async fn decide(&self, ask: &Ask) -> Result<Option<Caps>, ledger::Error> {
        let inner = &self.inner;
        let Reserve { idempotency_key, subject, action, estimate, .. } = inner.question(ask);
        let question = Decide { idempotency_key, subject, action, estimate };
        let heard = inner.ask("/v1/decide", &spelled(&question), &mut false).await?;
        match heard.decided.decision() {
            Decision::Allow(caps) => Ok(caps),
            Decision::Deny(reason) => Err(about(inner.unit, denial(reason.as_deref())).into()),
            Decision::Malformed => Err(unusable("its answer is none of the protocol").into()),
        }
    }
}

/// A question that may have been acted upon. Dropped open, it is taken back.
struct Asked {
    inner: Arc<Inner>,
    key: String,
    question: Bytes,
    is_open: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_open {
            self.inner.undo(self.key.clone(), self.question.clone());
        }
    }
}

/// A clear answer.
struct Heard {
    decided: Decided,
    /// When it was asked for.
    sent: Instant,
    round_trip: Duration,
}

/// What an answer means.
#[derive(Debug)]
pub(super) enum Meaning {
    Decided(Decided),
    No(Refusal),
    /// Not now: nothing was done. Perhaps after so long.
    Busy(Option<Duration>),
    /// Not by this key: nothing was done.
    Locked,
    /// Perhaps done, perhaps not.
    Unclear,
}

impl Inner {
    fn question(&self, ask: &Ask) -> Reserve {
        Reserve {
            idempotency_key: key::ask(&ask.idempotency_key),
            subject: ask.subject.clone(),
            action: wire::Action::from(&ask.action),
            estimate: Amount::new(self.unit, ask.estimate.min(AMOUNT_MAX)),
            ttl_ms: ms(self.ttl),
            grace_period_ms: ms(self.grace),
            overage_policy: self.overage,
        }
    }

    /// Asks until the answer is clear, for twice the time-out. `is_open` says at any time whether the question may have been acted upon.
    async fn ask(&self, path: &str, question: &Bytes, is_open: &mut bool) -> Result<Heard, ledger::Error> {
        let deadline = Instant::now() + self.peer.timeout * 2;
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let (was_open, sent) = (*is_open, Instant::now());
            *is_open = true;
            let answer = tokio::time::timeout_at(deadline, self.peer.send(path, question.clone())).await;
            let answer = answer.unwrap_or(Err(Unheard::Late(self.peer.timeout)));
            let wait = match answer.as_ref().map(meaning) {
                Ok(Meaning::Decided(decided)) => return Ok(Heard { decided, sent, round_trip: sent.elapsed() }),
                Ok(Meaning::No(refusal)) => {
                    *is_open = false;
                    tracing::info!(why = self.why(&answer), "the Cycles server refuses");
                    return Err(about(self.unit, refusal).into());
                }
                Ok(Meaning::Locked) => {
                    *is_open = was_open;
                    tracing::error!(why = self.why(&answer), "the Cycles server does not accept the API key");
                    return Err(unusable("it does not accept the API key").into());
                }
                Ok(Meaning::Busy(wait)) => {
                    *is_open = was_open;
                    wait
                }
                Ok(Meaning::Unclear) => None,
                Err(Unheard::Unsent(_)) => {
                    *is_open = was_open;
                    None
                }
                Err(Unheard::Lost(_) | Unheard::Late(_) | Unheard::Cut) => None,
            };
            let wait = wait.map_or(pause, |wait| wait.max(pause));
            let is_last = tries == TRIES_MAX || Instant::now() + wait >= deadline;
            tracing::warn!(why = self.why(&answer), tries, is_last, "the Cycles server gives no clear answer");
            if is_last {
                return Err(unusable(&reason(&answer)).into());
            }
            tokio::time::sleep(wait).await;
            (tries, pause) = (tries + 1, pause * 2);
        }
    }
}

fn spelled(question: &impl Serialize) -> Bytes {
    serde_json::to_vec(question).unwrap_or_default().into()
}

/// What `answer` to a reservation or a decision means.
pub(super) fn meaning(answer: &Answer) -> Meaning {
    match (answer.status, answer.word()) {
        (200, _) => answer.read().map_or(Meaning::Unclear, Meaning::Decided),
        (401, _) => Meaning::Locked,
        (429, _) => Meaning::Busy(answer.retry_after),
        // A no that is not known is a no.
        (status @ 400..500, Some(word)) => Meaning::No(refusal(wire::code(&word).unwrap_or(code_of(status)), Some(&word))),
        (status @ (403 | 409), None) => Meaning::No(refusal(code_of(status), None)),
        // Without a word it is not the server of the protocol that speaks.
        _ => Meaning::Unclear,
    }
}

fn code_of(status: u16) -> Code {
    match status {
        404 => Code::NotFound,
        409 => Code::BudgetExceeded,
        _ => Code::InvalidRequest,
    }
}

fn denial(reason: Option<&str>) -> Refusal {
    refusal(reason.and_then(wire::code).unwrap_or(Code::BudgetExceeded), reason)
}

/// The refusal in our words. Of what the server says only the reason is repeated, as far as it is a word: the rest is for the operator.
fn refusal(code: Code, reason: Option<&str>) -> Refusal {
    let is_word = |reason: &&str| {
        let is_long = reason.len() > REASON_CHARS_MAX || reason.is_empty();
        !is_long && reason.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let why = reason.filter(is_word).map_or_else(String::new, |reason| format!(" ({reason})"));
    Refusal::new(code, format!("The budget server does not allow it{why}."))
}

/// The budget that says no counts in `unit`: no other is asked for.
fn about(unit: Unit, refusal: Refusal) -> Refusal {
    Refusal { unit: Some(unit), ..refusal }
}

pub(super) fn unusable(why: &str) -> StoreError {
    StoreError(format!("the Cycles server: {why}"))
}

/// Why there is no clear answer, without anything that the server said.
fn reason(answer: &Result<Answer, Unheard>) -> String {
    match answer {
        Ok(answer) => format!("it answered with status {}", answer.status),
        Err(unheard) => unheard.to_string(),
    }
}
