//! What becomes of a cost that is higher than what was reserved for it.

use serde::{Deserialize, Serialize};

use super::{
    balance::Balance,
    error::{Code, Refusal},
};
use crate::budget::Amount;

/// The policy of a reservation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Overage {
    /// It is refused; the reservation stands.
    Reject,
    /// As much of it is charged as every scope has; those that had too little count as over their limit.
    #[default]
    AllowIfAvailable,
    /// What is not there becomes debt where debt may be made.
    AllowWithOverdraft,
}

impl Overage {
    /// The policy for a cost that is told afterwards. There is nothing put aside that it could be higher than, and a refusal would only mean
    /// that what was used is nowhere. So what there is is charged.
    #[must_use]
    pub fn afterwards(self) -> Self {
        match self {
            Self::Reject | Self::AllowIfAvailable => Self::AllowIfAvailable,
            Self::AllowWithOverdraft => Self::AllowWithOverdraft,
        }
    }
}

/// What is charged of a cost, and the balances after it.
pub(super) struct Charge {
    pub(super) charged: u64,
    pub(super) balances: Vec<Balance>,
}

/// Charges `actual` to `scopes`, in each of which so much was `reserved` (0 for none). What was reserved is given back first.
pub(super) fn charge(scopes: &[(String, Balance)], reserved: Amount, actual: u64, policy: Overage) -> Result<Charge, Refusal> {
    let Amount { unit, amount: estimate } = reserved;
    let beyond = actual.saturating_sub(estimate);
    if beyond == 0 {
        let settled = |(_, balance): &(String, Balance)| Balance {
            reserved: balance.reserved.saturating_sub(estimate),
            spent: balance.spent.saturating_add(actual),
            ..balance.clone()
        };
        return Ok(Charge { charged: actual, balances: scopes.iter().map(settled).collect() });
    }
    if policy == Overage::Reject {
        let short = scopes.iter().find(|(_, balance)| balance.available() < beyond).or(scopes.first());
        let refusal = Refusal { unit: Some(unit), ..Refusal::new(Code::BudgetExceeded, "More was used than was reserved.") };
        return Err(Refusal { scope: short.map(|(scope, _)| scope.clone()), ..refusal });
    }
    // Scopes that may make debt do not cap what is charged.
    let owes = |balance: &Balance| policy == Overage::AllowWithOverdraft && balance.overdraft_limit > 0;
    let capping = scopes.iter().filter(|(_, balance)| !owes(balance)).map(|(_, balance)| balance.available());
    let added = capping.min().map_or(beyond, |least| least.min(beyond));
    let mut balances = Vec::with_capacity(scopes.len());
    for (scope, balance) in scopes {
        let mut after = Balance { reserved: balance.reserved.saturating_sub(estimate), ..balance.clone() };
        if owes(balance) {
            let unfunded = added.saturating_sub(balance.available());
            after.debt = balance.debt.saturating_add(unfunded);
            if unfunded > 0 && after.debt > balance.overdraft_limit {
                return Err(Refusal::at(scope, unit, Code::OverdraftLimitExceeded));
            }
            after.spent = balance.spent.saturating_add(estimate).saturating_add(added - unfunded);
        } else {
            after.spent = balance.spent.saturating_add(estimate).saturating_add(added);
            after.is_over_limit |= balance.available() < beyond;
        }
        balances.push(after);
    }
    Ok(Charge { charged: estimate.saturating_add(added), balances })
}
