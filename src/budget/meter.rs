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
    allowance::NO_STEPS,
    gate,
    ledger::{Action, Caps, Request},
    pass::Charge,
    policy::{Limit, MODEL, Window},
};
use crate::chat::{id, report::HaltReason};

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
pub(super) struct Used {
    pub(super) microcents: u64,
    pub(super) tokens: u64,
    pub(super) calls: u64,
    /// How many calls were ever put aside for.
    steps: u64,
    /// By the policy's limits, where they are of requests.
    pub(super) limits: Vec<u64>,
    /// How many more calls may be made, where a budget asks for that.
    pub(super) steps_left: Option<u64>,
    /// What was charged.
    cost: Option<u64>,
    is_used: bool,
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

    /// Whether anything was done for the request: a model replied, or a tool was called.
    pub fn is_used(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.used().is_used)
    }

    /// When nothing is begun any more, and what a model still says is cut.
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
        let (charge, step, allowance) = {
            let mut used = inner.used();
            let allowance = inner.allowance(&used, ask, &action)?;
            let microcents = price.as_ref().map(|price| price.at_most(ask.prompt_tokens, allowance.max_tokens));
            let tokens = Some(ask.prompt_tokens.saturating_add(allowance.max_tokens));
            let (charge, step) = inner.put_aside(&mut used, Charge { microcents, tokens, risk: 0, action })?;
            (charge, step, allowance)
        };
        let pass = Pass::new(Arc::clone(inner), Arc::clone(&charge)).of_model(price, ask, allowance);
        inner.admit(pass, &charge, &step.to_string()).await
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
        inner.rehearse(&charge).await.err()
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

    /// Whether the request took as long as it may.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Puts `charge` aside in the request's own ceilings. Returns which of the request's calls it is for, a number that no other has.
    fn put_aside(&self, used: &mut Used, charge: Charge) -> Result<(Arc<Charge>, u64), Denial> {
        self.room(used, &charge)?;
        used.microcents = used.microcents.saturating_add(charge.microcents.unwrap_or_default());
        used.tokens = used.tokens.saturating_add(charge.tokens.unwrap_or_default());
        used.calls = used.calls.saturating_add(1);
        for (at, limit) in self.limits(&charge.action) {
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
        match actual {
            Some(_) => used.is_used = true,
            None => used.calls = used.calls.saturating_sub(1),
        }
        if let Some(microcents) = actual.and_then(|actual| actual.microcents) {
            used.cost = Some(used.cost.unwrap_or_default().saturating_add(microcents));
        }
        for (at, limit) in self.limits(&charge.action) {
            if let Some(used) = used.limits.get_mut(at) {
                *used = used.saturating_sub(charge.of(limit.amount.unit)).saturating_add(took(limit.amount.unit));
            }
        }
    }

    /// Gives back the call that [`Self::take_step`] took.
    pub(super) fn give_step_back(&self) {
        let mut used = self.used();
        used.steps_left = used.steps_left.map(|left| left.saturating_add(1));
    }

    /// The limits of requests that count `action`, and their places.
    pub(super) fn limits<'a>(&'a self, action: &'a Action) -> impl Iterator<Item = (usize, &'a Limit)> {
        let limits = self.gate.policy().limits.iter().enumerate();
        limits.filter(|(_, limit)| limit.window == Window::Request && limit.counts(&self.run.account, action))
    }

    /// Fails where the ledger would not let `charge` through now, or would ask for something that it does not keep to.
    async fn rehearse(&self, charge: &Charge) -> Result<(), Denial> {
        // Another key each time: an answer is not given again.
        let caps = self.gate.decide(&self.request(charge, &id::mint("rehearsal_"))).await?;
        caps.iter().try_for_each(|caps| allowed(caps, &charge.action))?;
        let steps = caps.iter().filter_map(|caps| caps.max_steps_remaining);
        let left = self.used().steps_left.into_iter().chain(steps).min();
        if left == Some(0) { Err(Denial::spent(HaltReason::CallQuota, NO_STEPS)) } else { Ok(()) }
    }

    /// Asks the ledger, and keeps to what it asks for. A pass that fails gives back what was put aside here.
    async fn admit(&self, mut pass: Pass, charge: &Charge, step: &str) -> Result<Pass, Denial> {
        let request = self.request(charge, step);
        let (kept, caps) = self.gate.reserve(request).await?;
        pass.keep(kept);
        let lease = match pass.request() {
            Some(request) => self.gate.lease(request).await?,
            None => None,
        };
        let elsewhere = lease.as_ref().and_then(|lease| lease.caps().cloned()).map(Arc::new);
        lease.into_iter().for_each(|lease| pass.keep_lease(lease));
        let caps: Vec<Arc<Caps>> = caps.into_iter().chain(elsewhere).collect();
        let steps = caps.iter().filter_map(|caps| caps.max_steps_remaining).min();
        pass.takes_step(self.take_step(steps)?);
        for caps in caps {
            self.keep_to(&caps, &charge.action, &mut pass).await?;
        }
        Ok(pass)
    }

    /// Takes one of the calls that a budget leaves to the request, `steps` by its last word. Returns whether it counts them. Of calls that
    /// are let through at once each takes one.
    fn take_step(&self, steps: Option<u64>) -> Result<bool, Denial> {
        let mut used = self.used();
        let Some(left) = used.steps_left.into_iter().chain(steps).min() else { return Ok(false) };
        let after = left.checked_sub(1).ok_or_else(|| Denial::spent(HaltReason::CallQuota, NO_STEPS))?;
        used.steps_left = Some(after);
        Ok(true)
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

    /// Keeps to `caps` before anything is done.
    async fn keep_to(&self, caps: &Caps, action: &Action, pass: &mut Pass) -> Result<(), Denial> {
        allowed(caps, action)?;
        if let Some(max_tokens) = caps.max_tokens {
            pass.hold_to(max_tokens);
        }
        let Some(cooldown) = caps.cooldown_ms.map(Duration::from_millis) else { return Ok(()) };
        if self.deadline.is_some_and(|deadline| Instant::now() + cooldown >= deadline) {
            let message = "The account asks for a pause that is longer than what is left of the request's time.";
            return Err(Denial::spent(HaltReason::RequestDeadline, message));
        }
        tokio::time::sleep(cooldown).await;
        Ok(())
    }
}

/// Fails where the lists of `caps`, which are of tools, do not have `action`.
fn allowed(caps: &Caps, action: &Action) -> Result<(), Denial> {
    if action.kind == MODEL || caps.allows(&action.name) {
        return Ok(());
    }
    Err(Denial::forbidden(format!("{} may not be used on this account.", action.name)))
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
