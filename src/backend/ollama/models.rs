//! The models that an Ollama has: `/api/tags` names them, `/api/show` says what each can do.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Limited};
use hyper::{Method, header::CONTENT_TYPE};
use serde_json::json;

use super::{NumCtx, Ollama};
use crate::{
    backend::{Error, Model},
    upstream,
    wire::ollama::{Show, Tag, Tags},
};

/// Ollama answers from memory and from the first pages of a file; what takes longer hangs.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// A request goes on without the answer after this.
const FACTS_TIMEOUT: Duration = Duration::from_secs(1);
/// So many models are asked about at once.
const CONCURRENCY: usize = 4;
/// A license of some hundred kilobytes and a template come with the facts.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// So many models are remembered; when they are more, all are asked about again.
const MODELS_MAX: usize = 1024;

/// What is known of the models.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By digest, and by name as last seen.
    facts: Mutex<HashMap<String, Facts>>,
    /// The names of models that take no level of thinking.
    without_levels: Mutex<HashSet<String>>,
}

/// What `/api/show` says of one model.
#[derive(Debug, Clone, Default)]
struct Facts {
    /// How many tokens it was made for.
    made_for: Option<u64>,
    /// How many its owner has it run with.
    num_ctx: Option<u64>,
    capabilities: Vec<String>,
}

impl Known {
    fn facts(&self, key: &str) -> Option<Facts> {
        lock(&self.facts).get(key).cloned()
    }

    fn note(&self, key: &str, facts: &Facts) {
        let mut known = lock(&self.facts);
        if known.len() >= MODELS_MAX {
            known.clear();
        }
        known.insert(key.to_owned(), facts.clone());
    }

    pub(super) fn takes_levels(&self, model: &str) -> bool {
        !lock(&self.without_levels).contains(model)
    }

    pub(super) fn note_without_levels(&self, model: &str) {
        let mut known = lock(&self.without_levels);
        if known.len() >= MODELS_MAX {
            known.clear();
        }
        known.insert(model.to_owned());
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole after any panic: entries are only inserted or cleared.
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ollama {
    /// The models, each asked about once as long as it stays the same.
    pub(super) async fn list(&self) -> Result<Vec<Model>, Error> {
        let answer = self.ask_within(LIST_TIMEOUT, Method::GET, "/api/tags", Bytes::new()).await?;
        let tags: Tags = serde_json::from_slice(&answer).map_err(|_| Error::Protocol("its list of models cannot be read"))?;
        let models = stream::iter(tags.models.unwrap_or_default()).map(|tag| self.model(tag));
        Ok(models.buffered(CONCURRENCY).collect().await)
    }

    /// How many tokens `model` was made for, and how many its owner has it run with. Asks once and remembers; goes without when that takes
    /// long.
    pub(super) async fn lengths_of(&self, model: &str) -> (Option<u64>, Option<u64>) {
        let facts = match self.known.facts(model) {
            Some(facts) => Some(facts),
            None => self.show(FACTS_TIMEOUT, model).await.inspect(|facts| self.known.note(model, facts)),
        };
        facts.map_or((None, None), |facts| (facts.made_for, facts.num_ctx))
    }

    async fn model(&self, tag: Tag) -> Model {
        let digest = tag.digest.filter(|digest| !digest.is_empty());
        let known = digest.as_ref().and_then(|digest| self.known.facts(digest));
        let facts = match known {
            Some(facts) => Some(facts),
            None => self.show(LIST_TIMEOUT, &tag.name).await,
        };
        // A model that cannot be asked about is there all the same.
        let Some(facts) = facts else { return Model { id: tag.name, ..Model::default() } };
        let model = Model { id: tag.name, context_length: None, capabilities: facts.capabilities.clone() };
        for key in digest.as_deref().into_iter().chain(model.names()) {
            self.known.note(key, &facts);
        }
        let as_it_is_run = match self.config.num_ctx {
            NumCtx::Fixed(tokens) => Some(u64::from(tokens)),
            NumCtx::Server => facts.num_ctx,
            NumCtx::Need => None,
        };
        let context_length = as_it_is_run.into_iter().chain(facts.made_for).min();
        Model { context_length, ..model }
    }

    async fn show(&self, patience: Duration, model: &str) -> Option<Facts> {
        let question = json!({ "model": model }).to_string();
        let answer = self.ask_within(patience, Method::POST, "/api/show", question.into()).await.ok()?;
        let show: Show<'_> = serde_json::from_slice(&answer).ok()?;
        let (made_for, num_ctx) = (show.context_length(), show.num_ctx());
        Some(Facts { made_for, num_ctx, capabilities: show.capabilities.unwrap_or_default() })
    }

    async fn ask_within(&self, patience: Duration, method: Method, path: &str, body: Bytes) -> Result<Bytes, Error> {
        let answer = tokio::time::timeout(patience, self.ask(method, path, body)).await;
        answer.unwrap_or(Err(Error::Stalled(upstream::Error::FirstByte(patience))))
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Error> {
        let request = self.target.request(path, None).method(method).header(CONTENT_TYPE, "application/json").body(body);
        let response = self.target.send(request.map_err(|_| Error::Protocol("the request has no valid address"))?).await?;
        if !response.status().is_success() {
            return Err(self.target.refusal(response, None).await);
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok(body.map_err(|_| Error::Protocol("what it says of its models broke off or is too long"))?.to_bytes())
    }
}
