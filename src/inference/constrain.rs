//! The form of a reply that is forced: a JSON schema that accepts one call of one of the offered tools.
//!
//! Servers turn a schema into a grammar and refuse, or build wrongly, what their grammars cannot say. A schema is reduced here to what
//! llama-server's converter (build 11434) was seen to build right; what the model writes is checked against the original in any case.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::offer::Tool;
use crate::chat::Request;

/// The longest text or list that a grammar is asked to count: a rule is written out for each.
const COUNT_MAX: u64 = 256;
/// How deep references are followed. A schema that goes deeper accepts anything there.
const DEPTH_MAX: usize = 12;
/// How many schemas are written out for one tool, since each reference is.
const NODES_MAX: usize = 2000;

/// The fields by which clients say what form the reply has: OpenAI's, llama-server's and vLLM's.
const OWN_FORMS: [&str; 7] =
    ["response_format", "grammar", "json_schema", "structured_outputs", "guided_json", "guided_regex", "guided_grammar"];

/// Whether the client itself says what form the reply has.
pub(super) fn has_own_form(request: &Request) -> bool {
    let kind = |form: &[u8]| serde_json::from_slice::<Value>(form).ok()?.get("type")?.as_str().map(str::to_owned);
    let sets = |form: &[u8]| form != b"null" && kind(form).as_deref() != Some("text");
    request.fields.iter().any(|(name, form)| OWN_FORMS.contains(&name.as_str()) && sets(form))
}

/// The schema of one call of one of `tools`.
pub(super) fn form<'t>(tools: impl Iterator<Item = &'t Tool>) -> Value {
    let calls: Vec<Value> = tools
        .map(|tool| {
            json!({
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": arguments(&tool.parameters)},
                "required": ["name", "arguments"],
                "additionalProperties": false
            })
        })
        .collect();
    json!({ "anyOf": calls })
}

/// The schema of a tool's arguments, which are always an object.
pub(super) fn arguments(parameters: &Value) -> Value {
    let mut reduced = match reduced(parameters, &Root { schema: parameters, nodes: Cell::new(NODES_MAX) }, DEPTH_MAX) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    reduced.insert("type".to_owned(), "object".into());
    Value::Object(reduced)
}

/// What in `schema` is left out of [`arguments`], each with its path.
pub(super) fn left_out(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", schema, &arguments(schema), &mut found);
    found
}

fn compare(path: &str, original: &Value, reduced: &Value, found: &mut Vec<String>) {
    match (original, reduced) {
        (Value::Object(original), Value::Object(reduced)) => {
            for (key, value) in original.iter().filter(|(key, _)| !NOTES.contains(&key.as_str())) {
                match reduced.get(key) {
                    Some(kept) => compare(&format!("{path}/{key}"), value, kept, found),
                    None => found.push(format!("{path}/{key}")),
                }
            }
        }
        (original, reduced) if original != reduced => found.push(path.to_owned()),
        _ => {}
    }
}

/// What references lead to, and how many more schemas are looked at.
struct Root<'s> {
    schema: &'s Value,
    nodes: Cell<usize>,
}

fn reduced(schema: &Value, root: &Root<'_>, depth: usize) -> Value {
    let nodes = root.nodes.get();
    let Value::Object(schema) = schema else { return json!({}) };
    if depth == 0 || nodes == 0 {
        return json!({});
    }
    root.nodes.set(nodes - 1);
    if schema.contains_key("$ref") || schema.contains_key("allOf") {
        return reduced(&Value::Object(merged(schema, root)), root, depth - 1);
    }
    let down = |schema: &Value| reduced(schema, root, depth - 1);
    let list = |schemas: &Value| Value::Array(schemas.as_array().into_iter().flatten().map(down).collect());
    let has_own_shape = schema.contains_key("properties") || schema.contains_key("enum") || schema.contains_key("const");
    let mut kept = Map::new();
    for (key, value) in schema {
        let value = match key.as_str() {
            "type" => types(value),
            "enum" => Some(value.clone()).filter(|value| value.as_array().is_some_and(|values| !values.is_empty())),
            "const" => Some(value.clone()),
            "required" => Some(value.clone()).filter(Value::is_array),
            "properties" => value.as_object().map(|members| members.iter().map(|(name, member)| (name.clone(), down(member))).collect()),
            "items" => Some(value).filter(|value| value.is_object()).map(down),
            "additionalProperties" if value.is_boolean() => Some(value.clone()),
            "additionalProperties" => Some(down(value)),
            // Beside a shape of its own a grammar takes the one and forgets the other.
            "anyOf" | "oneOf" if has_own_shape || value.as_array().is_none_or(Vec::is_empty) => None,
            "anyOf" | "oneOf" => {
                kept.insert("anyOf".to_owned(), list(value));
                None
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" => {
                Some(value.clone()).filter(|value| value.as_u64().is_some_and(|it| it <= COUNT_MAX))
            }
            "minimum" | "maximum" => {
                Some(value.clone()).filter(|value| value.is_i64() && schema.get("type").is_some_and(|it| it == "integer"))
            }
            "format" => Some(value.clone()).filter(|value| value.as_str().is_some_and(|format| FORMATS.contains(&format))),
            _ => None,
        };
        kept.extend(value.map(|value| (key.clone(), value)));
    }
    require_only_what_there_is(&mut kept);
    Value::Object(kept)
}

