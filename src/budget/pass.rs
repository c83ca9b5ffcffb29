//! What lets one call through, and sees to it that what was put aside for it is settled, whatever becomes of it.

use std::sync::Arc;

use super::{
    Ask,
    allowance::Allowance,
    cycles::{Lease, Metrics},
    estimate,
    ledger::{Action, Request},
    meter::Inner,
    price::ModelPrice,
    settle::{Kept, Settlement},
};
use crate::chat::{Usage, cost::Cost, report::HaltReason};

/// Lets one call through. Dropped, a call that was not begun is taken back, and one that was begun is charged by what is known of it.
/// The default is of a call that nobody counts.
#[derive(Debug, Default)]
pub struct Pass(Option<Standing>);

#[derive(Debug)]
struct Standing {
    meter: Arc<Inner>,
    charge: Arc<Charge>,
    kept: Option<Kept>,
    /// What was put aside elsewhere.
    lease: Option<Lease>,
    price: Option<ModelPrice>,
    prompt_tokens: u64,
    /// How many pieces of the reply came, and how many bytes they had.
    heard: (u64, u64),
    /// How many tokens came, where they were counted elsewhere.
    heard_tokens: u64,
    /// What the request says of the reply's length.
    asked_tokens: Option<u64>,
    /// What the model is told of it.
    max_tokens: Option<u64>,
    lowered_by: Option<HaltReason>,
    /// Whether it is one of the calls that a budget counts down.
    has_step: bool,
    is_begun: bool,
    cost: Cost,
}

/// What a call takes.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    /// Money, where it has a price.
    pub(super) microcents: Option<u64>,
    /// Tokens, where it is of a model.
    pub(super) tokens: Option<u64>,
    pub(super) risk: u64,
    pub(super) action: Action,
}

impl Pass {
    pub(super) fn new(meter: Arc<Inner>, charge: Arc<Charge>) -> Self {
        Self(Some(Standing {
            meter,
            charge,
            kept: None,
            lease: None,
            price: None,
            prompt_tokens: 0,
            heard: (0, 0),
            heard_tokens: 0,
            asked_tokens: None,
            max_tokens: None,
            lowered_by: None,
            has_step: false,
            is_begun: false,
            cost: Cost::counted(),
        }))
    }

    pub(super) fn of_model(mut self, price: Option<ModelPrice>, ask: Ask<'_>, allowance: Allowance) -> Self {
        if let Some(standing) = &mut self.0 {
            (standing.price, standing.prompt_tokens, standing.asked_tokens) = (price, ask.prompt_tokens, ask.max_tokens);
            standing.max_tokens = allowance.is_held.then_some(allowance.max_tokens);
            standing.lowered_by = allowance.lowered_by;
        }
        self
    }

    /// Holds the reply to `most` tokens, where it may be longer.
    pub(super) fn hold_to(&mut self, most: u64) {
        if let Some(standing) = &mut self.0
            && standing.max_tokens.or(standing.asked_tokens).is_none_or(|tokens| tokens > most)
        {
            (standing.max_tokens, standing.lowered_by) = (Some(most), Some(HaltReason::TokenCeiling));
        }
    }

    pub(super) fn takes_step(&mut self, has_step: bool) {
        if let Some(standing) = &mut self.0 {
            standing.has_step = has_step;
        }
    }

    pub(super) fn keep(&mut self, kept: Kept) {
        if let Some(standing) = &mut self.0 {
            standing.kept = Some(kept);
        }
    }

    /// What the ledger was asked for.
    pub(super) fn request(&self) -> Option<&Request> {
        self.0.as_ref().and_then(|standing| standing.kept.as_ref()).map(|kept| &kept.request)
    }

    pub(super) fn keep_lease(&mut self, lease: Lease) {
        if let Some(standing) = &mut self.0 {
            standing.lease = Some(lease);
        }
    }

    /// How many tokens the model may write, where that is less than the request says or where it says nothing.
    pub fn max_tokens(&self) -> Option<u64> {
        self.0.as_ref().and_then(|standing| standing.max_tokens)
    }

    /// The ceiling for which the reply may not be as long as was asked for, if it may not.
    pub fn lowered_by(&self) -> Option<HaltReason> {
        self.0.as_ref().and_then(|standing| standing.lowered_by)
    }

