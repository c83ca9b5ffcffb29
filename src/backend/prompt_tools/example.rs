//! Arguments made up from a tool's schema, to show how a call looks.
//!
//! They are plausible, not valid at all costs: patterns and formats that are not common are not looked at.

use serde_json::{Map, Value, json};

/// An object that fits `parameters`, a JSON schema: what is required of it, or its first property.
pub(super) fn arguments(parameters: &str) -> Value {
    let schema: Value = serde_json::from_str(parameters).unwrap_or_default();
    let mut maker = Maker { root: &schema, schemas_left: SCHEMAS_MAX };
    match maker.value("value", &schema, DEPTH_MAX) {
        object @ Value::Object(_) => object,
        _ => Value::Object(Map::new()),
    }
}

/// How deep schemas are followed, and how many: an example that is longer shows nothing more.
const DEPTH_MAX: usize = 4;
const SCHEMAS_MAX: usize = 32;

struct Maker<'s> {
    /// What references lead into.
    root: &'s Value,
    schemas_left: usize,
}

impl Maker<'_> {
    /// A value for the property `name`.
    fn value(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        if depth == 0 || self.schemas_left == 0 {
            return text(name).into();
        }
        self.schemas_left -= 1;
        if let Some(given) = given(schema) {
            return given.clone();
        }
        if let Some(other) = self.stand_in(schema) {
            return self.value(name, &other, depth - 1);
        }
        match kind(schema) {
            Some("object") => self.members(schema, depth),
            Some("array") => schema.get("items").map_or_else(|| json!([]), |items| json!([self.value(name, items, depth - 1)])),
            Some("integer" | "number") => number(schema),
            Some("boolean") => true.into(),
            Some("null") => Value::Null,
            _ => formatted(schema).map_or_else(|| text(name), str::to_owned).into(),
        }
    }

    fn members(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return json!({}) };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|it| it == name));
        let any = properties.keys().any(|name| is_required(name));
        let shown = properties.iter().enumerate().filter(|(place, (name, _))| if any { is_required(name) } else { *place == 0 });
        Value::Object(shown.map(|(_, (name, member))| (name.clone(), self.value(name, member, depth - 1))).collect())
    }

    /// The schema that a reference or a choice leads to.
    fn stand_in(&self, schema: &Value) -> Option<Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.root.pointer(reference.strip_prefix('#')?).cloned();
        }
        if schema.get("properties").is_some() {
            return None;
        }
        let choices = ["anyOf", "oneOf", "allOf"].iter().find_map(|name| schema.get(name)?.as_array())?;
        choices.iter().find(|choice| kind(choice) != Some("null")).cloned()
    }
}

/// A value that the schema itself names.
fn given(schema: &Value) -> Option<&Value> {
    let says_something = |value: &&Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    let first = |name: &str| schema.get(name).and_then(Value::as_array).and_then(|values| values.iter().find(says_something));
    let named = |name: &str| schema.get(name).filter(says_something);
    named("const").or_else(|| first("enum")).or_else(|| named("default")).or_else(|| first("examples")).or_else(|| named("example"))
}

/// The type of a schema: of several the first that is not null, of none what its keywords are about.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ if schema.get("properties").is_some() => Some("object"),
        _ if schema.get("items").is_some() => Some("array"),
        _ => None,
    }
}

fn number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    let above = bound("exclusiveMinimum").and_then(Value::as_i64).map(|bound| bound.saturating_add(1).into());
    let one_fits = bound("maximum").and_then(Value::as_f64).is_none_or(|most| most >= 1.0);
    match bound("minimum").cloned().or(above) {
        Some(least) => least,
        None if one_fits => 1.into(),
        None => bound("maximum").cloned().unwrap_or_default(),
    }
}

fn formatted(schema: &Value) -> Option<&'static str> {
    let format = schema.get("format")?.as_str()?;
    FORMATS.iter().find(|(name, _)| *name == format).map(|(_, text)| *text)
}

fn text(name: &str) -> String {
    format!("some {}", name.replace('_', " "))
}

const FORMATS: [(&str, &str); 6] = [
    ("date", "2025-01-31"),
    ("time", "12:00:00Z"),
    ("date-time", "2025-01-31T12:00:00Z"),
    ("email", "someone@example.com"),
    ("uri", "https://example.com/"),
    ("uuid", "123e4567-e89b-42d3-a456-426614174000"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_made_of_what_the_schema_says() {
        let check = |schema: Value, expected: Value| assert_eq!(arguments(&schema.to_string()), expected, "{schema}");
        let member = |member: Value, expected: Value| {
            check(json!({"type": "object", "properties": {"file_path": member}}), json!({"file_path": expected}));
        };
        member(json!({"type": "string"}), json!("some file path"));
        member(json!({}), json!("some file path"));
        member(json!(true), json!("some file path"));
        member(json!({"type": ["null", "integer"]}), json!(1));
        member(json!({"type": "integer", "minimum": 5}), json!(5));
        member(json!({"type": "integer", "exclusiveMinimum": 5}), json!(6));
        member(json!({"type": "number", "maximum": 0.5}), json!(0.5));
        member(json!({"type": "boolean"}), json!(true));
        member(json!({"type": "string", "format": "date"}), json!("2025-01-31"));
        member(json!({"type": "string", "enum": [null, "a", "b"]}), json!("a"));
        member(json!({"const": 3}), json!(3));
        member(json!({"type": "string", "default": ""}), json!("some file path"));
        member(json!({"type": "string", "default": "x"}), json!("x"));
        member(json!({"type": "string", "examples": ["x"]}), json!("x"));
        member(json!({"type": "array", "items": {"type": "integer"}}), json!([1]));
        member(json!({"type": "array"}), json!([]));
        member(json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}), json!(1));
        member(json!({"$ref": "https://example.com/x"}), json!("some file path"));
        member(json!({"properties": {"a": {"type": "integer"}}}), json!({"a": 1}));
        check(json!(null), json!({}));
        check(json!({"type": "string"}), json!({}));
        check(json!({"type": "object"}), json!({}));
    }

    #[test]
    fn what_is_required_is_shown_and_no_more() {
        let schema = json!({"properties": {"a": {}, "b": {"type": "integer"}, "c": {}}, "required": ["c", "b", "lost"]});
        assert_eq!(arguments(&schema.to_string()).to_string(), r#"{"b":1,"c":"some c"}"#);
        let schema = json!({"properties": {"p": {"$ref": "#/$defs/p"}}, "required": ["p"], "$defs": {"p": {"enum": ["x"]}}});
        assert_eq!(arguments(&schema.to_string()), json!({"p": "x"}));
    }

    #[test]
    fn a_schema_without_end_has_a_short_example() {
        let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
        let members: Map<String, Value> = names.iter().map(|name| (name.clone(), json!({"$ref": "#"}))).collect();
        let schema = json!({"type": "object", "properties": members, "required": names});
        assert!(arguments(&schema.to_string()).to_string().len() < 1024);
        assert!(arguments(r##"{"$ref":"#"}"##).is_object());
    }
}