/// The types that exist.
fn types(value: &Value) -> Option<Value> {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(types) => {
            let known: Vec<Value> = types.iter().filter(|value| is_type(value)).cloned().collect();
            (!known.is_empty()).then_some(Value::Array(known))
        }
        one => is_type(one).then(|| one.clone()),
    }
}

/// `schema`, what it refers to and the parts of its `allOf` as one: properties and required names together, of all else the first.
fn merged(schema: &Map<String, Value>, root: &Root<'_>) -> Map<String, Value> {
    let mut whole = schema.clone();
    whole.shift_remove("$ref");
    whole.shift_remove("allOf");
    let target = |schema: &Map<String, Value>| {
        let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| root.schema.pointer(pointer)).and_then(Value::as_object).cloned()
    };
    let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let parts = parts.map(|part| target(part).unwrap_or_else(|| part.clone()));
    for (key, value) in target(schema).into_iter().chain(parts).flatten() {
        match (whole.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
            (Some(Value::Array(known)), Value::Array(more)) if key == "required" => known.extend(more),
            (Some(_), _) => {}
            (None, value) => drop(whole.insert(key, value)),
        }
    }
    whole
}

fn require_only_what_there_is(schema: &mut Map<String, Value>) {
    let names: Vec<String> = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| names.iter().any(|known| known == name)));
    }
}

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// The formats that llama-server knows.
const FORMATS: [&str; 4] = ["date", "time", "date-time", "uuid"];

/// What a schema says to people; it constrains nothing.
const NOTES: [&str; 7] = ["description", "title", "default", "examples", "$schema", "$id", "$comment"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_reduced_to_what_a_grammar_can_say() {
        let whole = |schema: &Value| reduced(schema, &Root { schema, nodes: Cell::new(NODES_MAX) }, DEPTH_MAX);
        let check = |schema: Value, expected: Value| assert_eq!(whole(&schema), expected, "{schema}");
        check(json!({"type": "string", "pattern": "[A-Z]+", "maxLength": 100_000}), json!({"type": "string"}));
        check(json!({"type": "string", "minLength": 2, "format": "email"}), json!({"type": "string", "minLength": 2}));
        check(json!({"type": "array", "items": {"type": "file"}, "minItems": 5000}), json!({"type": "array", "items": {}}));
        check(json!({"type": ["string", "thing", "null"]}), json!({"type": ["string", "null"]}));
        check(json!({"enum": []}), json!({}));
        check(json!(true), json!({}));
        check(json!({"$ref": "https://example.com/x"}), json!({}));
        check(json!({"oneOf": [{"type": "string"}, true]}), json!({"anyOf": [{"type": "string"}, {}]}));
        check(json!({"properties": {"a": {}}, "oneOf": [{"required": ["a"]}]}), json!({"properties": {"a": {}}}));
        check(json!({"type": "number", "minimum": 1}), json!({"type": "number"}));
        check(json!({"type": "integer", "minimum": 1}), json!({"type": "integer", "minimum": 1}));
        check(json!({"properties": {"a": {}}, "required": ["a", "b"]}), json!({"properties": {"a": {}}, "required": ["a"]}));
        check(
            json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}),
            json!({"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        );
        check(
            json!({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {}}}], "$defs": {"a": {"properties": {"a": {}}}}}),
            json!({"properties": {"a": {}, "b": {}}}),
        );
        let circle = json!({"properties": {"n": {"$ref": "#"}}});
        assert!(whole(&circle).pointer("/properties/n/properties/n").is_some());
        let members: Map<String, Value> = (0..20).map(|n| (format!("m{n}"), json!({"$ref": "#"}))).collect();
        let wide = json!({"type": "object", "properties": members});
        assert!(whole(&wide).to_string().len() < 1 << 18);
    }

    #[test]
    fn what_is_left_out_is_named() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "x", "description": "d"}}});
        assert_eq!(left_out(&schema), ["/properties/a/pattern"]);
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(arguments(&Value::Null), json!({"type": "object"}));
        assert_eq!(arguments(&json!({"anyOf": [{"properties": {}}]})), json!({"anyOf": [{"properties": {}}], "type": "object"}));
    }
}
