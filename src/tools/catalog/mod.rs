//! All known tools as one list, and what of it one request is offered.
//!
//! A snapshot is made whenever a server's list changed; a request takes one and keeps it to its end. Names, merged schemas and their JSON
//! are made with the snapshot: an offer that nothing is special about costs nothing, and one that is special puts ready parts together.

pub mod cached;
pub mod lists;
mod merge;
mod name;
mod offer;
pub mod pins;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

pub use self::name::qualified;
pub use self::offer::Offer;
use self::offer::Part;
use super::{
    config::{Named, Policy},
    definition::Definition,
};
use crate::{
    budget::access::Access,
    chat::{self, Servers},
};

/// The tools of all servers at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Every tool, the first server's first.
    tools: Vec<Listed>,
    /// What the model knows as one, in the order of the tools.
    groups: Vec<Group>,
    /// Which of them has a name.
    names: HashMap<String, usize>,
    /// What is offered to who has no tools of its own and may use all.
    whole: Offer,
    /// What is offered in its place to those who may not use all, so far as they have asked. There are no more than there are keys.
    narrowed: Mutex<Vec<(Access, Offer)>>,
    /// Tools that the configuration calls alternatives of each other.
    overlaps: Vec<Vec<Named>>,
}

/// A tool in the catalog.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What its server says of it.
    pub definition: Arc<Definition>,
    /// Who decides whether it is run.
    pub policy: Policy,
    /// What its definition hashes to.
    pub hash: Arc<str>,
    /// Whether that is not what it was when it was first seen, or last accepted.
    pub changed: bool,
    /// Whether the model does not see it for that.
    pub withheld: bool,
}

/// The tools of one name.
#[derive(Debug)]
struct Group {
    /// Their name for the model, where the client has no tool of that name.
    name: String,
    /// All of them.
    members: Vec<usize>,
    /// Those that may be offered, the preferred ones first.
    candidates: Vec<Arc<Definition>>,
    /// Those of other names that the configuration calls alternatives of them.
    alternatives: Vec<Arc<Definition>>,
    /// How it is shown; not at all where there are no candidates.
    part: Option<Arc<Part>>,
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
    /// Which of them whoever asks may use at all.
    pub access: &'a Access,
    /// The names of its own tools.
    pub taken: &'a [chat::Tool],
    /// What its conversation was offered before, in that order.
    pub seen: &'a [String],
}

/// One entry of the catalog for people and programs: tools that are not offered too.
#[derive(Debug)]
pub struct Row<'a> {
    /// The name for the model.
    pub name: &'a str,
    /// What the model is told of it; `None` where it is told nothing.
    pub shown: Option<&'a Entry>,
    /// The tools of that name, the preferred ones first. Never empty.
    pub tools: Vec<&'a Listed>,
}

// === impl Listed ===

impl Listed {
    fn may_be_offered(&self) -> bool {
        self.policy != Policy::Deny && !self.withheld
    }
}

