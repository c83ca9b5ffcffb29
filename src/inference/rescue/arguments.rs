//! Turns what a model wrote as a call's arguments into the JSON text of the arguments.

use std::collections::HashMap;

use serde_json::{Value, value::RawValue};

/// What stands for arguments that were not written.
pub(super) const NONE: &str = "{}";

/// Arguments that are read one by one, in the order first written. A repeated key's last value
/// counts, as in JSON.
#[derive(Debug, Default)]
pub(super) struct Members {
    indices: HashMap<String, usize>,
    values: Vec<(String, String)>,
}

impl Members {
    /// Adds a key with the JSON text of its value.
    pub(super) fn insert(&mut self, key: &str, value: String) {
        match self.indices.get(key).and_then(|&index| self.values.get_mut(index)) {
            Some((_, known)) => *known = value,
            None => {
                self.indices.insert(key.to_owned(), self.values.len());
                self.values.push((key.to_owned(), value));
            }
        }
    }

    /// Whether the key was added.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.indices.contains_key(key)
    }

    /// The object that they make.
    pub(super) fn to_json(&self) -> String {
        let members = self.values.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

/// The arguments as JSON text, from the JSON text that was written.
///
/// A string that encodes an object, once or twice, becomes that object's text; null and an empty
/// string become `{}`. Anything else stays as written, so that validation can say what is wrong.
pub(super) fn from_json(written: &str) -> String {
    if written == "null" {
        return NONE.to_owned();
    }
    let mut text = written.to_owned();
    for _ in 0..ENCODINGS_MAX {
        let Ok(decoded) = serde_json::from_str::<String>(&text) else {
            break;
        };
        text = decoded;
        if text.trim().is_empty() {
            return NONE.to_owned();
        }
        if text.trim_start().starts_with('{') && is_json(&text) {
            return text.trim().to_owned();
        }
    }
    written.to_owned()
}

/// Whether a text is one JSON value.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Models and templates have been seen to encode once too often, not more.
const ENCODINGS_MAX: usize = 2;
