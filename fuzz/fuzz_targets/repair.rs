//! Almost-JSON becomes an object or nothing: valid JSON is never changed, and no text stands in the outcome that was not written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use toolgate::fuzzing::repair;

fuzz_target!(|input: &str| {
    let is_object = serde_json::from_str::<Map<String, Value>>(input).is_ok();
    let repaired = repair(input);
    if is_object {
        assert_eq!(repaired.as_deref(), Some(input), "valid JSON stays as it is");
        return;
    }
    let Some(repaired) = repaired else { return };
    let object: Map<String, Value> = serde_json::from_str(&repaired).expect("the outcome is an object");
    assert!(!object.is_empty() || input.contains('{'), "no object is made of nothing");
    assert_eq!(repair(&repaired).as_deref(), Some(repaired.as_str()), "the outcome needs no repair");
    // With an escape a string is written otherwise than it reads.
    if !input.contains('\\') {
        object.iter().for_each(|(key, value)| {
            assert!(input.contains(key.as_str()), "a key was written: {key:?}");
            check(value, input);
        });
    }
});

fn check(value: &Value, input: &str) {
    match value {
        Value::String(text) => assert!(input.contains(text.as_str()), "a text was written: {text:?}"),
        Value::Array(elements) => elements.iter().for_each(|element| check(element, input)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            assert!(input.contains(key.as_str()), "a key was written: {key:?}");
            check(value, input);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
