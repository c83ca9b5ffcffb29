//! The list of models, in OpenAI's shape with what other servers add to it: the context length under the names that vLLM's and OpenRouter's
//! clients read, and what a model can do in Ollama's words.

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

/// A model.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The name that a request gives.
    pub id: &'a str,
    /// Who has it.
    pub owned_by: &'a str,
    /// How many tokens its context holds, where that is known.
    pub context_length: Option<u64>,
    /// What it can do, where that is known.
    pub capabilities: &'a [String],
}

/// The whole list.
pub fn list<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Bytes {
    let data: Vec<WireModel<'a>> = entries.map(WireModel::from).collect();
    json!({"object": "list", "data": data}).to_string().into()
}

/// One of them.
pub fn one(entry: Entry<'_>) -> Bytes {
    json!(WireModel::from(entry)).to_string().into()
}

#[derive(Serialize)]
struct WireModel<'a> {
    id: &'a str,
    object: &'static str,
    /// Nobody tells when it was made; clients want a number.
    created: u64,
    owned_by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_model_len: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    capabilities: &'a [String],
}

impl<'a> From<Entry<'a>> for WireModel<'a> {
    fn from(Entry { id, owned_by, context_length, capabilities }: Entry<'a>) -> Self {
        Self { id, object: "model", created: 0, owned_by, context_length, max_model_len: context_length, capabilities }
    }
}
