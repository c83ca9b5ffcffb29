//! llama-server, and llamafile, which is the same server: chat completions, and what only it has.
//!
//! Source: llama-server b11434. An older build that lacks something is a server that does not tell.

pub(super) mod loading;
mod props;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use serde_json::Value;

use self::props::Props;
use self::{loading::Patience, props::Known};
use super::{
    Backend, Error, Events, Model, Prompt, Server, Target,
    openai::{self, models},
    readiness::Readiness,
    stream::{self, Opened},
};
use crate::chat::Request;

/// The settings of a llama-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Sent as `cache_prompt` where set: whether a slot keeps what it read for the next prompt. The server's default is to keep it.
    pub cache_prompt: Option<bool>,
    /// Whether a conversation keeps to one slot. By default the server chooses: it finds the slot that has read the longest beginning of
    /// the prompt, and a free one where that one is busy. Affinity makes two conversations wait for each other that fall on the same slot;
    /// it is for many alike conversations that push each other out of their slots.
    pub slot_affinity: bool,
    /// How long to wait for a server that is loading its model, where no other backend may answer instead.
    pub load_timeout: Duration,
}

impl Config {
    /// `request` as the server shall take it; `None` when that is as it is.
    pub(super) fn adapted(&self, request: &Request) -> Option<Request> {
        let keep = self.cache_prompt.filter(|_| request.field(CACHE_PROMPT).is_none())?;
        let mut adapted = request.clone();
        adapted.set_field(CACHE_PROMPT, Bytes::from_static(if keep { b"true" } else { b"false" }));
        Some(adapted)
    }
}

const CACHE_PROMPT: &str = "cache_prompt";

impl Default for Config {
    /// The server's own ways. Two minutes load some 20 GB from a disk that reads 200 MB a second.
    fn default() -> Self {
        Self { cache_prompt: None, slot_affinity: false, load_timeout: Duration::from_secs(120) }
    }
}

/// A llama-server.
#[derive(Debug, Clone)]
pub struct LlamaServer {
    target: Arc<Target>,
    config: Config,
    props: Arc<Known>,
}

impl LlamaServer {
    /// The server at `target`.
    pub fn new(target: Arc<Target>, config: Config) -> Self {
        Self { target, config, props: Arc::default() }
    }

    /// What the server says about itself, asked once for each of its starts. `None` when it does not say so in time.
    async fn props(&self) -> Option<Arc<Props>> {
        self.props.ask(&self.target).await
    }

    /// Sends `prompt`, again and again while the server loads its model.
    async fn open(&self, prompt: &Prompt) -> Result<Opened<openai::Translator>, Error> {
        let wait = if prompt.served.has_others() { Duration::ZERO } else { self.config.load_timeout };
        let mut patience = Patience::new(wait);
        loop {
            let body = openai::body(prompt, true, &self.fields(prompt).await);
            let error = match openai::open(&self.target, prompt, body).await {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            let is_loading = loading::is_loading(&error, &self.target).await;
            if is_loading || matches!(error, Error::Connect(_)) {
                // What it said about itself was about an earlier start.
                self.props.forget();
            }
            if !is_loading || !patience.wait().await {
                return Err(error);
            }
        }
    }

    /// What is sent beside the request's own fields.
    async fn fields(&self, prompt: &Prompt) -> Vec<(&'static str, Bytes)> {
        let mut fields = Vec::new();
        if self.config.slot_affinity
            && let Some(slots) = self.props().await.and_then(|props| props.slots)
            && slots > 1
        {
            fields.push(("id_slot", Bytes::from(slot(prompt.request.conversation(), slots).to_string())));
        }
        fields
    }
}

impl Backend for LlamaServer {
    fn stream(&self, prompt: Prompt) -> Events {
        let server = self.clone();
        let adapted = self.config.adapted(&prompt.request).map_or_else(|| Arc::clone(&prompt.request), Arc::new);
        let prompt = Prompt { request: adapted, ..prompt };
        stream::events(async move { server.open(&prompt).await })
    }
}

impl Server for LlamaServer {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(async {
            let list = models::list(&self.target).await?;
            let props = self.props.refresh(&self.target).await.ok();
            Ok(with_own_words(models::read(&list), &list, props.as_deref()))
        })
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(async {
            let readiness = self.target.readiness().await;
            if !matches!(readiness, Readiness::Ready) {
                self.props.forget();
            }
            readiness
        })
    }
}

/// The slot, of so many, that a conversation keeps to.
fn slot(conversation: u64, slots: u64) -> u64 {
    // Which backend it goes to follows from the same number: without another round, a backend's conversations would share few slots.
    let mut hasher = DefaultHasher::new();
    conversation.hash(&mut hasher);
    hasher.finish() % slots
}

/// `models` with what the server says about them beside OpenAI's list: in a list modelled after Ollama's, and, of one model, in its props.
fn with_own_words(mut models: Vec<Model>, list: &Value, props: Option<&Props>) -> Vec<Model> {
    for entry in list.get("models").and_then(Value::as_array).into_iter().flatten() {
        let name = entry.get("name").and_then(Value::as_str);
        let words = entry.get("capabilities").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        if let Some(model) = models.iter_mut().find(|model| Some(model.id.as_str()) == name) {
            words.for_each(|word| add(model, if word == "multimodal" { "vision" } else { word }));
        }
    }
    if let ([only], Some(props)) = (models.as_mut_slice(), props) {
        only.context_length = props.context_length.or(only.context_length);
        if props.takes_tools == Some(true) {
            add(only, "tools");
        }
        if props.sees {
            add(only, "vision");
        }
    }
    models
}

fn add(model: &mut Model, capability: &str) {
    if !model.capabilities.iter().any(|known| known == capability) {
        model.capabilities.push(capability.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_is_what_its_lists_and_props_say_together() {
        let list = json!({
            "models": [{"name": "q", "capabilities": ["completion", "multimodal"]}],
            "data": [{"id": "q", "meta": {"n_ctx_train": 32768}, "architecture": {"input_modalities": ["text", "image"]}}],
        });
        let props = Props { context_length: Some(2048), slots: Some(4), takes_tools: Some(true), sees: true };
        let check = |props: Option<&Props>, context_length: Option<u64>, capabilities: &[&str]| {
            let models = with_own_words(models::read(&list), &list, props);
            let capabilities = capabilities.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(models, [Model { id: "q".to_owned(), context_length, capabilities }]);
        };
        check(Some(&props), Some(2048), &["vision", "completion", "tools"]);
        check(None, None, &["vision", "completion"]);
    }

    #[test]
    fn the_conversations_of_one_backend_spread_over_all_its_slots() {
        let mut hits = [0; 4];
        // Those that a router with four shares sends here.
        (0..400).for_each(|n| hits[usize::try_from(slot(n * 4, 4)).unwrap()] += 1);
        assert!(hits.iter().all(|hits| *hits > 50), "{hits:?}");
    }

    #[test]
    fn props_are_not_about_one_of_several_models() {
        let list = json!({"data": [{"id": "a"}, {"id": "b", "meta": {"n_ctx": 512}}]});
        let props = Props { context_length: Some(2048), ..Props::default() };
        let models = with_own_words(models::read(&list), &list, Some(&props));
        assert_eq!(models.iter().map(|model| model.context_length).collect::<Vec<_>>(), [None, Some(512)]);
    }
}
