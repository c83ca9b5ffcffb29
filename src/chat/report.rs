//! What the guardrails did to an answer: the source of the `x-toolgate-*` headers and of the `toolgate` object.

use serde::Serialize;

/// The history of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guardrail {
    /// As the model wrote it.
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
