//! What one request has used: over all its turns, attempts, retries and tools.
//!
//! The worst case of a call is put aside before it, here and in the ledger; what it did cost is charged after it. Calls that run at once
//! cannot use the same.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use chrono::Utc;

use super::{
    Account, Amount, Denial, Gate, Pass, Unit,
    access::Tool,
    gate,
    ledger::{Action, Caps, Request},
    pass::Charge,
    policy::{Limit, MODEL, Window},
};
use crate::chat::{cost::usd, id, report::HaltReason};

/// Counts what one request uses. Cloning it shares the count; the default counts nothing and lets everything through.
#[derive(Debug, Clone, Default)]
pub struct Meter(Option<Arc<Inner>>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) gate: Gate,
    pub(super) run: Run,
    deadline: Option<Instant>,
    used: Mutex<Used>,
}

/// Which request is counted.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) account: Arc<Account>,
    pub(super) request_id: String,
    pub(super) session_id: String,
    /// Unlike the request's, this is never that of another.
    id: String,
}

/// What was used or is put aside.
#[derive(Debug, Default)]
struct Used {
    microcents: u64,
    tokens: u64,
    calls: u64,
    /// How many calls were ever put aside for.
    steps: u64,
    /// By the policy's limits, where they are of requests.
    limits: Vec<u64>,
    /// How many more calls a budget asked to be kept to.
    steps_left: Option<u64>,
    /// What was charged.
    cost: Option<u64>,
    has_asked_model: bool,
}

/// A question to a model.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The model, as the client calls it.
    pub model: &'a str,
    /// How many tokens it reads at most.
    pub prompt_tokens: u64,
    /// How many it may write, where the request says so.
    pub max_tokens: Option<u64>,
}

/// How many tokens a model is taken to write at most where nothing else is said; where tokens are counted or cost, it may not write more.
const REPLY_TOKENS: u64 = 8_192;
/// A reply that may not be as long as this is no reply.
const REPLY_TOKENS_MIN: u64 = 16;
/// How long something is put aside: longer than calls take. One that takes longer still is charged when it ends.
const TTL: Duration = Duration::from_secs(600);
/// How long after that it may be settled.
const GRACE: Duration = Duration::from_secs(60);

impl Run {
    pub(super) fn new(account: Arc<Account>, request_id: &str, session_id: &str) -> Self {
        Self { account, request_id: request_id.to_owned(), session_id: session_id.to_owned(), id: id::mint("run_") }
    }
}

impl Meter {
    pub(super) fn new(gate: Gate, run: Run) -> Self {
        let policy = gate.policy();
        let used = Used { limits: vec![0; policy.limits.len()], ..Used::default() };
        let deadline = policy.ceilings.deadline.map(|deadline| Instant::now() + deadline);
        Self(Some(Arc::new(Inner { gate, run, deadline, used: Mutex::new(used) })))
    }

    /// Whether anything is counted.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a model was asked.
    pub fn has_asked_model(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.used().has_asked_model)
    }

    /// When nothing is begun any more.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(|inner| inner.deadline)
    }

    /// What was charged so far, in microcents; `None` where nothing had a price.
    pub fn cost(&self) -> Option<u64> {
        self.0.as_ref().and_then(|inner| inner.used().cost)
    }

    /// Whether a model may be asked: its worst case is put aside until the pass is settled. Fails where it may not.
    pub async fn model(&self, ask: Ask<'_>) -> Result<Pass, Denial> {
        let Some(inner) = &self.0 else { return Ok(Pass::default()) };
        let action = gate::action(&inner.run, MODEL, ask.model);
        let price = inner.gate.policy().prices.model(ask.model).cloned();
        let (charge, held) = {
            let mut used = inner.used();
            let (max_tokens, held) = inner.reply(&used, ask, &action)?;
            let microcents = price.as_ref().map(|price| price.at_most(ask.prompt_tokens, max_tokens));
            let charge = Charge { microcents, tokens: Some(ask.prompt_tokens.saturating_add(max_tokens)), risk: 0, action };
            (inner.put_aside(&mut used, charge)?, held)
        };
        let (charge, step) = charge;
        let mut pass = Pass::new(Arc::clone(inner), Arc::clone(&charge)).of_model(price, ask.prompt_tokens);
        if let Some((max_tokens, reason)) = held {
            pass = pass.held_to(max_tokens, reason);
        }
        let pass = inner.admit(pass, &charge, &step.to_string()).await?;
        inner.used().has_asked_model = true;
        Ok(pass)
    }

    /// Whether `tool` may be called, as the call `call_id` of the request: what it costs is put aside until the pass is settled. Fails where
    /// it may not.
    pub async fn tool(&self, tool: &Tool<'_>, call_id: &str) -> Result<Pass, Denial> {
        let Some(inner) = &self.0 else { return Ok(Pass::default()) };
        let (charge, step) = inner.put_aside(&mut inner.used(), inner.charge_of(tool))?;
        let step = format!("{step}:{call_id}");
        inner.admit(Pass::new(Arc::clone(inner), Arc::clone(&charge)), &charge, &step).await
    }

    /// Why [`Self::tool`] would fail now, if it would; puts nothing aside.
    pub async fn would_refuse(&self, tool: &Tool<'_>) -> Option<Denial> {
        let inner = self.0.as_ref()?;
        let charge = inner.charge_of(tool);
        if let Err(denial) = inner.room(&inner.used(), &charge) {
            return Some(denial);
        }
        let request = inner.request(&charge, "rehearsal");
        let store = inner.gate.store()?;
        store.decide(&request).await.err().map(Denial::from)
    }
}

