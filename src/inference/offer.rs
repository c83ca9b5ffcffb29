//! The tools that a model may call in one request, with their schemas ready to check against.
//!
//! Clients send the same tools with every request, so what was compiled is kept by the tools' own bytes.

use super::{respond, validate};
use crate::chat::Request;
use bytes::Bytes;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

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
    offers: Mutex<HashMap<(Bytes, bool), Arc<Offer>>>,
}

/// Distinct tool lists that are kept. A client uses one or a few; the map is emptied when it is full.
const OFFERS_MAX: usize = 256;

impl Cache {
    /// The offer of `request`, with `respond` if that guardrail is on and fits.
    pub fn offer(&self, request: &Request, respond: bool) -> Arc<Offer> {
        let responds = respond && respond::fits(request);
        // The key is a slice of a request body, which would keep all of it alive: only a copy is stored.
        let key = (request.tools_json.clone(), responds);
        if let Some(offer) = self.lock().get(&key) {
            return Arc::clone(offer);
        }
        let offer = Arc::new(Offer::build(request, responds));
        let mut offers = self.lock();
        if offers.len() >= OFFERS_MAX {
            offers.clear();
        }
        offers.insert((Bytes::copy_from_slice(&key.0), responds), Arc::clone(&offer));
        offer
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Bytes, bool), Arc<Offer>>> {
        // The map is whole after any panic: entries are only inserted or cleared.
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
