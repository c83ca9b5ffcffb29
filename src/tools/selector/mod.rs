//! Which server serves a call that several could.
//!
//! Strict order, the first rule that decides counts, and its name is recorded: explicit mention, argument type, session recency, similarity
//! of descriptions, order of the servers.

pub mod embed;

use std::sync::Arc;

use serde_json::Value;

use super::definition::Definition;

/// The rule that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Nobody can serve it.
    NoCandidate,
    /// One only can.
    SingleCandidate,
    /// The user named the server.
    ExplicitMention,
    /// One server's schema alone accepts the arguments.
    ArgumentType,
    /// The server served this conversation last.
    SessionRecency,
    /// Its description is nearest to what the user says.
    CosineSimilarity,
    /// It comes first in the configuration.
    PriorityOrder,
}

impl Rule {
    /// The word in traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCandidate => "no-candidate",
            Self::SingleCandidate => "single-candidate",
            Self::ExplicitMention => "explicit-mention",
            Self::ArgumentType => "argument-type",
            Self::SessionRecency => "session-recency",
            Self::CosineSimilarity => "cosine-similarity",
            Self::PriorityOrder => "priority-order",
        }
    }
}

/// A call about which to decide.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What the user said last.
    pub message: &'a str,
    /// The arguments of the call, an object.
    pub arguments: &'a Value,
    /// The servers that served this conversation, the newest first.
    pub recent: &'a [String],
}

/// A server that could serve the call.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The tool there.
    pub definition: Arc<Definition>,
    /// Whether it can be expected to answer: those that cannot step back behind all that can.
    pub is_up: bool,
}

/// What was decided.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The tool that is called.
    pub definition: Arc<Definition>,
    /// Why.
    pub rule: Rule,
    /// The ids of the other servers, in the rule's order.
    pub alternatives: Vec<String>,
}

/// Chooses among servers.
#[derive(Debug)]
pub struct Selector {
    _embedder: embed::Config,
}

impl Selector {
    /// A selector that compares descriptions as `embedder` says.
    pub fn new(embedder: embed::Config) -> Self {
        Self { _embedder: embedder }
    }

    /// Who of `candidates`, in the order of preference, serves the call; `None` when there is nobody.
    pub async fn select(&self, _question: Question<'_>, candidates: &[Candidate]) -> Option<Selection> {
        let (first, others) = candidates.split_first()?;
        let rule = if others.is_empty() { Rule::SingleCandidate } else { Rule::PriorityOrder };
        let alternatives = others.iter().map(|other| other.definition.server.to_string()).collect();
        Some(Selection { definition: Arc::clone(&first.definition), rule, alternatives })
    }
}
