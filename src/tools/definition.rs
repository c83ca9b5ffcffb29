//! A tool as its server describes it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::budget::access::Tool;

/// One tool of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The id of the server that has it.
    pub server: Arc<str>,
    /// What the server calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub schema: Bytes,
    /// What the server says about its effects.
    pub annotations: Annotations,
}

/// What a server says about the effects of a tool. It is a promise, not a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something. Says nothing about one that changes nothing.
    pub destructive: bool,
    /// Calling it twice is as good as once.
    pub idempotent: bool,
    /// It deals with who knows whom.
    pub open_world: bool,
}

impl Default for Annotations {
    /// What MCP assumes about a tool of which nothing is said.
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl Annotations {
    /// Whether a call may be made again when it is unclear whether it was made.
    pub fn may_repeat(self) -> bool {
        self.read_only || self.idempotent
    }
}

impl Definition {
    /// The tool as rules see it.
    pub fn for_rules(&self) -> Tool<'_> {
        let Annotations { read_only, destructive, idempotent, open_world } = self.annotations;
        Tool {
            server: &self.server,
            name: &self.name,
            is_read_only: read_only,
            is_destructive: destructive,
            is_idempotent: idempotent,
            is_open_world: open_world,
        }
    }

    /// SHA-256 of what the model is told of it: name, description and schema, 64 hexadecimal digits. The order in which a schema names its
    /// keys tells nothing, and some servers have another every time: it does not count.
    pub fn hash(&self) -> String {
        let sorted = serde_json::from_slice(&self.schema).map(|mut schema: Value| {
            schema.sort_all_objects();
            Bytes::from(schema.to_string())
        });
        let schema = sorted.unwrap_or_else(|_| self.schema.clone());
        let mut hasher = Sha256::new();
        for part in [self.name.as_bytes(), self.description.as_bytes(), &schema] {
            // Its length keeps the parts apart.
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hex(&hasher.finalize())
    }
}

/// The schema that a server gives, as one that every model server takes: that of an object. What it says beyond that stays as it is.
pub fn schema(given: Map<String, Value>) -> Bytes {
    let is_object = |kind: &Value| kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"));
    // The arguments of a call are an object in any case: who asks for anything else has said nothing.
    let given = if given.get("type").is_some_and(|kind| !is_object(kind)) { Map::new() } else { given };
    let mut schema = Map::new();
    if !given.contains_key("type") {
        schema.insert("type".to_owned(), json!("object"));
    }
    let is_described = SHAPES.iter().any(|key| given.contains_key(*key));
    schema.extend(given);
    if !is_described {
        schema.insert("properties".to_owned(), json!({}));
    }
    Value::Object(schema).to_string().into()
}

/// The keys that say what an object holds.
const SHAPES: [&str; 5] = ["properties", "$ref", "allOf", "anyOf", "oneOf"];

/// `bytes` in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(description: &str, schema: &str) -> Definition {
        Definition {
            server: "files".into(),
            name: "read".to_owned(),
            description: description.to_owned(),
            schema: Bytes::copy_from_slice(schema.as_bytes()),
            annotations: Annotations::default(),
        }
    }

    #[test]
    fn the_hash_tells_what_the_model_is_told() {
        let first = definition("Reads.", r#"{"type":"object","properties":{"a":{"type":"string"}}}"#);
        let check = |other: Definition, same: bool| assert_eq!(first.hash() == other.hash(), same, "{other:?}");
        check(definition("Reads.", r#"{"properties":{"a":{"type":"string"}},"type":"object"}"#), true);
        check(Definition { server: "other".into(), ..first.clone() }, true);
        check(definition("Reads!", r#"{"type":"object","properties":{"a":{"type":"string"}}}"#), false);
        check(definition("Reads.", r#"{"type":"object","properties":{"a":{"type":"number"}}}"#), false);
        check(Definition { name: "rea".to_owned(), description: "dReads.".to_owned(), ..first.clone() }, false);
        assert_eq!(first.hash().len(), 64);
        assert_eq!(definition("", "no JSON").hash(), definition("", "no JSON").hash());
    }

    #[test]
    fn a_schema_is_that_of_an_object() {
        let check = |given: Value, expected: &str| {
            let Value::Object(given) = given else { panic!("no object") };
            assert_eq!(schema(given), expected);
        };
        check(json!({}), r#"{"type":"object","properties":{}}"#);
        check(json!({"type": "object"}), r#"{"type":"object","properties":{}}"#);
        check(json!({"type": "string"}), r#"{"type":"object","properties":{}}"#);
        check(json!({"properties": {"a": true}}), r#"{"type":"object","properties":{"a":true}}"#);
        check(json!({"type": ["object", "null"], "x": 1}), r#"{"type":["object","null"],"x":1,"properties":{}}"#);
        check(json!({"$ref": "#/$defs/a", "$defs": {"a": {}}}), r##"{"type":"object","$ref":"#/$defs/a","$defs":{"a":{}}}"##);
        let odd = json!({"$schema": "s", "type": "object", "x-unknown": [1.5], "properties": {"b": {}, "a": {}}});
        check(odd.clone(), &odd.to_string());
    }
}
