//! The tools that a model may call in one request, with their schemas ready to check against.
//!
//! Clients send the same tools with every request, so what was compiled is kept by the tools' own bytes.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use super::{constrain, respond, validate};
use crate::chat::{Request, ToolChoice};

/// A tool that may be called.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its JSON schema, null when it has none.
    pub parameters: Value,
    /// Compiled when the tool is first called: most tools of a long list never are.
    schema: OnceLock<validate::Schema>,
}

impl Tool {
    /// A tool with the JSON schema `parameters`.
    pub fn new(name: String, parameters: Value) -> Self {
        Self { name, parameters, schema: OnceLock::new() }
    }

    pub(super) fn schema(&self) -> &validate::Schema {
        self.schema.get_or_init(|| validate::Schema::compile(&self.parameters))
    }
}

/// The offer of one request.
#[derive(Debug, Default)]
pub struct Offer {
    /// In the order that the model sees.
    pub tools: Vec<Tool>,
    /// Whether the last one is the synthetic `respond`.
    pub responds: bool,
    /// The tools' JSON where it is not the client's: with `respond` at its end, or only the tool that the client wants called.
    pub json: Option<Bytes>,
    /// The schema of a reply that is one call of one of the tools.
    form: OnceLock<Bytes>,
    /// What the backend was seen to refuse.
    refused: Refused,
}

/// What a backend refused about an offer, remembered as long as the offer is.
#[derive(Debug, Default)]
struct Refused {
    /// The schemas of the tools as they are.
    schemas: AtomicBool,
    /// A forced form.
    form: AtomicBool,
}

impl Offer {
    /// An offer of `tools` and nothing else.
    pub fn of(tools: Vec<Tool>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// The tool called `name`.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether `name` is the synthetic tool.
    pub(super) fn is_respond(&self, name: &str) -> bool {
        self.responds && name == respond::NAME
    }

    /// The JSON schema of a reply that is one call of one of the tools, or of those in `only` and `respond`. `None` when the backend is
    /// known to refuse it.
    pub(super) fn form(&self, only: Option<&str>) -> Option<Bytes> {
        if self.refused.form.load(Ordering::Relaxed) {
            return None;
        }
        let bytes = |tools: &mut dyn Iterator<Item = &Tool>| Bytes::from(constrain::form(tools).to_string());
        let all = || self.form.get_or_init(|| bytes(&mut self.tools.iter())).clone();
        let Some(only) = only.filter(|only| self.find(only).is_some()) else { return Some(all()) };
        Some(bytes(&mut self.tools.iter().filter(|tool| tool.name == only || self.is_respond(&tool.name))))
    }

    /// Whether the backend is known to refuse the schemas of the tools.
    pub(super) fn refuses_schemas(&self) -> bool {
        self.refused.schemas.load(Ordering::Relaxed)
    }

    /// Remembers that the backend answered only when no form was forced.
    pub(super) fn note_form_refused(&self) {
        self.refused.form.store(true, Ordering::Relaxed);
    }

    /// Remembers that the backend answered only when the schemas of the tools were reduced.
    pub(super) fn note_schemas_refused(&self) {
        self.refused.schemas.store(true, Ordering::Relaxed);
    }

    /// What of the tools' schemas a backend is not shown when they are reduced, by tool and path.
    pub(super) fn left_out(&self) -> Vec<String> {
        let left_out =
            |tool: &Tool| constrain::left_out(&tool.parameters).into_iter().map(|path| format!("{} {path}", tool.name)).collect::<Vec<_>>();
        self.tools.iter().flat_map(left_out).collect()
    }

    /// `tools`, a JSON array as a client writes it, with schemas that a grammar can say.
    pub(super) fn reduced(tools: &[u8]) -> Option<Bytes> {
        let mut tools: Vec<Value> = serde_json::from_slice(tools).ok()?;
        for tool in &mut tools {
            let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) else { continue };
            let parameters = constrain::arguments(function.get("parameters").unwrap_or(&Value::Null));
            function.insert("parameters".to_owned(), parameters);
        }
        Some(Value::Array(tools).to_string().into())
    }