impl Inner {
    fn used(&self) -> MutexGuard<'_, Used> {
        // Sums that are each whole after any panic.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn charge_of(&self, tool: &Tool<'_>) -> Charge {
        let name = tool.full_name();
        let price = self.gate.policy().prices.tool(&name);
        Charge {
            microcents: price.map(|price| price.call),
            tokens: None,
            risk: price.map_or(0, |price| price.risk),
            action: gate::action(&self.run, tool.kind(), &name),
        }
    }

    /// How long the reply may be, and whether it is held to that: not where the request asks for less anyway.
    fn reply(&self, used: &Used, ask: Ask<'_>, action: &Action) -> Result<(u64, Option<(u64, Option<HaltReason>)>), Denial> {
        let policy = self.gate.policy();
        let wanted = ask.max_tokens.unwrap_or(REPLY_TOKENS);
        let (mut most, mut reason) = (wanted, None);
        let least = wanted.min(REPLY_TOKENS_MIN);
        if let Some(ceiling) = policy.ceilings.tokens {
            let left = ceiling.saturating_sub(used.tokens).saturating_sub(ask.prompt_tokens);
            if left < least {
                let message =
                    format!("One request may use {ceiling} tokens: {} are used, and the next call needs more than are left.", used.tokens);
                return Err(Denial::spent(HaltReason::TokenCeiling, message));
            }
            if left < most {
                (most, reason) = (left, Some(HaltReason::TokenCeiling));
            }
        }
        let price = policy.prices.model(ask.model);
        if let (Some(ceiling), Some(price)) = (policy.ceilings.usd, price) {
            let left = ceiling.saturating_sub(used.microcents);
            let affordable = price.affordable(ask.prompt_tokens, left).filter(|tokens| *tokens >= least);
            let Some(affordable) = affordable else {
                let message = format!(
                    "One request may cost {} USD: {} are spent, and the next call might cost more than is left.",
                    usd(ceiling),
                    usd(used.microcents)
                );
                return Err(Denial::spent(HaltReason::CostCeiling, message));
            };
            if affordable < most {
                (most, reason) = (affordable, Some(HaltReason::CostCeiling));
            }
        }
        let counts =
            |limit: &Limit| matches!(limit.amount.unit, Unit::Tokens | Unit::UsdMicrocents) && limit.counts(&self.run.account, action);
        let is_bounded = price.is_some() || policy.ceilings.tokens.is_some() || policy.limits.iter().any(counts);
        let is_held = reason.is_some() || (ask.max_tokens.is_none() && is_bounded);
        Ok((most, is_held.then_some((most, reason))))
    }

    /// Whether the request's own ceilings have room for `charge`.
    fn room(&self, used: &Used, charge: &Charge) -> Result<(), Denial> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Denial::spent(HaltReason::Deadline, "The time of the request is over."));
        }
        let ceilings = self.gate.policy().ceilings;
        if ceilings.calls.is_some_and(|calls| used.calls >= calls) || used.steps_left == Some(0) {
            return Err(Denial::spent(HaltReason::CallQuota, format!("{} calls are the most in one request.", used.calls)));
        }
        if ceilings.usd.is_some_and(|ceiling| used.microcents.saturating_add(charge.microcents.unwrap_or_default()) > ceiling) {
            let message =
                format!("One request may cost {} USD: the call might cost more than is left.", usd(ceilings.usd.unwrap_or_default()));
            return Err(Denial::spent(HaltReason::CostCeiling, message));
        }
        for (limit, used) in self.limits(charge).map(|(at, limit)| (limit, used.limits.get(at).copied().unwrap_or_default())) {
            if used.saturating_add(charge.of(limit.amount.unit)) > limit.amount.amount {
                let message = format!("One request may not use more of {}: a limit says so.", charge.action.name);
                return Err(Denial::spent(super::denial::halt_reason(Some(limit.amount.unit)), message));
            }
        }
        Ok(())
    }

    /// Puts `charge` aside in the request's own ceilings. Returns which of the request's calls it is for, a number that no other has.
    fn put_aside(&self, used: &mut Used, charge: Charge) -> Result<(Arc<Charge>, u64), Denial> {
        self.room(used, &charge)?;
        used.microcents = used.microcents.saturating_add(charge.microcents.unwrap_or_default());
        used.tokens = used.tokens.saturating_add(charge.tokens.unwrap_or_default());
        used.calls += 1;
        used.steps_left = used.steps_left.map(|left| left.saturating_sub(1));
        for (at, limit) in self.limits(&charge) {
            if let Some(used) = used.limits.get_mut(at) {
                *used = used.saturating_add(charge.of(limit.amount.unit));
            }
        }
        used.steps += 1;
        Ok((Arc::new(charge), used.steps))
    }

    /// Takes back what was put aside for `charge`, and counts what it was: `actual`, or nothing where it was not done.
    pub(super) fn settle(&self, charge: &Charge, actual: Option<&Charge>) {
        let mut used = self.used();
        let took = |unit: Unit| actual.map_or(0, |actual| actual.of(unit));
        used.microcents = used.microcents.saturating_sub(charge.of(Unit::UsdMicrocents)).saturating_add(took(Unit::UsdMicrocents));
        used.tokens = used.tokens.saturating_sub(charge.of(Unit::Tokens)).saturating_add(took(Unit::Tokens));
        if actual.is_none() {
            used.calls = used.calls.saturating_sub(1);
        }
        if let Some(microcents) = actual.and_then(|actual| actual.microcents) {
            used.cost = Some(used.cost.unwrap_or_default().saturating_add(microcents));
        }
        for (at, limit) in self.limits(charge) {
            if let Some(used) = used.limits.get_mut(at) {
                *used = used.saturating_sub(charge.of(limit.amount.unit)).saturating_add(took(limit.amount.unit));
            }
        }
    }

    /// The limits of requests that count `charge`, and their places.
    fn limits(&self, charge: &Charge) -> impl Iterator<Item = (usize, &Limit)> {
        let limits = self.gate.policy().limits.iter().enumerate();
        limits.filter(|(_, limit)| limit.window == Window::Request && limit.counts(&self.run.account, &charge.action))
    }

    /// Asks the ledger, and keeps to what it asks for. A pass that fails gives back what was put aside here.
    async fn admit(&self, mut pass: Pass, charge: &Charge, step: &str) -> Result<Pass, Denial> {
        let request = self.request(charge, step);
        let (kept, caps) = self.gate.reserve(request).await?;
        pass.keep(kept);
        if let Some(caps) = caps {
            self.keep_to(&caps, &charge.action.name, &mut pass).await?;
        }
        Ok(pass)
    }

    /// What the ledger is asked for `charge`.
    fn request(&self, charge: &Charge, step: &str) -> Request {
        let Run { account, session_id, id, .. } = &self.run;
        let Action { kind, name, .. } = &charge.action;
        let now = Utc::now();
        let limits = self.gate.policy().limits.iter();
        let limits = limits.filter(|limit| limit.window != Window::Request && limit.counts(account, &charge.action));
        Request {
            idempotency_key: format!("{session_id}/{id}/{step}/{name}/{kind}"),
            subject: account.subject.clone(),
            action: charge.action.clone(),
            estimates: charge.amounts(),
            quotas: limits.map(|limit| limit.quota(account, &charge.action, now)).collect(),
            opens: true,
            ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX),
            grace_period_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
            overage_policy: self.gate.policy().overage,
        }
    }

    async fn keep_to(&self, caps: &Caps, name: &str, pass: &mut Pass) -> Result<(), Denial> {
        if !caps.allows(name) {
            return Err(Denial::forbidden(format!("{name} may not be used on this account.")));
        }
        if let Some(steps) = caps.max_steps_remaining {
            if steps == 0 {
                return Err(Denial::spent(HaltReason::CallQuota, "No more calls may be made on this account."));
            }
            let mut used = self.used();
            // This call is one of them.
            used.steps_left = Some(used.steps_left.map_or(steps - 1, |left| left.min(steps - 1)));
        }
        if let Some(max_tokens) = caps.max_tokens {
            pass.hold_to(max_tokens);
        }
        let Some(cooldown) = caps.cooldown_ms.map(Duration::from_millis) else { return Ok(()) };
        if self.deadline.is_some_and(|deadline| Instant::now() + cooldown >= deadline) {
            return Err(Denial::spent(HaltReason::Deadline, "The account asks for a pause that is longer than the time of the request."));
        }
        tokio::time::sleep(cooldown).await;
        Ok(())
    }
}

impl Charge {
    /// What the ledger is told of it: units of which nothing is counted are left out.
    pub(super) fn amounts(&self) -> Vec<Amount> {
        let is_counted = |unit: &Unit| match unit {
            Unit::UsdMicrocents => self.microcents.is_some(),
            Unit::Tokens => self.tokens.is_some(),
            Unit::Credits => true,
            Unit::RiskPoints => self.risk > 0,
        };
        Unit::ALL.into_iter().filter(is_counted).map(|unit| Amount::new(unit, self.of(unit))).collect()
    }

    /// How much of `unit` it is.
    pub(super) fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::UsdMicrocents => self.microcents.unwrap_or_default(),
            Unit::Tokens => self.tokens.unwrap_or_default(),
            Unit::Credits => 1,
            Unit::RiskPoints => self.risk,
        }
    }
}
