//! A form of text as the API takes it: every object closed, nothing counted.

use serde_json::{Map, Value};

/// `schema` with its objects closed and without what the API cannot force. `None` where an object is open on purpose: closed, it would
/// forbid what it is for.
pub(super) fn closed(schema: &Value) -> Option<Value> {
    let Value::Object(schema) = schema else { return None };
    let mut kept = Map::new();
    for (key, value) in schema {
        let value = match key.as_str() {
            "properties" => {
                let members = value.as_object()?.iter();
                members.map(|(name, member)| Some((name.clone(), closed(member)?))).collect::<Option<Map<_, _>>>()?.into()
            }
            "items" => closed(value)?,
            "anyOf" => Value::Array(value.as_array()?.iter().map(closed).collect::<Option<_>>()?),
            "type" | "enum" | "const" | "required" | "format" | "description" => value.clone(),
            "additionalProperties" if value != &Value::Bool(false) => return None,
            // What is said beyond is checked when the reply is there.
            _ => continue,
        };
        kept.insert(key.clone(), value);
    }
    let is_object = kept.get("type").is_some_and(|kind| kind == "object");
    match (kept.is_empty(), is_object || kept.contains_key("properties"), kept.contains_key("properties")) {
        // Anything at all, or any object.
        (true, _, _) | (_, true, false) => return None,
        (_, true, true) => drop(kept.insert("additionalProperties".to_owned(), false.into())),
        (false, false, _) => {}
    }
    Some(Value::Object(kept))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_closed_and_bounds_left_out() {
        let call = json!({"anyOf": [{
            "type": "object",
            "properties": {
                "name": {"const": "f"},
                "arguments": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}, "l": {"type": "array", "items": {"type": "string"}, "maxItems": 3}}, "required": ["n"]},
            },
            "required": ["name", "arguments"],
            "additionalProperties": false,
        }]});
        let expected = json!({"anyOf": [{
            "type": "object",
            "properties": {
                "name": {"const": "f"},
                "arguments": {"type": "object", "properties": {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}}, "required": ["n"], "additionalProperties": false},
            },
            "required": ["name", "arguments"],
            "additionalProperties": false,
        }]});
        assert_eq!(closed(&call), Some(expected));
    }

    #[test]
    fn what_is_open_on_purpose_cannot_be_forced() {
        let argument = |schema: Value| closed(&json!({"type": "object", "properties": {"a": schema}}));
        assert_eq!(argument(json!({"type": "object"})), None);
        assert_eq!(argument(json!({})), None);
        assert_eq!(argument(json!({"type": "object", "properties": {}, "additionalProperties": true})), None);
        assert_eq!(argument(json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}})), None);
        assert_eq!(closed(&json!(true)), None);
        assert!(argument(json!({"type": "object", "properties": {}})).is_some());
    }
}
