//! All known tools as one list, and what of it one request is offered.
//!
//! A snapshot is made whenever a server's list changed; a request takes one and keeps it to its end.

mod name;

use std::{collections::HashSet, fmt::Write, sync::Arc};

use bytes::Bytes;
use serde_json::value::RawValue;

pub use self::name::qualified;
use super::{
    config::{Named, Policy},
    definition::Definition,
};
use crate::chat::{self, Servers};

/// The tools of all servers at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Every tool that may be offered, with who decides about it; the first server's first.
    tools: Vec<(Arc<Definition>, Policy)>,
    overlaps: Vec<Vec<Named>>,
}

/// What one request is offered, in the order that the model sees.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The tools.
    pub entries: Vec<Entry>,
}

/// One tool that the model sees, and who may serve a call of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name for the model.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments: what any of its candidates of this name accepts.
    pub schema: Bytes,
    /// Who may serve it, the preferred ones first. Never empty.
    pub candidates: Vec<Arc<Definition>>,
}

/// What a request brings along.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Whose tools it may use.
    pub servers: &'a Servers,
    /// The names of its own tools.
    pub taken: &'a [chat::Tool],
    /// What its conversation was offered before, in that order.
    pub seen: &'a [String],
}

impl Snapshot {
    /// A snapshot of `tools`, whose servers come in the order in which they are preferred.
    pub fn new(tools: Vec<(Arc<Definition>, Policy)>, overlaps: Vec<Vec<Named>>) -> Self {
        Self { tools, overlaps }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Every tool, with who decides about it.
    pub fn tools(&self) -> &[(Arc<Definition>, Policy)] {
        &self.tools
    }

    /// What `ask` is offered: one entry a name, in the order of the servers unless the conversation had another.
    pub fn offer(&self, ask: Ask<'_>) -> Offer {
        let may_use = |definition: &&(Arc<Definition>, Policy)| match ask.servers {
            Servers::Attached => definition.1 != Policy::Deny,
            Servers::Off => false,
            Servers::Only(ids) => definition.1 != Policy::Deny && ids.iter().any(|id| **id == *definition.0.server),
        };
        let usable: Vec<&Arc<Definition>> = self.tools.iter().filter(may_use).map(|(definition, _)| definition).collect();
        let mut entries: Vec<Entry> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        for definition in &usable {
            if entries.iter().any(|entry| entry.candidates.iter().any(|known| known.name == definition.name)) {
                continue;
            }
            let mut shown = name::legal(&definition.name);
            if ask.taken.iter().any(|tool| tool.name == shown) || names.contains(&shown) {
                shown = qualified(&definition.server, &definition.name);
            }
            names.insert(shown.clone());
            let candidates = usable.iter().filter(|other| other.name == definition.name).map(|other| Arc::clone(other)).collect();
            entries.push(Entry { name: shown, description: definition.description.clone(), schema: definition.schema.clone(), candidates });
        }
        for entry in &mut entries {
            self.add_overlapping(entry, &usable);
        }
        // Stable: what the conversation has not seen keeps its order, behind what it has.
        entries.sort_by_key(|entry| ask.seen.iter().position(|seen| *seen == entry.name).unwrap_or(usize::MAX));
        Offer { entries }
    }

    /// The tools that the configuration calls alternatives of `entry`.
    fn add_overlapping(&self, entry: &mut Entry, usable: &[&Arc<Definition>]) {
        let is = |named: &Named, definition: &Definition| named.server == *definition.server && named.tool == definition.name;
        let groups = self.overlaps.iter().filter(|group| group.iter().any(|named| entry.candidates.iter().any(|known| is(named, known))));
        let others: Vec<_> = groups.flatten().filter_map(|named| usable.iter().find(|definition| is(named, definition))).collect();
        for other in others {
            if !entry.candidates.iter().any(|known| Arc::ptr_eq(known, other)) {
                entry.candidates.push(Arc::clone(other));
            }
        }
    }
}

impl Offer {
    /// The tool that the model knows as `name`.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The tools as a request has them.
    pub fn tools(&self) -> impl Iterator<Item = chat::Tool> {
        self.entries.iter().map(|entry| chat::Tool { name: entry.name.clone(), parameters: entry.schema.clone() })
    }

    /// `client`, a JSON array of tools or nothing, with these behind it. The client's keep their bytes.
    pub fn json(&self, client: &[u8]) -> Bytes {
        let own = serde_json::from_slice::<Option<Vec<&RawValue>>>(client).ok().flatten().unwrap_or_default();
        let mut json = String::from("[");
        let part = |json: &mut String| {
            if json.len() > 1 {
                json.push(',');
            }
        };
        for tool in own {
            part(&mut json);
            json.push_str(tool.get());
        }
        for entry in &self.entries {
            part(&mut json);
            let (name, description) = (serde_json::Value::from(&*entry.name), serde_json::Value::from(&*entry.description));
            let schema = String::from_utf8_lossy(&entry.schema);
            // Writing to a string cannot fail.
            let _ = write!(json, r#"{{"type":"function","function":{{"name":{name},"description":{description},"parameters":{schema}}}}}"#);
        }
        json.push(']');
        json.into()
    }
}
