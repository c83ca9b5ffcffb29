//! What a model's reply is made of, in the order it is said. A backend produces events, a dialect encodes them.

use serde_json::value::RawValue;

use super::{Call, CallRecord, Report, Usage};

/// One step of a reply.
#[derive(Debug, Clone)]
pub enum Event {
    /// The reply has begun. First, and once per reply.
    Started(Meta),
    /// More of the model's reasoning.
    Reasoning(String),
    /// More of the text that the user reads.
    Content(String),
    /// More of a refusal.
    Refusal(String),
    /// A call begins.
    CallStarted(Call),
    /// More of the arguments of the call that began as number `index`, counted from 0.
    CallArguments {
        /// Which call.
        index: usize,
        /// The next piece of its JSON text.
        fragment: String,
    },
    /// Log probabilities of what is said next, as the backend wrote them.
    Logprobs(Box<RawValue>),
    /// The reply is complete.
    Finished(FinishReason),
    /// Token counts of the reply.
    Usage(Usage),
    /// How long the server took for what, as it wrote it: llama-server's `timings`. Before `Finished` in an answer; a later one replaces it.
    Timings(Box<RawValue>),
    /// A tool that toolgate runs itself was called, or refused. No part of the answer; never from a backend.
    Called(Box<CallRecord>),
    /// How far a running tool is, for a person to read. No part of the answer; never from a backend.
    Progress(String),
    /// What the guardrails did. Once per answer, when it is settled; never from a backend.
    Settled(Report),
}

/// What a completion says about itself. Empty fields were not given by the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// The completion's id.
    pub id: Option<String>,
    /// Seconds since 1970.
    pub created: Option<u64>,
    /// The model that answers, which need not be the one asked for.
    pub model: Option<String>,
    /// The backend's build or configuration.
    pub system_fingerprint: Option<String>,
}

/// Why a reply ended, in OpenAI's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// The token limit cut the reply off.
    Length,
    /// The reply ends in tool calls.
    ToolCalls,
    /// A filter cut the reply off.
    ContentFilter,
}

impl FinishReason {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}
