//! Which server serves a call that several could.
//!
//! Strict order, the first rule that decides counts, and its name is recorded: explicit mention, argument type, session recency, similarity
//! of descriptions, order of the servers. Candidates whose server cannot be expected to answer step back behind all others: the rules
//! decide among the rest, and where that is one, it is the only candidate. The same question has the same answer.

pub mod embed;
mod mention;
mod rules;

use std::sync::Arc;

use serde_json::Value;

use self::embed::Embedder;
pub use self::mention::mentioned;
use super::{
    definition::Definition,
    schema::{Schema, Schemas},
};

/// The rule that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Nobody can serve it.
    NoCandidate,
    /// One only can: there is no other, or the others are down.
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
    /// The arguments of the call; anything but an object says nothing.
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
    /// The ids of the other servers, each once, in the rule's order, those that stepped back last.
    pub alternatives: Vec<String>,
    /// All other candidates, in the same order.
    pub others: Vec<Arc<Definition>>,
    /// The one server that the user named, where it stepped back.
    pub named_but_down: Option<Arc<str>>,
    /// What was not as it should be about the decision.
    pub note: Option<String>,
}

/// The ids of the servers of `others`, each once and without that of `chosen`.
pub(super) fn alternatives<'a>(chosen: &Definition, others: impl IntoIterator<Item = &'a Arc<Definition>>) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for Definition { server, .. } in others.into_iter().map(|other| &**other) {
        if *server != chosen.server && !ids.iter().any(|id| **id == **server) {
            ids.push(server.to_string());
        }
    }
    ids
}

/// Chooses among servers.
#[derive(Debug)]
pub struct Selector {
    embedder: Arc<dyn Embedder>,
    schemas: Schemas,
}

/// A rule and all candidates in its order, the chosen one first.
type Decision<'a> = (Rule, Vec<&'a Arc<Definition>>);

impl Selector {
    /// A selector that compares descriptions as `embedder` says.
    pub fn new(embedder: embed::Config) -> Self {
        Self::with(embed::embedder(embedder))
    }

    /// A selector that compares descriptions by `embedder`.
    pub fn with(embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder, schemas: Schemas::new() }
    }

    /// The compiled schema of `definition`.
    pub fn schema(&self, definition: &Definition) -> Arc<Schema> {
        self.schemas.of(definition)
    }

    /// Who of `candidates`, in the order of preference, serves the call; `None` when there is nobody.
    pub async fn select(&self, question: Question<'_>, candidates: &[Candidate]) -> Option<Selection> {
        let of = |is_up: bool| candidates.iter().filter(move |candidate| candidate.is_up == is_up).map(|candidate| &candidate.definition);
        let (mut pool, mut back): (Vec<_>, Vec<_>) = (of(true).collect(), of(false).collect());
        if pool.is_empty() {
            std::mem::swap(&mut pool, &mut back);
        }
        if pool.is_empty() {
            return None;
        }
        let mentioned = match candidates {
            // Nobody asks which of one.
            [_] => Vec::new(),
            _ => mentioned(question.message, &servers(candidates)),
        };
        let mut note = None;
        let (rule, order) = match self.decide(question, &pool, &mentioned) {
            Some(decision) => decision,
            None => {
                let (order, fell) = self.by_similarity(question, &pool).await;
                note = fell;
                order.map_or((Rule::PriorityOrder, pool), |order| (Rule::CosineSimilarity, order))
            }
        };
        let named_but_down = match mentioned.as_slice() {
            [id] => back.iter().map(|definition| &definition.server).find(|server| &***server == *id).cloned(),
            _ => None,
        };
        let mut order = order.into_iter().chain(back).map(Arc::clone);
        let definition = order.next()?;
        let others: Vec<Arc<Definition>> = order.collect();
        let alternatives = alternatives(&definition, &others);
        Some(Selection { definition, rule, alternatives, others, named_but_down, note })
    }

    /// What the rules say that need nothing but the question.
    fn decide<'a>(&self, question: Question<'_>, pool: &[&'a Arc<Definition>], mentioned: &[&str]) -> Option<Decision<'a>> {
        let first = |rule: Rule, chosen: usize| (rule, rules::first(pool, chosen));
        if pool.len() == 1 {
            return Some(first(Rule::SingleCandidate, 0));
        }
        if let Some(chosen) = rules::mentioned(pool, mentioned) {
            return Some(first(Rule::ExplicitMention, chosen));
        }
        if question.arguments.is_object() {
            let accepts = |definition: &Definition| self.schemas.of(definition).accepts(question.arguments);
            if let Some(chosen) = rules::accepting(pool, accepts) {
                return Some(first(Rule::ArgumentType, chosen));
            }
        }
        rules::most_recent(pool, question.recent).map(|chosen| first(Rule::SessionRecency, chosen))
    }

    /// `pool` in the order of its descriptions' similarity to the message, where that decides, and what is to be noted about it.
    async fn by_similarity<'a>(
        &self,
        question: Question<'_>,
        pool: &[&'a Arc<Definition>],
    ) -> (Option<Vec<&'a Arc<Definition>>>, Option<String>) {
        let descriptions: Vec<&str> = pool.iter().map(|definition| definition.description.as_str()).collect();
        // The same text is as near, whoever compares.
        if question.message.trim().is_empty() || descriptions.iter().all(|text| descriptions.first() == Some(text)) {
            return (None, None);
        }
        let (similarities, note) = match rules::similarities(&*self.embedder, question.message, &descriptions).await {
            Ok(similarities) => (similarities, None),
            Err(error) => {
                let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
                let causes: Vec<String> = causes.map(ToString::to_string).collect();
                let note = format!("descriptions were compared by their words: {}", causes.join(": "));
                // Hashing does not fail.
                let by_words = rules::similarities(&embed::Hashing, question.message, &descriptions).await;
                (by_words.unwrap_or_default(), Some(note))
            }
        };
        (rules::nearest(pool, &similarities), note)
    }
}

/// The ids of the candidates' servers, each once.
fn servers(candidates: &[Candidate]) -> Vec<&str> {
    let mut ids: Vec<&str> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        if !ids.contains(&&*candidate.definition.server) {
            ids.push(&candidate.definition.server);
        }
    }
    ids
}

#[cfg(test)]
mod tests;
