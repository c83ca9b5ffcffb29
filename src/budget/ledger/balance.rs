//! What is in one budget.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{error::Code, request::Caps};
use crate::budget::amount::AMOUNT_MAX;

/// The sums of one budget, all in its unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// What was put in.
    pub allocated: u64,
    /// What was used.
    pub spent: u64,
    /// What may be used by what runs now.
    pub reserved: u64,
    /// What was used and not there.
    pub debt: u64,
    /// How much debt may be made.
    pub overdraft_limit: u64,
    /// Whether something was used that it could not cover. Nothing is reserved before it is funded.
    pub is_over_limit: bool,
    /// Whether it may be used.
    pub status: Status,
    /// When it may be forgotten, in milliseconds since 1970; never where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// What whoever uses it is asked to keep to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<Arc<Caps>>,
}

/// Whether a budget may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// It may.
    #[default]
    Active,
    /// Not for now.
    Frozen,
    /// Never again.
    Closed,
}

impl Balance {
    /// One that has no limit, and tells what was used.
    pub fn unlimited() -> Self {
        Self { allocated: AMOUNT_MAX, ..Self::default() }
    }

    /// What is left: allocated less spent, reserved and debt. Negative in debt.
    pub fn remaining(&self) -> i128 {
        i128::from(self.allocated) - i128::from(self.spent) - i128::from(self.reserved) - i128::from(self.debt)
    }

    /// What is left to charge; nothing in debt.
    pub(super) fn available(&self) -> u64 {
        u64::try_from(self.remaining().max(0)).unwrap_or(u64::MAX)
    }

    /// Why nothing may be written to it, if so.
    pub(super) fn is_shut(&self) -> Option<Code> {
        match self.status {
            Status::Active => None,
            Status::Frozen => Some(Code::BudgetFrozen),
            Status::Closed => Some(Code::BudgetClosed),
        }
    }

    /// Why `estimate` cannot be reserved, if so.
    pub(super) fn refuses(&self, estimate: u64) -> Option<Code> {
        if let Some(code) = self.is_shut() {
            Some(code)
        } else if self.is_over_limit {
            Some(Code::OverdraftLimitExceeded)
        } else if self.debt > 0 && self.overdraft_limit == 0 {
            Some(Code::DebtOutstanding)
        } else if self.remaining() < i128::from(estimate) {
            Some(Code::BudgetExceeded)
        } else {
            None
        }
    }
}
