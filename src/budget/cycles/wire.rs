//! What goes over the wire: the fields of the protocol 0.1.25 and no others, since the reference server refuses those it does not know. Answers
//! are read for the fields that count here; others are passed over.

use serde::{Deserialize, Serialize};

use crate::budget::{
    Amount, Subject, Unit,
    ledger::{self, Caps, Code, Overage},
};

/// What is done, as the protocol has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Action {
    kind: String,
    name: String,
}

/// The longest kind and name, in characters.
const KIND_CHARS_MAX: usize = 64;
const NAME_CHARS_MAX: usize = 256;
/// The longest name of a model.
const MODEL_CHARS_MAX: usize = 128;
/// The longest id of a reservation.
const ID_CHARS_MAX: usize = 128;

impl From<&ledger::Action> for Action {
    fn from(action: &ledger::Action) -> Self {
        Self { kind: cut(&action.kind, KIND_CHARS_MAX), name: cut(&action.name, NAME_CHARS_MAX) }
    }
}

/// `text`, at most so many characters of it.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

/// `POST /v1/reservations`
#[derive(Debug, Clone, Serialize)]
pub(super) struct Reserve {
    pub(super) idempotency_key: String,
    pub(super) subject: Subject,
    pub(super) action: Action,
    pub(super) estimate: Amount,
    pub(super) ttl_ms: u64,
    pub(super) grace_period_ms: u64,
    pub(super) overage_policy: Overage,
}

/// `POST /v1/decide`
#[derive(Debug, Serialize)]
pub(super) struct Decide {
    pub(super) idempotency_key: String,
    pub(super) subject: Subject,
    pub(super) action: Action,
    pub(super) estimate: Amount,
}

/// `POST /v1/reservations/{id}/commit`
#[derive(Debug, Serialize)]
pub(super) struct Commit<'a> {
    pub(super) idempotency_key: &'a str,
    pub(super) actual: Amount,
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    pub(super) metrics: &'a Metrics,
}

/// `POST /v1/reservations/{id}/release`
#[derive(Debug, Serialize)]
pub(super) struct Release {
    pub(super) idempotency_key: String,
    pub(super) reason: &'static str,
}

/// `POST /v1/reservations/{id}/extend`
#[derive(Debug, Serialize)]
pub(super) struct Extend {
    pub(super) idempotency_key: String,
    pub(super) extend_by_ms: u64,
}

/// `POST /v1/events`
#[derive(Debug, Serialize)]
pub(super) struct Event<'a> {
    pub(super) idempotency_key: &'a str,
    pub(super) subject: &'a Subject,
    pub(super) action: &'a Action,
    pub(super) actual: Amount,
    pub(super) overage_policy: Overage,
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    pub(super) metrics: &'a Metrics,
}

/// What else is known of a call. What is not known is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// What a model read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_input: Option<u64>,
    /// What it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_output: Option<u64>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Which model it was. Cut after 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_version: Option<String>,
}

impl Metrics {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same, as long as the protocol takes it.
    pub(super) fn bounded(self) -> Self {
        Self { model_version: self.model_version.map(|model| cut(&model, MODEL_CHARS_MAX)), ..self }
    }
}

/// The answer to a reservation or a decision.
#[derive(Debug, Deserialize)]
pub(super) struct Decided {
    /// A word that may be unknown, which is a no.
    decision: String,
    reservation_id: Option<String>,
    remaining_ttl_ms: Option<u64>,
    expires_at_ms: Option<u64>,
    caps: Option<WireCaps>,
    reason_code: Option<String>,
}

/// What a decision says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Allow(Option<Caps>),
    /// With the word that says why.
    Deny(Option<String>),
    /// What no server may say.
    Malformed,
}

impl Decided {
    pub(super) fn decision(&self) -> Decision {
        match (self.decision.as_str(), &self.caps) {
            ("ALLOW", caps) => Decision::Allow(caps.clone().map(Caps::from)),
            ("ALLOW_WITH_CAPS", Some(caps)) => Decision::Allow(Some(caps.clone().into())),
            // What to keep to is not known.
            ("ALLOW_WITH_CAPS", None) => Decision::Malformed,
            _ => Decision::Deny(self.reason_code.clone()),
        }
    }

    /// The reservation's id, where it is one.
    pub(super) fn reservation(&self) -> Option<&str> {
        self.reservation_id.as_deref().filter(|id| (1..=ID_CHARS_MAX).contains(&id.chars().count()))
    }

    /// How long the reservation stands, at most `asked_ms`, in milliseconds. Nothing once it is settled or over. A server of before the
    /// field says when it ends by its own clock.
    pub(super) fn remaining_ms(&self, asked_ms: u64, now_ms: u64) -> u64 {
        let by_clock = || self.expires_at_ms.map(|end| end.saturating_sub(now_ms).min(asked_ms));
        self.remaining_ttl_ms.or_else(by_clock).unwrap_or(asked_ms)
    }
}

/// Caps as they come: a list that is not there may be `null`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WireCaps {
    max_tokens: Option<u64>,
    max_steps_remaining: Option<u64>,
    tool_allowlist: Option<Vec<String>>,
    tool_denylist: Option<Vec<String>>,
    cooldown_ms: Option<u64>,
}

impl From<WireCaps> for Caps {
    fn from(caps: WireCaps) -> Self {
        Self {
            max_tokens: caps.max_tokens,
            max_steps_remaining: caps.max_steps_remaining,
            tool_allowlist: caps.tool_allowlist.unwrap_or_default(),
            tool_denylist: caps.tool_denylist.unwrap_or_default(),
            cooldown_ms: caps.cooldown_ms,
        }
    }
}

/// The answer to a commit.
#[derive(Debug, Deserialize)]
pub(super) struct Committed {
    status: String,
    charged: Amount,
}

impl Committed {
    /// Whether it says that something of `unit` was charged.
    pub(super) fn is_of(&self, unit: Unit) -> bool {
        self.status == "COMMITTED" && self.charged.unit == unit
    }
}

/// The answer to an event.
#[derive(Debug, Deserialize)]
pub(super) struct Applied {
    status: String,
    event_id: String,
}

impl Applied {
    /// Whether it says that the event counts.
    pub(super) fn is_it(&self) -> bool {
        self.status == "APPLIED" && !self.event_id.is_empty()
    }
}

/// The answer to an extension.
#[derive(Debug, Deserialize)]
pub(super) struct Extended {
    status: String,
    remaining_ttl_ms: Option<u64>,
    expires_at_ms: u64,
}

impl Extended {
    /// How long the reservation stands now, in milliseconds; `None` when it does not.
    pub(super) fn remaining_ms(&self, now_ms: u64) -> Option<u64> {
        let by_clock = || self.expires_at_ms.saturating_sub(now_ms);
        (self.status == "ACTIVE").then(|| self.remaining_ttl_ms.unwrap_or_else(by_clock))
    }
}

/// A no, or a failure.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Fault {
    /// The code's word.
    pub(super) error: String,
    #[serde(default)]
    pub(super) message: String,
}

/// The code that `word` spells; `None` for one that is not known.
pub(super) fn code(word: &str) -> Option<Code> {
    serde_json::from_value(word.into()).ok()
}
