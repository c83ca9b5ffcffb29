//! Questions as the server of the tests reads them: like the reference server, it knows no field that the protocol does not.

use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};

use crate::budget::{
    Amount, Subject,
    ledger::{self, Code, Error, Overage, Refusal},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserve {
    pub(super) idempotency_key: String,
    pub(super) subject: Subject,
    pub(super) action: Action,
    pub(super) estimate: Amount,
    pub(super) ttl_ms: Option<u64>,
    pub(super) grace_period_ms: Option<u64>,
    pub(super) overage_policy: Option<Overage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Action {
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settle {
    pub(super) idempotency_key: String,
    pub(super) actual: Amount,
    #[expect(dead_code, reason = "read for its form")]
    pub(super) metrics: Option<Metrics>,
    pub(super) subject: Option<Subject>,
    pub(super) action: Option<Action>,
    pub(super) overage_policy: Option<Overage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read for its form")]
pub(super) struct Metrics {
    pub(super) tokens_input: Option<u64>,
    pub(super) tokens_output: Option<u64>,
    pub(super) latency_ms: Option<u64>,
    pub(super) model_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keep {
    pub(super) idempotency_key: String,
    pub(super) reason: Option<String>,
    pub(super) extend_by_ms: Option<u64>,
}

pub(super) fn request(asked: Reserve) -> ledger::Request {
    ledger::Request {
        idempotency_key: asked.idempotency_key,
        subject: asked.subject,
        action: action_of(asked.action),
        estimates: vec![asked.estimate],
        quotas: Vec::new(),
        opens: false,
        ttl_ms: asked.ttl_ms.unwrap_or(60_000),
        grace_period_ms: asked.grace_period_ms.unwrap_or(5_000),
        overage_policy: asked.overage_policy.unwrap_or_default(),
    }
}

pub(super) fn action_of(action: Action) -> ledger::Action {
    ledger::Action { kind: action.kind, name: action.name, ..ledger::Action::default() }
}

/// The question in `body`, or the refusal of one of another form.
pub(super) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Refusal::new(Code::InvalidRequest, error.to_string()).into())
}

pub(super) fn id(path: &str) -> &str {
    path.split('/').nth(3).unwrap()
}
