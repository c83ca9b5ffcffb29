//! The tools that a model may call in one request, with their schemas ready to check against.
//!
//! Clients send the same tools with every request, so what was compiled is kept by the tools' own bytes.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use bytes::Bytes;
use serde_json::Value;

use super::{respond, validate};
use crate::chat::Request;

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
#[derive(Debug)]
pub struct Offer {
    /// In the order that the model sees.
    pub tools: Vec<Tool>,
    /// Whether the last one is the synthetic `respond`.
    pub responds: bool,
    /// The tools' JSON with `respond` at its end, when it was added.
    pub json: Option<Bytes>,
}

impl Offer {
    /// The tool called `name`.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether `name` is the synthetic tool.
    pub(super) fn is_respond(&self, name: &str) -> bool {
        self.responds && name == respond::NAME
    }

    fn build(request: &Request, responds: bool) -> Self {
        let schema = |raw: &Bytes| serde_json::from_slice(raw).unwrap_or_default();
        let mut tools: Vec<Tool> = request.tools.iter().map(|tool| Tool::new(tool.name.clone(), schema(&tool.parameters))).collect();
        if responds {
            tools.push(respond::tool());
        }
        Self { tools, responds, json: responds.then(|| respond::append(&request.tools_json)) }
    }
}

/// The offers of late, by the bytes of the tools and whether `respond` was added.
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
        let hash = self.hasher.hash_one((tools, responds));
        let known = self.lock().offers.get(&hash).cloned();
        if let Some(entry) = known.filter(|entry| entry.tools == tools && entry.offer.responds == responds) {
            return Arc::clone(&entry.offer);
        }
        let offer = Arc::new(Offer::build(request, responds));
        if tools.len() <= TOOLS_BYTES_MAX {
            // A copy, since a slice of the request body would keep all of it alive.
            self.keep(hash, Entry { tools: Bytes::copy_from_slice(tools), offer: Arc::clone(&offer) });
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
