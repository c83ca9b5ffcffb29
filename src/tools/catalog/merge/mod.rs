//! Tools of one name on several servers, shown to the model as one.
//!
//! Whatever a server accepts of the properties that it declares, the shown schema accepts: calls are checked against it before it is known
//! which server they are for. What grammars are made of stays simple: a property has the schema that all give it, or `anyOf` theirs.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::tools::definition::Definition;

/// How many characters of another server's description are shown; the first's is whole.
const OTHER_DESCRIPTION_MAX: usize = 200;

/// What the tool does: as the first says, and the others where they say something else.
pub(super) fn description(candidates: &[Arc<Definition>]) -> String {
    let Some((first, others)) = candidates.split_first() else { return String::new() };
    let mut said = vec![first.description.trim()];
    let mut description = first.description.clone();
    for other in others {
        let text = other.description.trim();
        if text.is_empty() || said.contains(&text) {
            continue;
        }
        said.push(text);
        let short: String = text.chars().take(OTHER_DESCRIPTION_MAX).collect();
        let cut = if short.len() < text.len() { " …" } else { "" };
        let between = if description.is_empty() { "" } else { "\n" };
        description.push_str(&format!("{between}On {}: {short}{cut}", other.server));
    }
    description
}

/// The schema of its arguments: the first's own bytes where all say the same.
pub(super) fn schema(candidates: &[Arc<Definition>]) -> Bytes {
    let Some((first, others)) = candidates.split_first() else { return Bytes::from_static(b"{}") };
    if others.iter().all(|other| other.schema == first.schema) {
        return first.schema.clone();
    }
    let schemas: Vec<Map<String, Value>> =
        candidates.iter().map(|candidate| serde_json::from_slice(&candidate.schema).unwrap_or_default()).collect();
    // The order of keys tells nothing.
    if schemas.windows(2).all(|pair| matches!(pair, [one, other] if one == other)) {
        return first.schema.clone();
    }
    Value::Object(union(&schemas)).to_string().into()
}

fn union(schemas: &[Map<String, Value>]) -> Map<String, Value> {
    let definitions = definitions(schemas);
    let mut properties = Map::new();
    for name in schemas.iter().flat_map(|schema| members(schema, "properties").map(|(name, _)| name)) {
        if !properties.contains_key(name) {
            let declared: Vec<&Value> = schemas.iter().filter_map(|schema| schema.get("properties")?.get(name)).collect();
            properties.insert(name.clone(), property(&declared, definitions.is_some()));
        }
    }
    let mut union = Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), Value::Object(properties))]);
    let required = required(schemas);
    if !required.is_empty() {
        union.insert("required".to_owned(), required.into_iter().collect());
    }
    if schemas.iter().all(is_closed) {
        union.insert("additionalProperties".to_owned(), json!(false));
    }
    union.extend(definitions.unwrap_or_default());
    union
}

/// What all require, in the first's order.
fn required(schemas: &[Map<String, Value>]) -> Vec<Value> {
    let names = |schema: &Map<String, Value>| schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some((first, others)) = schemas.split_first() else { return Vec::new() };
    let mut required = names(first);
    required.retain(|name| others.iter().all(|other| names(other).contains(name)));
    required
}

/// Whether it accepts no properties but those that it declares.
fn is_closed(schema: &Map<String, Value>) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false)) && !schema.contains_key("patternProperties")
}

/// One property as several declare it.
fn property(declared: &[&Value], has_definitions: bool) -> Value {
    let mut different: Vec<&Value> = Vec::new();
    for schema in declared.iter().filter(|schema| ***schema != Value::Bool(false)) {
        if !different.iter().any(|known| bare(known, Level::Schema) == bare(schema, Level::Schema)) {
            different.push(schema);
        }
    }
    let is_open = |schema: &&&Value| match bare(schema, Level::Schema) {
        Value::Object(schema) => schema.is_empty(),
        Value::Bool(accepts) => accepts,
        _ => true,
    };
    let cannot_be_kept = |schema: &&&Value| has_reference(schema, has_definitions);
    if different.iter().any(|schema| is_open(&schema) || cannot_be_kept(&schema)) {
        return Value::Object(described(declared));
    }
    match different.as_slice() {
        [] => json!(false),
        [only] => (*only).clone(),
        several => {
            let mut property = described(declared);
            property.insert("anyOf".to_owned(), several.iter().map(|schema| (*schema).clone()).collect());
            Value::Object(property)
        }
    }
}

/// A schema that accepts everything and says what the first that says something does.
fn described(declared: &[&Value]) -> Map<String, Value> {
    let description = declared.iter().find_map(|schema| schema.get("description"));
    description.map(|said| ("description".to_owned(), said.clone())).into_iter().collect()
}

/// The definitions of all, to which references lead; `None` where two mean different things by one name.
fn definitions(schemas: &[Map<String, Value>]) -> Option<Map<String, Value>> {
    let mut all = Map::new();
    for key in DEFINITIONS {
        let mut together: Map<String, Value> = Map::new();
        for (name, definition) in schemas.iter().flat_map(|schema| members(schema, key)) {
            if together.get(name).is_some_and(|known| known != definition) {
                return None;
            }
            together.insert(name.clone(), definition.clone());
        }
        if !together.is_empty() {
            all.insert(key.to_owned(), Value::Object(together));
        }
    }
    // A reference from within a definition to somewhere else would lead to nothing here.
    let lead_home = !all.values().any(|definitions| has_reference(definitions, true));
    lead_home.then_some(all)
}

const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

fn members<'a>(schema: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Whether `value` refers to anything that is not there, where only definitions are, or not even they.
fn has_reference(value: &Value, has_definitions: bool) -> bool {
    let leads_away = |target: &Value| {
        let target = target.as_str().unwrap_or_default();
        !(has_definitions && DEFINITIONS.iter().any(|key| target.strip_prefix("#/").is_some_and(|rest| rest.starts_with(key))))
    };
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| match key.as_str() {
            "$ref" => leads_away(value),
            "$dynamicRef" | "$recursiveRef" => true,
            _ => has_reference(value, has_definitions),
        }),
        Value::Array(elements) => elements.iter().any(|value| has_reference(value, has_definitions)),
        _ => false,
    }
}

/// What the keys of an object are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Keywords.
    Schema,
    /// Names, each with a schema.
    Names,
}

/// `schema` without what it says to people only.
fn bare(schema: &Value, level: Level) -> Value {
    match schema {
        Value::Object(fields) if level == Level::Names => {
            fields.iter().map(|(name, schema)| (name.clone(), bare(schema, Level::Schema))).collect()
        }
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !NOTES.contains(&key.as_str()))
            .map(|(key, value)| {
                let value = match key.as_str() {
                    "enum" | "const" | "required" => value.clone(),
                    "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => bare(value, Level::Names),
                    _ => bare(value, Level::Schema),
                };
                (key.clone(), value)
            })
            .collect(),
        Value::Array(elements) => elements.iter().map(|element| bare(element, Level::Schema)).collect(),
        other => other.clone(),
    }
}

/// The keys that accept and refuse nothing.
const NOTES: [&str; 6] = ["title", "description", "default", "examples", "$comment", "deprecated"];

#[cfg(test)]
mod tests;
