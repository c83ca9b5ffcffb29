//! From a prompt to a correct reply: the attempts, and what stands between a model's words and the caller.
//!
//! Before the first attempt `history` repairs the messages. While a reply comes, `hearing` gathers it, told apart by `thinking` and `forced`,
//! watched by `repetition`, and `hold` says what may be shown. At its end it is read in the order `rescue` (calls written as text),
//! `validate` (names, arguments, schema; with `repair` and `coerce`), `respond` (the synthetic answer tool), and judged: accepted, or
//! answered with `nudge` messages and asked again, in a form that `constrain` forces.

mod accumulate;
mod asking;
pub mod attempt;
mod coerce;
mod constrain;
mod error;
mod forced;
mod hearing;
pub mod history;
mod hold;
mod judge;
mod nudge;
pub mod offer;
mod refusal;
pub(crate) mod repair;
mod repetition;
mod resample;
pub mod rescue;
pub mod respond;
mod terms;
mod thinking;
mod truncation;
mod validate;

#[cfg(test)]
mod tests;

pub use self::attempt::{Engine, Watch};
pub use self::error::Error;

/// Which guardrails act, by configuration and by request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guardrails {
    /// Offer the `respond` tool.
    pub respond: bool,
    /// Read calls out of text.
    pub rescue: bool,
    /// Check names and arguments.
    pub validate: bool,
    /// Correct the model and ask again.
    pub nudge: bool,
}

impl Guardrails {
    /// Everything on.
    pub const ALL: Self = Self { respond: true, rescue: true, validate: true, nudge: true };
    /// Everything off: a request is passed through.
    pub const NONE: Self = Self { respond: false, rescue: false, validate: false, nudge: false };
}

/// What becomes of the model's reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// Shown as it comes, that of replies which are corrected later too.
    Live,
    /// Shown with the answer that it led to.
    Hold,
    /// Not shown.
    Drop,
}

/// What becomes of text where the model might have called a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnText {
    /// `Nudge` where the model has `respond` to answer with, else `Accept`.
    Auto,
    /// It is held, and the model is asked for a call.
    Nudge,
    /// It is an answer, shown as it comes; a call may follow it.
    Accept,
}

/// When a structured call is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolArguments {
    /// When it is whole and right.
    Validated,
    /// As it comes, once its name is known to be offered. One that turns out wrong ends the answer with an error.
    Live,
}

/// Which replies are forced into the form of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constrain {
    /// None.
    Never,
    /// Those that follow a wrong one.
    OnRetry,
    /// All, where the model has `respond` to answer with or a call is required.
    Always,
}

/// What is changed about the sampling when the model is asked again, where the request says how to sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RetrySampling {
    /// Added to the temperature with each attempt, up to 2.
    pub temperature_step: f64,
    /// Added to the seed with each attempt.
    pub seed_step: u64,
}

// A step is a number: see the limits of the setting.
impl Eq for RetrySampling {}

/// The settings of the guardrails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Which guardrails act unless a request switches them off.
    pub guardrails: Guardrails,
    /// How many replies may be text where a call was due, or name an unknown tool. Bounds the upstream calls to one more than this.
    pub max_retries: u32,
    /// How many replies may have wrong arguments.
    pub max_tool_errors: u32,
    /// Which replies are forced into the form of a call.
    pub constrain: Constrain,
    /// What is changed about the sampling when the model is asked again.
    pub retry_sampling: RetrySampling,
    /// What becomes of the model's reasoning.
    pub reasoning: Reasoning,
    /// What becomes of text where the model might have called a tool.
    pub on_text: OnText,
    /// When a structured call is shown.
    pub tool_arguments: ToolArguments,
    /// How often the longest cycle looked for may come over and over in one reply; 0 is as often as it likes.
    pub repetitions_max: usize,
    /// Which past reasoning the model reads again.
    pub reasoning_replay: history::Replay,
    /// How many bytes of text are held for what they may become; longer text is text.
    pub held_bytes_max: usize,
    /// How many bytes of one reply are read.
    pub reply_bytes_max: usize,
}
