//! How an operation of the ledger fails.

use serde::{Deserialize, Serialize};

use crate::budget::Unit;

/// A failure, split by what the caller does: take no for an answer, or call the ledger out of order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ledger says no. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The ledger cannot be read or written. Nothing was changed as far as is known: where it is on another machine, only the answer may be
    /// lost. What has a key is safe to try again with the same key.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store that fails, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ledger cannot be used: {0}")]
pub struct StoreError(pub String);

/// A no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Refusal {
    /// Which no.
    pub code: Code,
    /// The same for a person.
    pub message: String,
    /// The scope that says it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The unit that it is about, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// The codes of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The request is wrong.
    InvalidRequest,
    /// There is a budget, but in another unit.
    UnitMismatch,
    /// There is no such reservation, or no budget on the way.
    #[serde(alias = "BUDGET_NOT_FOUND")]
    NotFound,
    /// Not enough is left.
    BudgetExceeded,
    /// The budget is frozen.
    BudgetFrozen,
    /// The budget is closed.
    BudgetClosed,
    /// Whoever pays is gone. Only a server that knows tenants says so.
    TenantClosed,
    /// More was used than may be owed.
    OverdraftLimitExceeded,
    /// Something is owed that may not be.
    DebtOutstanding,
    /// The reservation is settled.
    ReservationFinalized,
    /// The reservation's time is over.
    ReservationExpired,
    /// The key was used for something else.
    IdempotencyMismatch,
    /// The reservation was extended as often as it may be.
    MaxExtensionsExceeded,
}

impl Refusal {
    pub(in crate::budget) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), scope: None, unit: None }
    }

    /// The budget of `scope` in `unit` says no.
    pub(in crate::budget) fn at(scope: &str, unit: Unit, code: Code) -> Self {
        let why = match code {
            Code::BudgetFrozen => "is frozen",
            Code::BudgetClosed => "is closed",
            Code::OverdraftLimitExceeded => "was used beyond its limit",
            Code::DebtOutstanding => "is in debt",
            Code::UnitMismatch => "counts other units",
            _ => "does not have so much left",
        };
        let what = match unit {
            Unit::UsdMicrocents => "money",
            Unit::Tokens => "tokens",
            Unit::Credits => "calls",
            Unit::RiskPoints => "risk points",
        };
        Self { scope: Some(scope.to_owned()), unit: Some(unit), ..Self::new(code, format!("The budget of {scope} in {what} {why}.")) }
    }
}
