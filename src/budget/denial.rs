//! A call that may not be made.

use super::{
    Unit,
    ledger::{Code, Error, Refusal},
};
use crate::chat::{Problem, Report, problem::Kind, report::HaltReason};

/// Why a call may not be made. Nothing is put aside for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// Which kind of no.
    pub reason: Reason,
    /// The same for a person, in one sentence.
    pub message: String,
}

/// Which kind of no, by what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is not enough left: the run halts.
    Spent(HaltReason),
    /// This may not be used, another may.
    Forbidden,
    /// The ledger cannot be asked.
    Unavailable,
}

impl Denial {
    /// So much is left that it is nothing.
    pub(super) fn spent(reason: HaltReason, message: impl Into<String>) -> Self {
        Self { reason: Reason::Spent(reason), message: message.into() }
    }

    /// This may not be used.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self { reason: Reason::Forbidden, message: message.into() }
    }
}

impl From<Error> for Denial {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(Refusal { code: Code::InvalidRequest | Code::UnitMismatch | Code::IdempotencyMismatch, message, .. }) => {
                // A configuration that does not fit the ledger, or a fault of ours: not something that funds would mend.
                Self { reason: Reason::Unavailable, message }
            }
            Error::Refused(refusal) => Self::spent(halt_reason(refusal.unit), refusal.message),
            Error::Store(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the ledger cannot be asked");
                Self { reason: Reason::Unavailable, message: "The ledger of budgets cannot be asked, so nothing is called.".to_owned() }
            }
        }
    }
}

impl From<Denial> for Problem {
    fn from(Denial { reason, message }: Denial) -> Self {
        match reason {
            Reason::Spent(reason) => {
                let report = Report { halt_reason: Some(reason), ..Report::default() };
                Self { report: Some(Box::new(report)), ..Self::new(Kind::Spent, message).with_code("insufficient_quota") }
            }
            Reason::Forbidden => Self::new(Kind::Forbidden, message).with_code("not_allowed"),
            Reason::Unavailable => Self::new(Kind::NotReady, message).with_code("budget_unavailable"),
        }
    }
}

/// The limit that a budget in `unit` is.
pub(super) fn halt_reason(unit: Option<Unit>) -> HaltReason {
    match unit {
        Some(Unit::Tokens) => HaltReason::TokenCeiling,
        Some(Unit::Credits | Unit::RiskPoints) => HaltReason::CallQuota,
        Some(Unit::UsdMicrocents) | None => HaltReason::CostCeiling,
    }
}
