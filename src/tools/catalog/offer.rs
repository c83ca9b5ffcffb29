//! What one request is offered.

use std::{collections::HashMap, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, value::RawValue};

use super::{Entry, merge};
use crate::{chat, tools::definition::Definition};

/// The tools of one request, in the order that the model sees. Cloning it shares them.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The tools.
    pub entries: Arc<[Arc<Entry>]>,
    shown: Arc<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    parts: Vec<Arc<Part>>,
    by_name: HashMap<Arc<str>, usize>,
    /// A JSON array.
    json: Bytes,
}

/// An entry and how it is written.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) entry: Arc<Entry>,
    name: Arc<str>,
    /// The JSON of the tool in a request.
    json: Bytes,
}

/// How many names of tools are remembered of one conversation beyond those that there are.
const VANISHED_MAX: usize = 1024;

// === impl Part ===

impl Part {
    /// What the model calls `name`: `candidates` of one name, and alternatives that may serve it too.
    pub(super) fn new(name: String, candidates: Vec<Arc<Definition>>, alternatives: &[Arc<Definition>]) -> Self {
        let (description, schema) = (merge::description(&candidates), merge::schema(&candidates));
        let mut json = BytesMut::with_capacity(name.len() + description.len() + schema.len() + 96);
        json.put_slice(br#"{"type":"function","function":{"name":"#);
        json.put_slice(Value::from(&*name).to_string().as_bytes());
        json.put_slice(br#","description":"#);
        json.put_slice(Value::from(&*description).to_string().as_bytes());
        json.put_slice(br#","parameters":"#);
        json.put_slice(&schema);
        json.put_slice(b"}}");
        let candidates = candidates.into_iter().chain(alternatives.iter().cloned()).collect();
        Self { name: name.as_str().into(), entry: Arc::new(Entry { name, description, schema, candidates }), json: json.freeze() }
    }
}

// === impl Offer ===

impl Offer {
    /// An offer of `parts`, no two of which have one name.
    pub(super) fn of(parts: Vec<Arc<Part>>) -> Self {
        let mut json = BytesMut::with_capacity(parts.iter().map(|part| part.json.len() + 1).sum::<usize>() + 1);
        json.put_u8(b'[');
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                json.put_u8(b',');
            }
            json.put_slice(&part.json);
        }
        json.put_u8(b']');
        let entries = parts.iter().map(|part| Arc::clone(&part.entry)).collect();
        let by_name = parts.iter().enumerate().map(|(at, part)| (Arc::clone(&part.name), at)).collect();
        Self { entries, shown: Arc::new(Shown { parts, by_name, json: json.freeze() }) }
    }

    /// The tool that the model knows as `name`.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        let at = self.shown.by_name.get(name)?;
        self.entries.get(*at).map(|entry| &**entry)
    }

    /// The tools as a request has them.
    pub fn tools(&self) -> impl Iterator<Item = chat::Tool> {
        self.entries.iter().map(|entry| chat::Tool { name: entry.name.clone(), parameters: entry.schema.clone() })
    }

    /// `client`, a JSON array of tools or nothing, with these behind it. The client's keep their bytes.
    pub fn json(&self, client: &[u8]) -> Bytes {
        let own = serde_json::from_slice::<Option<Vec<&RawValue>>>(client).ok().flatten().unwrap_or_default();
        if own.is_empty() && !self.shown.json.is_empty() {
            return self.shown.json.clone();
        }
        let mut json = BytesMut::with_capacity(client.len() + self.shown.json.len() + 2);
        let parts = own.iter().map(|tool| tool.get().as_bytes()).chain(self.shown.parts.iter().map(|part| &part.json[..]));
        for (at, part) in parts.enumerate() {
            json.put_u8(if at == 0 { b'[' } else { b',' });
            json.put_slice(part);
        }
        if json.is_empty() {
            json.put_u8(b'[');
        }
        json.put_u8(b']');
        json.freeze()
    }

    /// The same in the order of `seen`; what is not among them comes behind, as it came.
    pub(super) fn in_the_order_of(self, seen: &[String]) -> Self {
        if self.has_the_order_of(seen) {
            return self;
        }
        let places: HashMap<&str, usize> = seen.iter().enumerate().rev().map(|(at, name)| (name.as_str(), at)).collect();
        let mut parts = self.shown.parts.clone();
        // Stable: what the conversation has not seen keeps its order.
        parts.sort_by_cached_key(|part| places.get(&*part.name).copied().unwrap_or(usize::MAX));
        Self::of(parts)
    }

    fn has_the_order_of(&self, seen: &[String]) -> bool {
        let mut parts = self.shown.parts.iter().peekable();
        for name in seen {
            if parts.next_if(|part| *part.name == **name).is_none() && self.shown.by_name.contains_key(name.as_str()) {
                return false;
            }
        }
        true
    }

    /// Adds to `seen`, the names that a conversation was offered in that order, those that it is offered now. What is not there now keeps
    /// its place, in case that it comes back; of those the first are forgotten when they are many. Returns whether `seen` is another now.
    pub fn remember_in(&self, seen: &mut Vec<String>) -> bool {
        let length = seen.len();
        let known = seen.iter().filter(|name| self.shown.by_name.contains_key(name.as_str())).count();
        if known < self.entries.len() {
            let before: std::collections::HashSet<&str> = seen.iter().map(String::as_str).collect();
            let new: Vec<String> =
                self.entries.iter().filter(|entry| !before.contains(&*entry.name)).map(|entry| entry.name.clone()).collect();
            seen.extend(new);
        }
        let mut surplus = seen.len().saturating_sub(self.entries.len()).saturating_sub(VANISHED_MAX);
        if surplus > 0 {
            seen.retain(|name| {
                let goes = surplus > 0 && !self.shown.by_name.contains_key(name.as_str());
                surplus -= usize::from(goes);
                !goes
            });
            return true;
        }
        seen.len() != length
    }
}