    /// Where what the call cost can be read once it is settled.
    pub fn cost(&self) -> Cost {
        self.0.as_ref().map(|standing| standing.cost.clone()).unwrap_or_default()
    }

    /// Says what it cost in `cost` too.
    #[must_use]
    pub fn telling(mut self, cost: Cost) -> Self {
        if let Some(standing) = &mut self.0 {
            standing.cost = cost;
        }
        self
    }

    /// From now on the call may have been made.
    pub fn begin(&mut self) {
        if let Some(standing) = &mut self.0 {
            standing.is_begun = true;
        }
    }

    /// It is certain that the call was not made: the last try of it never left.
    pub fn undo(&mut self) {
        if let Some(standing) = &mut self.0 {
            standing.is_begun = false;
        }
    }

    /// A piece of the reply came, of so many `bytes`.
    pub fn hear(&mut self, bytes: usize) {
        if let Some(standing) = &mut self.0
            && bytes > 0
        {
            let (pieces, heard) = standing.heard;
            standing.heard = (pieces.saturating_add(1), heard.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX)));
        }
    }

    /// Whether anything of the reply came.
    pub fn has_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|standing| standing.heard.1 > 0 || standing.heard_tokens > 0)
    }

    /// Some more of the reply came: about so many tokens. No more of them count than were put aside.
    pub fn hear_tokens(&mut self, tokens: u64) {
        if let Some(standing) = &mut self.0 {
            let most = standing.charge.tokens.unwrap_or_default().saturating_sub(standing.prompt_tokens);
            standing.heard_tokens = standing.heard_tokens.saturating_add(tokens).min(most);
        }
    }

    /// What is known here of its usage.
    pub fn guess(&self) -> Usage {
        self.0.as_ref().map(Standing::guessed).unwrap_or_default()
    }

    /// Charges what the model counted; where it counted nothing, what is known here. Returns what it cost, in microcents, where it has a
    /// price.
    pub fn spend(mut self, usage: Usage) -> Option<u64> {
        let standing = self.0.take()?;
        let usage = if usage == Usage::default() { standing.guessed() } else { usage };
        standing.commit(usage)
    }

    /// Ends it: what was begun is charged by what is known of it, what was not is taken back. Returns what it cost, in microcents, where
    /// it was begun and has a price.
    pub fn end(mut self) -> Option<u64> {
        self.0.take().and_then(Standing::end)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.take().and_then(Standing::end);
    }
}

impl Standing {
    /// The usage of a reply whose end did not come.
    fn guessed(&self) -> Usage {
        let (pieces, bytes) = self.heard;
        Usage {
            prompt_tokens: self.prompt_tokens,
            completion_tokens: estimate::heard_tokens(pieces, bytes).saturating_add(self.heard_tokens),
            ..Usage::default()
        }
    }

    fn end(self) -> Option<u64> {
        if self.is_begun {
            let usage = self.guessed();
            return self.commit(usage);
        }
        self.meter.settle(&self.charge, None);
        if self.has_step {
            self.meter.give_step_back();
        }
        if let Some(kept) = self.kept {
            self.meter.gate.settle(kept, Settlement::Release);
        }
        if let Some(lease) = self.lease {
            lease.release();
        }
        None
    }

    /// Charges what `usage` costs; of a tool, what was put aside.
    fn commit(self, usage: Usage) -> Option<u64> {
        let mut actual = Charge::clone(&self.charge);
        if let Some(price) = &self.price {
            actual.microcents = Some(price.cost(usage));
        }
        if actual.tokens.is_some() {
            actual.tokens = Some(usage.total_tokens());
        }
        self.meter.settle(&self.charge, Some(&actual));
        self.cost.set(actual.microcents);
        if let Some(kept) = self.kept {
            self.meter.gate.settle(kept, Settlement::Commit(actual.amounts()));
        }
        if let Some(lease) = self.lease {
            let is_model = actual.tokens.is_some();
            let count = |tokens: u64| is_model.then_some(tokens);
            let metrics = Metrics {
                tokens_input: count(usage.prompt_tokens),
                tokens_output: count(usage.completion_tokens),
                model_version: is_model.then(|| actual.action.name.clone()),
                ..Metrics::default()
            };
            let spent = actual.of(lease.unit());
            lease.commit(spent, metrics);
        }
        actual.microcents
    }
}
