//! What the guardrails did to an answer: the source of the `x-toolgate-*` headers and of the `toolgate` object.

use std::time::Duration;

use serde::Serialize;

use super::{CallRecord, Usage, call::Rejected};

/// The history of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The strongest thing that had to be done.
    pub guardrail: Guardrail,
    /// One entry per upstream call, in order.
    pub attempts: Vec<Attempt>,
    /// What was done to the request's messages before the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
    /// The backend did not read the prompt to its end, by its own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// The calls that toolgate ran, or refused to, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// The limit that ended the run, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt_reason: Option<HaltReason>,
    /// What the models and tools cost, in microcents (100,000,000 are a dollar), where anything has a price.
    #[serde(skip_serializing_if = "Option::is_none", rename = "cost_usd", serialize_with = "super::cost::serialize_some")]
    pub cost: Option<u64>,
    /// What else the client may want to know, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether the answer shall tell all this even where the request did not ask for it: the plan of a dry run.
    #[serde(skip)]
    pub is_plan: bool,
}

impl Report {
    /// Whether an answer tells it to a client that asked for that or not: plans, and answers for which nothing was left, always do.
    pub fn is_shown(&self, explain: bool) -> bool {
        explain || self.is_plan || self.is_spent()
    }

    /// Whether nothing is left: the answer ends as it is, and nothing is run after it.
    pub fn is_spent(&self) -> bool {
        self.halt_reason.is_some_and(HaltReason::is_spent)
    }

    /// Adds what a later turn of the same run did.
    pub fn add(&mut self, later: Self) {
        self.guardrail = self.guardrail.max(later.guardrail);
        self.attempts.extend(later.attempts);
        self.history.extend(later.history);
        self.truncated = later.truncated.or(self.truncated);
        self.calls.extend(later.calls);
        // A run that may not go on at all is not one that may only not call tools any more.
        self.halt_reason = later.halt_reason.or(self.halt_reason);
        self.cost = later.cost.or(self.cost);
        self.notes.extend(later.notes);
        self.is_plan |= later.is_plan;
    }
}

/// Which limit ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HaltReason {
    /// The model replied as often as it may.
    Turns,
    /// As many tools were called as may be.
    Calls,
    /// Calls of tools took as long as they may.
    Deadline,
    /// The model read and wrote as many tokens as it may.
    Tokens,
    /// The next call might cost more than is left.
    CostCeiling,
    /// The next call might take more tokens than are left.
    TokenCeiling,
    /// As many calls of this kind were made as may be.
    CallQuota,
    /// The request took as long as it may.
    #[serde(rename = "deadline")]
    RequestDeadline,
}

impl HaltReason {
    /// Whether it ends an answer as it is: the model was not asked for a last word.
    pub fn is_spent(self) -> bool {
        matches!(self, Self::CostCeiling | Self::TokenCeiling | Self::CallQuota | Self::RequestDeadline)
    }

    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Calls => "calls",
            Self::Deadline | Self::RequestDeadline => "deadline",
            Self::Tokens => "tokens",
            Self::CostCeiling => "cost_ceiling",
            Self::TokenCeiling => "token_ceiling",
            Self::CallQuota => "call_quota",
        }
    }
}

/// A prompt that was read in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Truncation {
    /// How many tokens the backend says that it read.
    pub prompt_tokens: u64,
    /// How many the prompt has at least.
    pub prompt_tokens_min: u64,
}

/// How the answer was reached, from least to most intervention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guardrail {
    /// As the model wrote it.
    #[default]
    Clean,
    /// Calls were read out of text.
    Rescued,
    /// Arguments were rewritten without loss: almost JSON, or a number in a string.
    Repaired,
    /// The model was corrected and asked again.
    Nudged,
    /// The retries were used up.
    Exhausted,
}

/// One upstream call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// What was wrong with the reply; absent on the one that became the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What the model was told, or would have been, about that fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The form of a call was forced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// The calls that were read out of text, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rescued: Vec<String>,
    /// The form in which they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<&'static str>,
    /// The calls whose arguments were almost JSON, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repaired: Vec<String>,
    /// The arguments whose type was changed without loss: call, JSON path, and from what to what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coerced: Vec<String>,
    /// How long the model took. For the trace.
    #[serde(skip)]
    pub latency: Duration,
    /// What the reply cost. For the trace.
    #[serde(skip)]
    pub usage: Usage,
    /// The backend gave no reply. For the trace.
    #[serde(skip)]
    pub refused: bool,
    /// The calls that were wrong. For the trace.
    #[serde(skip)]
    pub rejected: Vec<Rejected>,
}

/// What a reply can have wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Text where a call was due.
    Text,
    /// A call of a tool that was not offered.
    UnknownTool,
    /// Arguments that are no JSON object or that the schema refuses.
    Arguments,
    /// The same over and over.
    Repetition,
}

impl Guardrail {
    /// The word in the `x-toolgate-guardrail` header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Rescued => "rescued",
            Self::Repaired => "repaired",
            Self::Nudged => "nudged",
            Self::Exhausted => "exhausted",
        }
    }
}
