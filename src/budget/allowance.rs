//! What one request may still use: the ceilings, and the limits of window "request".

use super::{
    Ask, Denial, Unit,
    denial::halt_reason,
    ledger::Action,
    meter::{Inner, Used},
    pass::Charge,
    policy::Ceilings,
};
use crate::chat::{cost::usd, report::HaltReason};

/// How long the reply of a model may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    /// How many tokens it has at most.
    pub(super) max_tokens: u64,
    /// Whether the model must be told so: the request says nothing, or more.
    pub(super) is_held: bool,
    /// For what it is fewer than were asked for, if it is.
    pub(super) lowered_by: Option<HaltReason>,
}

/// So much of one unit in one request.
struct Bound {
    unit: Unit,
    most: u64,
    used: u64,
    /// Whether it is of some calls only.
    is_narrow: bool,
}

/// How many tokens a model is taken to write at most where nothing else is said; where tokens are counted or cost, it may not write more.
/// Few replies are as long, and with it the worst case of a call stays one that ceilings have room for.
const REPLY_TOKENS: u64 = 8_192;
/// A reply that may not be as long as this is no reply.
const REPLY_TOKENS_MIN: u64 = 16;
/// More than any model writes. What a client asks for beyond that is a way to say that there is no limit.
const REPLY_TOKENS_MAX: u64 = 1 << 24;

impl Inner {
    /// How long the reply may be. Fails where what is left is too little for one.
    pub(super) fn allowance(&self, used: &Used, ask: Ask<'_>, action: &Action) -> Result<Allowance, Denial> {
        let policy = self.gate.policy();
        let price = policy.prices.model(ask.model);
        let wanted = ask.max_tokens.unwrap_or(REPLY_TOKENS).min(REPLY_TOKENS_MAX);
        let least = wanted.min(REPLY_TOKENS_MIN);
        let (mut max_tokens, mut lowered_by) = (wanted, None);
        for bound in self.bounds(used, action) {
            let left = bound.most.saturating_sub(bound.used);
            let affordable = match (bound.unit, price) {
                (Unit::Tokens, _) => left.checked_sub(ask.prompt_tokens),
                (Unit::UsdMicrocents, Some(price)) => price.affordable(ask.prompt_tokens, left),
                (Unit::UsdMicrocents | Unit::Credits | Unit::RiskPoints, _) => continue,
            };
            let Some(affordable) = affordable.filter(|tokens| *tokens >= least) else { return Err(bound.denial()) };
            if affordable < max_tokens {
                (max_tokens, lowered_by) = (affordable, Some(halt_reason(Some(bound.unit))));
            }
        }
        let counts_tokens = policy.limits.iter().any(|limit| limit.amount.unit == Unit::Tokens && limit.counts(&self.run.account, action));
        let is_counted = price.is_some() || policy.ceilings.tokens.is_some() || counts_tokens;
        Ok(Allowance { max_tokens, is_held: lowered_by.is_some() || (ask.max_tokens.is_none() && is_counted), lowered_by })
    }

    /// Whether the request has room for `charge`.
    pub(super) fn room(&self, used: &Used, charge: &Charge) -> Result<(), Denial> {
        if self.is_late() {
            return Err(Denial::spent(HaltReason::RequestDeadline, "The time of the request is over."));
        }
        if used.steps_left == Some(0) {
            return Err(Denial::spent(HaltReason::CallQuota, NO_STEPS));
        }
        match self.bounds(used, &charge.action).find(|bound| bound.used.saturating_add(charge.of(bound.unit)) > bound.most) {
            Some(bound) => Err(bound.denial()),
            None => Ok(()),
        }
    }

    /// All that bounds `action` in this request.
    fn bounds<'a>(&'a self, used: &'a Used, action: &'a Action) -> impl Iterator<Item = Bound> + 'a {
        let Ceilings { usd, tokens, calls, .. } = self.gate.policy().ceilings;
        let ceiling = |unit, most: Option<u64>, used| most.map(|most| Bound { unit, most, used, is_narrow: false });
        let ceilings = [
            ceiling(Unit::UsdMicrocents, usd, used.microcents),
            ceiling(Unit::Tokens, tokens, used.tokens),
            ceiling(Unit::Credits, calls, used.calls),
        ];
        let limits = self.limits(action).map(|(at, limit)| Bound {
            unit: limit.amount.unit,
            most: limit.amount.amount,
            used: used.limits.get(at).copied().unwrap_or_default(),
            is_narrow: limit.tool.is_some() || limit.kind.is_some(),
        });
        ceilings.into_iter().flatten().chain(limits)
    }
}

/// What is told where a budget says how many calls may be made.
pub(super) const NO_STEPS: &str = "No more calls may be made on this account.";

impl Bound {
    fn denial(&self) -> Denial {
        let Self { unit, most, used, is_narrow } = *self;
        let (of, over) = (if is_narrow { " of this kind" } else { "" }, "and the next call might take more than is left");
        let message = match unit {
            Unit::UsdMicrocents => format!("One request may cost {} USD{of}: {} are spent or put aside, {over}.", usd(most), usd(used)),
            Unit::Tokens => format!("One request may use {most} tokens{of}: {used} are used or put aside, {over}."),
            Unit::Credits => format!("One request may make {most} calls{of}, and has made them."),
            Unit::RiskPoints => format!("One request may take {most} risk points{of}: {used} are taken, {over}."),
        };
        Denial::spent(halt_reason(Some(unit)), message)
    }
}
