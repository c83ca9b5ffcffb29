//! Changes values in a JSON text and leaves all others as they are written.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};

/// What is to be done about one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edit {
    /// This JSON text takes its place.
    Replace(String),
    /// It becomes the only element of an array.
    Wrap,
    /// It is left out, with its key.
    Remove,
}

impl Edit {
    pub(super) fn replace(json: impl ToString) -> Self {
        Self::Replace(json.to_string())
    }
}

/// What is to be done, by JSON pointer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Edits(BTreeMap<String, Edit>);

impl Edits {
    pub(super) fn one(place: &str, edit: Edit) -> Self {
        Self([(place.to_owned(), edit)].into())
    }

    /// Adds `others`. Fails when they want something else at the same place.
    pub(super) fn merge(&mut self, others: Self) -> Option<()> {
        for (place, edit) in others.0 {
            if self.0.get(&place).is_some_and(|known| *known != edit) {
                return None;
            }
            self.0.insert(place, edit);
        }
        Some(())
    }

    /// What is done, in words.
    pub(super) fn told(&self, root: &Value) -> impl Iterator<Item = String> {
        self.0.iter().filter(|(place, _)| !self.is_inside_an_edit(place)).filter_map(|(place, edit)| {
            let before = excerpt(root.pointer(place)?.to_string());
            Some(match edit {
                Edit::Replace(json) => format!("{place}: {before} to {}", excerpt(json.clone())),
                Edit::Wrap => format!("{place}: {before} to [{before}]"),
                Edit::Remove => format!("{place}: {before} left out"),
            })
        })
    }

    /// `text`, a JSON object, with all of it done; `None` when there is nothing to do.
    pub(super) fn applied_to(&self, text: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.value(serde_json::from_str(text).ok()?, "")
    }

    /// The value that stands at `place`, if it stays.
    fn value(&self, raw: &RawValue, place: &str) -> Option<String> {
        let written = raw.get();
        match self.0.get(place) {
            Some(Edit::Replace(json)) => Some(json.clone()),
            Some(Edit::Wrap) => Some(format!("[{written}]")),
            Some(Edit::Remove) => None,
            None if !self.is_above_an_edit(place) => Some(written.to_owned()),
            None if written.starts_with('{') => {
                let members = serde_json::Deserializer::from_str(written).deserialize_map(Members).ok()?;
                let members = members.into_iter().filter_map(|(key, raw)| {
                    let value = self.value(raw, &format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")))?;
                    Some(format!("{}:{value}", Value::from(key)))
                });
                Some(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
            }
            None => {
                let elements: Vec<&RawValue> = serde_json::from_str(written).ok()?;
                let elements = elements.into_iter().enumerate().filter_map(|(at, raw)| self.value(raw, &format!("{place}/{at}")));
                Some(format!("[{}]", elements.collect::<Vec<_>>().join(",")))
            }
        }
    }

    /// Whether something is done to what `place` is part of; what is to be done there is seen again when that is done.
    fn is_inside_an_edit(&self, place: &str) -> bool {
        place.match_indices('/').filter_map(|(at, _)| place.get(..at)).any(|above| self.0.contains_key(above))
    }

    fn is_above_an_edit(&self, place: &str) -> bool {
        let inside = format!("{place}/");
        self.0.range(inside.clone()..).next().is_some_and(|(edited, _)| edited.starts_with(&inside))
    }
}

/// The members of an object, in order.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

fn excerpt(text: String) -> String {
    match text.get(..text.floor_char_boundary(EXCERPT_BYTES)) {
        Some(beginning) if beginning.len() < text.len() => format!("{beginning} …"),
        _ => text,
    }
}

/// How much of a value is told.
const EXCERPT_BYTES: usize = 60;
