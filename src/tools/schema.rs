//! The schemas of tools' arguments, compiled once and kept by their own bytes.
//!
//! Nothing is ever fetched: a schema that refers to another address cannot be compiled. What cannot be compiled says nothing about any
//! arguments: it accepts none where a server is chosen by them, and finds no fault with any that are about to be sent, which is left to the
//! server.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{definition::Definition, lru::Lru};

/// One schema.
#[derive(Debug)]
pub struct Schema(Option<jsonschema::Validator>);

/// What is wrong with the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// For the model, which made them: with the values that are wrong.
    pub told: String,
    /// For records, which are kept: the same without them.
    pub masked: String,
}

/// The schemas that were used of late.
#[derive(Debug)]
pub struct Schemas(Lru<Bytes, Arc<Schema>>);

/// More than all tools of a large catalog that are ever called.
const KEPT_MAX: usize = 1024;
/// Violations named to the model; more than a few confuse it.
const VIOLATIONS_MAX: usize = 5;
/// How much of one is quoted, which quotes the value in its turn.
const EXCERPT_CHARS: usize = 200;

impl Schemas {
    /// None yet.
    pub fn new() -> Self {
        Self(Lru::new(KEPT_MAX))
    }

    /// The schema of the arguments of `definition`.
    pub fn of(&self, definition: &Definition) -> Arc<Schema> {
        self.0.get(&definition.schema).unwrap_or_else(|| {
            let schema = Arc::new(Schema::compile(&definition.schema));
            self.0.put(definition.schema.clone(), Arc::clone(&schema));
            schema
        })
    }
}

impl Default for Schemas {
    fn default() -> Self {
        Self::new()
    }
}

impl Schema {
    /// The schema that `json` spells. No text at all is a tool that says nothing about its arguments.
    pub fn compile(json: &[u8]) -> Self {
        let json = if json.is_empty() { b"{}" } else { json };
        let mut schema = match serde_json::from_slice(json) {
            Ok(schema @ (Value::Object(_) | Value::Bool(_))) => schema,
            _ => return Self(None),
        };
        drop_empty_enums(&mut schema);
        Self(jsonschema::options().offline().build(&schema).ok())
    }

    /// Whether it is known to accept `arguments`.
    pub fn accepts(&self, arguments: &Value) -> bool {
        self.0.as_ref().is_some_and(|validator| validator.is_valid(arguments))
    }

    /// What is wrong with `arguments`, each with its JSON path; `None` when nothing is, or nobody knows.
    pub fn complaint(&self, arguments: &Value) -> Option<Complaint> {
        let validator = self.0.as_ref().filter(|validator| !validator.is_valid(arguments))?;
        let line = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "at the top" } else { &path };
            let line = |text: String| format!("{place}: {}", excerpt(&text));
            (line(error.to_string()), line(error.masked().to_string()))
        };
        let (told, masked): (Vec<_>, Vec<_>) = validator.iter_errors(arguments).take(VIOLATIONS_MAX).map(line).unzip();
        Some(Complaint { told: told.join("; "), masked: masked.join("; ") })
    }
}

/// An enumeration of nothing is a list that was not filled in. Read literally, no call could ever be made.
fn drop_empty_enums(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                fields.remove("enum");
            }
            fields.values_mut().for_each(drop_empty_enums);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_empty_enums),
        _ => {}
    }
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: Value) -> Schema {
        Schema::compile(schema.to_string().as_bytes())
    }

    #[test]
    fn a_complaint_names_the_place() {
        let schema = compiled(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "m"]}));
        let complaint = schema.complaint(&json!({"n": "x"})).unwrap().told;
        assert!(complaint.contains("/n: ") && complaint.contains("at the top: "), "{complaint}");
        assert!(!schema.accepts(&json!({"n": "x"})));
        assert_eq!((schema.complaint(&json!({"n": 1, "m": 2})), schema.accepts(&json!({"n": 1, "m": 2}))), (None, true));
    }

    #[test]
    fn a_complaint_is_recorded_without_the_values() {
        let schema = compiled(json!({"properties": {
            "n": {"type": "integer"}, "s": {"pattern": "^a"}, "e": {"enum": [1]}, "l": {"items": {"maxLength": 2}}
        }}));
        let Complaint { told, masked } =
            schema.complaint(&json!({"n": "hunter2", "s": "hunter2", "e": "hunter2", "l": ["hunter2"]})).unwrap();
        assert_eq!(told.matches("hunter2").count(), 4, "{told}");
        assert!(!masked.contains("hunter2"), "{masked}");
        assert!(masked.contains("/n: value is not of type \"integer\"") && masked.contains("/l/0: "), "{masked}");
    }

    #[test]
    fn a_complaint_is_bounded() {
        let properties: serde_json::Map<_, _> = (0..50).map(|n| (format!("p{n}"), json!({"type": "integer"}))).collect();
        let arguments: serde_json::Map<_, _> = (0..50).map(|n| (format!("p{n}"), json!("x".repeat(10_000)))).collect();
        let complaint = compiled(json!({"properties": properties})).complaint(&Value::Object(arguments)).unwrap().told;
        assert!(complaint.len() < 2_000, "{}", complaint.len());
    }

    #[test]
    fn what_cannot_be_read_accepts_nothing_and_complains_of_nothing() {
        let broken = [
            json!({"type": "no such type"}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "#/$defs/missing"}),
            json!([]),
            json!(null),
        ];
        for schema in broken {
            let compiled = compiled(schema.clone());
            assert!(!compiled.accepts(&json!({})), "{schema}");
            assert_eq!(compiled.complaint(&json!({})), None, "{schema}");
        }
        assert!(!Schema::compile(b"{").accepts(&json!({})));
    }

    #[test]
    fn no_schema_accepts_everything() {
        assert!(Schema::compile(b"").accepts(&json!({"a": 1})));
        assert!(Schema::compile(b"true").accepts(&json!({"a": 1})));
        assert!(compiled(json!({"properties": {"a": {"enum": []}}})).accepts(&json!({"a": 1})));
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let tree = json!({"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": false});
        let mut value = json!({});
        (0..100).for_each(|_| value = json!({"child": value.clone()}));
        assert!(compiled(tree).accepts(&value));
        // A circle without anything in it either cannot be read or is decided.
        compiled(json!({"$ref": "#"})).accepts(&json!({}));
        compiled(json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})).accepts(&json!({}));
        compiled(json!({"allOf": [{"$ref": "#"}]})).complaint(&json!({}));
    }

    #[test]
    fn a_definition_is_compiled_once() {
        let definition = Definition {
            server: "a".into(),
            name: "t".to_owned(),
            description: String::new(),
            schema: Bytes::from_static(b"{}"),
            annotations: crate::tools::definition::Annotations::default(),
        };
        let schemas = Schemas::new();
        let same_bytes = Definition { schema: Bytes::from(b"{}".to_vec()), ..definition.clone() };
        assert!(Arc::ptr_eq(&schemas.of(&definition), &schemas.of(&same_bytes)));
        let changed = Definition { schema: Bytes::from_static(b"{ }"), ..definition.clone() };
        assert!(!Arc::ptr_eq(&schemas.of(&definition), &schemas.of(&changed)));
    }
}
