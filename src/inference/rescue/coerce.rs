//! Gives a value that was written as raw text the type that the tool's schema names for it.

use serde_json::Value;

use super::python::{self, Literal};
use crate::inference::{offer::Tool, repair};

/// The JSON text of the value of `key`: the value's own text where it is JSON of a type that the
/// schema names; otherwise a string.
pub(super) fn value(text: &str, key: &str, tool: Option<&Tool>) -> String {
    let types = tool.map(|tool| types(&tool.parameters, key)).unwrap_or_default();
    let spelled = repair::literal(text.trim()).unwrap_or(text.trim());
    // Where text is allowed, only a null that the schema also allows is not text.
    let is_text = types.is_empty() || (types.contains(&"string") && spelled != "null");
    let is_typed = |json: &str| serde_json::from_str(json).is_ok_and(|value| types.iter().any(|it| is_of(&value, it)));
    if is_text {
        return Value::from(text).to_string();
    }
    if is_typed(spelled) {
        return spelled.to_owned();
    }
    // Lists and objects, too, are written as Python's.
    let python = spelled.starts_with(['[', '{']).then(|| python::to_json(spelled)).flatten();
    python.filter(|json| is_typed(json)).unwrap_or_else(|| Value::from(text).to_string())
}

/// The JSON text of a value that was written as a literal. A string may still stand for another
/// type, and a number for text, where the schema names only that.
pub(super) fn literal(literal: &Literal, key: &str, tool: Option<&Tool>) -> String {
    let json = match literal {
        Literal::Text(text) => return value(text, key, tool),
        Literal::Json(json) => json,
    };
    let is_number = json.starts_with(|char: char| char == '-' || char.is_ascii_digit());
    let types = tool.map(|tool| types(&tool.parameters, key)).unwrap_or_default();
    let is_meant_as_text = is_number && types.contains(&"string") && !types.iter().any(|it| matches!(*it, "number" | "integer"));
    if is_meant_as_text { Value::from(json.as_str()).to_string() } else { json.clone() }
}

/// The types that a tool's schema names for a parameter.
fn types<'s>(root: &'s Value, key: &str) -> Vec<&'s str> {
    let schema = root.get("properties").and_then(|properties| properties.get(key));
    let Some(schema) = schema.map(|schema| resolved(schema, root)) else {
        return Vec::new();
    };
    let alternatives = ["anyOf", "oneOf"].iter().filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
    let alternatives = alternatives.take(ALTERNATIVES_MAX).map(|alternative| resolved(alternative, root));
    [schema].into_iter().chain(alternatives).flat_map(own_types).collect()
}

/// The schema that a local reference stands for. A reference to a reference is left alone: they
/// can form circles.
fn resolved<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    target.unwrap_or(schema)
}

fn own_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one],
        _ => Vec::new(),
    }
}

fn is_of(value: &Value, schema_type: &str) -> bool {
    match value {
        Value::Null => schema_type == "null",
        Value::Bool(_) => schema_type == "boolean",
        Value::Number(number) => {
            let is_whole = || number.as_f64().is_some_and(|number| number.fract() == 0.0);
            schema_type == "number" || (schema_type == "integer" && is_whole())
        }
        Value::String(_) => false,
        Value::Array(_) => schema_type == "array",
        Value::Object(_) => schema_type == "object",
    }
}

/// More than a schema that people write has; each is looked at for each value.
const ALTERNATIVES_MAX: usize = 32;
