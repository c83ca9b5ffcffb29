//! What an operator does to budgets: allocate, fund, freeze.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Book, Ledger,
    balance::{Balance, Status},
    error::{Code, Error, Refusal},
    operations::place,
    request::Caps,
};
use crate::budget::{Amount, Subject, Unit, amount::AMOUNT_MAX};

/// What a budget shall be like. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// How much is in it in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// How much debt may be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdraft_limit: Option<u64>,
    /// What whoever uses it is asked to keep to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caps: Option<Caps>,
}

impl<B: Book> Ledger<'_, B> {
    /// Makes a budget of `scope` if there is none, with nothing in it, and changes it to `terms`. What was used stays used; it is over its
    /// limit no more.
    pub fn allocate(&mut self, scope: &str, unit: Unit, terms: &Terms) -> Result<Balance, Error> {
        let mut balance = self.book.balance(scope, unit)?.unwrap_or_default();
        if [terms.allocated, terms.overdraft_limit].into_iter().flatten().any(|amount| amount > AMOUNT_MAX) {
            return Err(too_large());
        }
        balance.allocated = terms.allocated.unwrap_or(balance.allocated);
        balance.overdraft_limit = terms.overdraft_limit.unwrap_or(balance.overdraft_limit);
        if let Some(caps) = &terms.caps {
            balance.caps = (*caps != Caps::default()).then(|| Arc::new(caps.clone()));
        }
        balance.is_over_limit &= terms.allocated.is_none();
        self.book.put_balance(scope, unit, balance.clone())?;
        Ok(balance)
    }

    /// Makes a budget of `scope` if there is none, and puts `amount` into it, once for each `key`. What it owes is paid first; it is over
    /// its limit no more.
    pub fn fund(&mut self, scope: &str, amount: Amount, key: &str) -> Result<Balance, Error> {
        let payer = Subject::of_scope(scope).unwrap_or_default();
        self.once(&place("fund", &payer, key), &(scope, amount), |ledger| ledger.put_in(scope, amount))
    }

    fn put_in(&mut self, scope: &str, amount: Amount) -> Result<Balance, Error> {
        let mut balance = self.book.balance(scope, amount.unit)?.unwrap_or_default();
        let allocated = balance.allocated.checked_add(amount.amount).filter(|sum| *sum <= AMOUNT_MAX);
        balance.allocated = allocated.ok_or_else(too_large)?;
        let paid = balance.debt.min(amount.amount);
        balance.debt -= paid;
        balance.spent = balance.spent.saturating_add(paid);
        balance.is_over_limit = false;
        self.book.put_balance(scope, amount.unit, balance.clone())?;
        Ok(balance)
    }

    /// Changes whether the budget of `scope` may be used. One that is closed stays so.
    pub fn set_status(&mut self, scope: &str, unit: Unit, status: Status) -> Result<Balance, Error> {
        let known = self.book.balance(scope, unit)?;
        let balance = known.ok_or_else(|| Refusal::new(Code::NotFound, format!("There is no budget of {scope} in {}.", unit.as_str())))?;
        if balance.status == Status::Closed && status != Status::Closed {
            return Err(Refusal::at(scope, unit, Code::BudgetClosed).into());
        }
        let balance = Balance { status, ..balance };
        self.book.put_balance(scope, unit, balance.clone())?;
        Ok(balance)
    }
}

fn too_large() -> Error {
    Refusal::new(Code::InvalidRequest, "The budget would be too large.").into()
}