    fn build(request: &Request, responds: bool) -> Self {
        let schema = |raw: &Bytes| serde_json::from_slice(raw).unwrap_or_default();
        let mut tools: Vec<Tool> = request.tools.iter().map(|tool| Tool::new(tool.name.clone(), schema(&tool.parameters))).collect();
        let mut json = None;
        if responds {
            tools.push(respond::tool());
            json = Some(respond::append(&request.tools_json));
        } else if let ToolChoice::Named(name) = &request.tool_choice {
            // Many servers ignore which tool is wanted; none calls one that it does not see.
            tools.retain(|tool| tool.name == *name);
            json = only(name, &request.tools_json);
        }
        Self { tools, responds, json, ..Self::default() }
    }
}

/// The JSON array `tools` with no function but `name`, which keeps its bytes.
fn only(name: &str, tools: &[u8]) -> Option<Bytes> {
    let tools: Vec<&RawValue> = serde_json::from_slice(tools).ok()?;
    let is_it = |tool: &&&RawValue| {
        let tool: Value = serde_json::from_str(tool.get()).unwrap_or_default();
        tool.pointer("/function/name").is_some_and(|found| found == name)
    };
    tools.iter().find(is_it).map(|tool| Bytes::from(format!("[{}]", tool.get())))
}

/// The offers of late, by the bytes of the tools, whether `respond` was added and which tool is wanted.
#[derive(Debug, Default)]
pub struct Cache {
    hasher: RandomState,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    offers: HashMap<u64, Arc<Entry>>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    tools: Bytes,
    named: Option<String>,
    offer: Arc<Offer>,
}

/// What the keys may hold together. A client uses one list or a few, of some 10 KB; the map is emptied when it is full.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// A longer list is compiled anew each time.
const TOOLS_BYTES_MAX: usize = KEPT_BYTES_MAX / 8;

impl Cache {
    /// The offer of `request`, with `respond` if that guardrail is on and fits.
    pub fn offer(&self, request: &Request, respond: bool) -> Arc<Offer> {
        let responds = respond && respond::fits(request);
        let tools = &request.tools_json;
        let named = match &request.tool_choice {
            ToolChoice::Named(name) => Some(name),
            _ => None,
        };
        let hash = self.hasher.hash_one((tools, responds, named));
        let known = self.lock().offers.get(&hash).cloned();
        let is_it = |entry: &Arc<Entry>| entry.tools == tools && entry.offer.responds == responds && entry.named.as_ref() == named;
        if let Some(entry) = known.filter(is_it) {
            return Arc::clone(&entry.offer);
        }
        let offer = Arc::new(Offer::build(request, responds));
        if tools.len() <= TOOLS_BYTES_MAX {
            // A copy, since a slice of the request body would keep all of it alive.
            self.keep(hash, Entry { tools: Bytes::copy_from_slice(tools), named: named.cloned(), offer: Arc::clone(&offer) });
        }
        offer
    }

    fn keep(&self, hash: u64, entry: Entry) {
        let mut kept = self.lock();
        let full = kept.bytes + entry.tools.len() > KEPT_BYTES_MAX;
        // Dropped after the lock is given up.
        let _dropped = full.then(|| std::mem::take(&mut *kept));
        kept.bytes += entry.tools.len();
        kept.offers.insert(hash, Arc::new(entry));
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // The map is whole after any panic: entries are only inserted or cleared.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(tools: &str) -> Request {
        Request { tools_json: Bytes::copy_from_slice(tools.as_bytes()), ..Request::default() }
    }

    #[test]
    fn the_same_tools_are_compiled_once() {
        let cache = Cache::default();
        let first = cache.offer(&request("[1]"), true);
        assert!(Arc::ptr_eq(&first, &cache.offer(&request("[1]"), true)));
        assert!(!Arc::ptr_eq(&first, &cache.offer(&request("[1]"), false)));
        assert!(!Arc::ptr_eq(&first, &cache.offer(&request("[2]"), true)));
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let cache = Cache::default();
        for n in 0..40 {
            cache.offer(&request(&format!("[{n}, \"{}\"]", "x".repeat(TOOLS_BYTES_MAX / 2))), true);
            assert!(cache.lock().bytes <= KEPT_BYTES_MAX);
        }
        let long = request(&format!("[\"{}\"]", "x".repeat(TOOLS_BYTES_MAX)));
        assert!(!Arc::ptr_eq(&cache.offer(&long, true), &cache.offer(&long, true)));
    }
}
