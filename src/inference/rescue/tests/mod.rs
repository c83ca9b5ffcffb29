//! What is read out of which text, for all forms together.

use std::fmt::Write;

use serde_json::{Value, json};

mod corpus;
mod json;
mod markers;
mod places;
mod quotes;
mod round_trip;
mod suffix;

use super::{Form, rescue};
use crate::inference::offer::{Offer, Tool};

pub(super) fn offer() -> Offer {
    let save = json!({"type": "object", "properties": {
        "path": {"type": "string"}, "size": {"type": "integer"}, "ratio": {"type": "number"},
        "force": {"type": "boolean"}, "tags": {"type": "array"}, "meta": {"type": "object"},
        "limit": {"type": ["integer", "null"]}, "note": {"type": ["string", "null"]}, "odd": {}
    }});
    let tool = |(name, parameters): (&str, Value)| Tool::new(name.to_owned(), parameters);
    let pick = json!({"type": "object", "properties": {
        "by_ref": {"$ref": "#/$defs/count"}, "maybe": {"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}]},
        "one": {"oneOf": [{"type": "object"}, {"type": "boolean"}]}, "circle": {"$ref": "#/properties/circle"},
        "lost": {"$ref": "https://example.com/x"}, "texts": {"anyOf": [{"type": "string"}, {"type": "null"}]}
    }, "$defs": {"count": {"type": "integer"}}});
    let tools = [("ping", Value::Null), ("save", save), ("pick", pick), ("io.read-file_2", json!({}))];
    Offer::of(tools.into_iter().map(tool).collect())
}

/// Each call as `name arguments`, joined with ` + `; then ` | content` if there is any.
fn shown(text: &str) -> String {
    let Some(rescued) = rescue(text, 0, &offer()) else {
        return "none".to_owned();
    };
    let calls: Vec<_> = rescued.calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect();
    let mut shown = calls.join(" + ");
    if !rescued.content.is_empty() {
        write!(shown, " | {}", rescued.content).unwrap();
    }
    shown
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(shown(text), expected, "{text}");
}

#[test]
fn the_first_form_wins() {
    let form = |text| rescue(text, 0, &offer()).map(|rescued| rescued.form.as_str());
    assert_eq!(form("[TOOL_CALLS]ping[ARGS]{} save[ARGS]{}"), Some(Form::Mistral.as_str()));
    assert_eq!(form("ping[ARGS]{} {\"name\":\"ping\"}"), Some("rehearsal"));
    assert_eq!(form("<function=ping></function> {\"name\":\"ping\"}"), Some("qwen_xml"));
    assert_eq!(form("{\"name\":\"ping\"}"), Some("json"));
    assert_eq!(form("plain text"), None);
}