impl From<(Arc<Definition>, Policy)> for Listed {
    /// A tool as it is when it is first seen.
    fn from((definition, policy): (Arc<Definition>, Policy)) -> Self {
        let hash = definition.hash().into();
        Self { definition, policy, hash, changed: false, withheld: false }
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// A snapshot of `tools`, whose servers come in the order in which they are preferred. Of two that a server gives one name the first
    /// counts.
    pub fn new(tools: Vec<impl Into<Listed>>, overlaps: Vec<Vec<Named>>) -> Self {
        let mut known = HashSet::new();
        let tools = tools.into_iter().map(Into::into);
        let tools: Vec<Listed> =
            tools.filter(|tool: &Listed| known.insert((Arc::clone(&tool.definition.server), tool.definition.name.clone()))).collect();
        let mut groups = groups(&tools);
        for group in &mut groups {
            let usable = group.members.iter().filter_map(|at| tools.get(*at)).filter(|tool| tool.may_be_offered());
            group.candidates = usable.map(|tool| Arc::clone(&tool.definition)).collect();
        }
        add_alternatives(&mut groups, &tools, &overlaps);
        for group in groups.iter_mut().filter(|group| !group.candidates.is_empty()) {
            group.part = Some(Arc::new(Part::new(group.name.clone(), group.candidates.clone(), &group.alternatives)));
        }
        let whole = Offer::of(groups.iter().filter_map(|group| group.part.clone()).collect());
        let names = groups.iter().enumerate().map(|(at, group)| (group.name.clone(), at)).collect();
        Self { tools, groups, names, whole, narrowed: Mutex::default(), overlaps }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Every tool.
    pub fn tools(&self) -> &[Listed] {
        &self.tools
    }

    /// Every tool by its name for the model.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.groups.iter().map(|group| Row {
            name: &group.name,
            shown: group.part.as_ref().map(|part| part.entry.as_ref()),
            tools: group.members.iter().filter_map(|at| self.tools.get(*at)).collect(),
        })
    }

    /// What `ask` is offered: one entry a name, in the order of the servers unless the conversation had another.
    pub fn offer(&self, ask: Ask<'_>) -> Offer {
        let clashes: HashSet<usize> = ask.taken.iter().filter_map(|tool| self.names.get(&tool.name).copied()).collect();
        let offer = match ask.servers {
            Servers::Off => return Offer::default(),
            Servers::Attached if clashes.is_empty() => self.usual(ask),
            Servers::Attached => self.special(ask, &clashes, |_| true),
            Servers::Only(ids) => self.special(ask, &clashes, |definition| ids.iter().any(|id| **id == *definition.server)),
        };
        offer.in_the_order_of(ask.seen)
    }

    /// What is offered to those who have no tools of their own: ready, and shared by all who may use the same.
    fn usual(&self, ask: Ask<'_>) -> Offer {
        if ask.access.is_open() {
            return self.whole.clone();
        }
        // Whole after any panic: an offer is there or is not.
        let mut narrowed = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, offer)) = narrowed.iter().find(|(access, _)| access == ask.access) {
            return offer.clone();
        }
        let offer = self.special(ask, &HashSet::new(), |_| true);
        narrowed.push((ask.access.clone(), offer.clone()));
        offer
    }

    /// What `is_wanted` leaves of what may be used, with other names for those that clash with the client's own.
    fn special(&self, ask: Ask<'_>, clashes: &HashSet<usize>, is_wanted: impl Fn(&Definition) -> bool) -> Offer {
        let may_use = |definition: &Definition| is_wanted(definition) && ask.access.allows(&definition.for_rules());
        let mut given: HashSet<String> = HashSet::new();
        let mut parts = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            let Some(part) = &group.part else { continue };
            let all = || group.candidates.iter().chain(&group.alternatives);
            if !clashes.contains(&at) && all().all(|definition| may_use(definition)) {
                parts.push(Arc::clone(part));
                continue;
            }
            let usable = |definitions: &[Arc<Definition>]| -> Vec<Arc<Definition>> {
                definitions.iter().filter(|definition| may_use(definition)).cloned().collect()
            };
            let candidates = usable(&group.candidates);
            let Some(first) = candidates.first() else { continue };
            let mut name = group.name.clone();
            if clashes.contains(&at) {
                let is_taken =
                    |name: &str| self.names.contains_key(name) || given.contains(name) || ask.taken.iter().any(|tool| tool.name == name);
                name = name::free(qualified(&first.server, &first.name), is_taken);
                given.insert(name.clone());
            }
            let mut alternatives = usable(&group.alternatives);
            // What is left may be no alternative of what is left.
            alternatives.retain(|other| {
                let mut around = self.overlaps.iter().filter(|overlap| has(overlap, other));
                around.any(|overlap| candidates.iter().any(|candidate| has(overlap, candidate)))
            });
            parts.push(Arc::new(Part::new(name, candidates, &alternatives)));
        }
        Offer::of(parts)
    }
}

/// The tools by their names, which become names that the model may see: legal, and no two the same.
fn groups(tools: &[Listed]) -> Vec<Group> {
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (at, tool) in tools.iter().enumerate() {
        let group = *by_name.entry(&tool.definition.name).or_insert(members.len());
        match members.get_mut(group) {
            Some(group) => group.push(at),
            None => members.push(vec![at]),
        }
    }
    // What a tool is called where its own name is taken, or where the client is asked about it, is no other's name either.
    let full_names: HashSet<String> = tools.iter().map(|tool| qualified(&tool.definition.server, &tool.definition.name)).collect();
    let mut taken: HashSet<String> = name::RESERVED.iter().map(|name| (*name).to_owned()).collect();
    let mut groups = Vec::new();
    for members in members {
        let Some(first) = members.first().and_then(|at| tools.get(*at)) else { continue };
        let definition = &first.definition;
        let mut name = name::legal(&definition.name);
        if taken.contains(&name) || full_names.contains(&name) {
            name = name::free(qualified(&definition.server, &definition.name), |name| taken.contains(name));
        }
        taken.insert(name.clone());
        groups.push(Group { name, members, candidates: Vec::new(), alternatives: Vec::new(), part: None });
    }
    groups
}

/// Gives each group the tools of other names that the configuration calls alternatives of its own.
fn add_alternatives(groups: &mut [Group], tools: &[Listed], overlaps: &[Vec<Named>]) {
    let usable: HashMap<(&str, &str), &Arc<Definition>> = match overlaps {
        [] => return,
        _ => tools.iter().filter(|tool| tool.may_be_offered()).map(|tool| (key(&tool.definition), &tool.definition)).collect(),
    };
    for group in groups {
        for overlap in overlaps {
            if !group.candidates.iter().any(|candidate| has(overlap, candidate)) {
                continue;
            }
            for other in overlap.iter().filter_map(|named| usable.get(&(&*named.server, &*named.tool))) {
                let is_known = |known: &Arc<Definition>| Arc::ptr_eq(known, other);
                if !group.candidates.iter().any(is_known) && !group.alternatives.iter().any(is_known) {
                    group.alternatives.push(Arc::clone(other));
                }
            }
        }
    }
}

/// Whether `overlap` names `definition`.
fn has(overlap: &[Named], definition: &Definition) -> bool {
    overlap.iter().any(|named| (&*named.server, &*named.tool) == key(definition))
}

fn key(definition: &Definition) -> (&str, &str) {
    (&definition.server, &definition.name)
}
