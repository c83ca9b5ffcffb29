use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Coerced, coerce};

fn coerced(parameters: &Value, arguments: &str) -> Option<Coerced> {
    coerce(arguments, &jsonschema::options().build(parameters).unwrap())
}

/// `arguments` become `expected` where `x` has the schema.
#[track_caller]
fn check(x: Value, arguments: &str, expected: &str) {
    let parameters = json!({"properties": {"x": x}});
    let found = coerced(&parameters, arguments).map(|coerced| coerced.arguments);
    assert_eq!(found.as_deref(), Some(expected), "{parameters} {arguments}");
}

/// No argument here becomes anything else.
#[track_caller]
fn refuse(x: Value, values: &[Value]) {
    for value in values {
        let arguments = json!({"x": value}).to_string();
        assert_eq!(coerced(&json!({"properties": {"x": x}}), &arguments), None, "{x} {arguments}");
    }
}

#[test]
fn numbers_come_out_of_strings_that_spell_them() {
    check(json!({"type": "integer"}), r#"{"x":"42"}"#, r#"{"x":42}"#);
    check(json!({"type": "integer"}), r#"{"x":"-7"}"#, r#"{"x":-7}"#);
    check(json!({"type": "number"}), r#"{"x":"1.5"}"#, r#"{"x":1.5}"#);
    check(json!({"type": "number"}), r#"{"x":"3"}"#, r#"{"x":3}"#);
    let odd = ["1.50", "042", "+4", " 42", "42 ", "4e2", "0x2", "", "four", "1,5", "123456789012345678901234567890", "NaN", "-0"];
    refuse(json!({"type": "number"}), &odd.map(Value::from));
    refuse(json!({"type": "integer"}), &[json!("1.5"), json!("3.0"), json!(1.5), json!(true), json!([3])]);
}

#[test]
fn booleans_do_too() {
    check(json!({"type": "boolean"}), r#"{"x":"true"}"#, r#"{"x":true}"#);
    check(json!({"type": "boolean"}), r#"{"x":"False"}"#, r#"{"x":false}"#);
    refuse(json!({"type": "boolean"}), &[json!("yes"), json!("1"), json!(1), json!(0), json!(""), json!("null"), json!("None")]);
}

#[test]
fn whole_numbers_go_into_strings() {
    check(json!({"type": "string"}), r#"{"x":42}"#, r#"{"x":"42"}"#);
    refuse(json!({"type": "string"}), &[json!(1.5), json!(1e30), json!(true), json!([]), json!(["a"]), json!({})]);
}

#[test]
fn a_whole_float_is_an_integer_where_the_draft_says_it_is_none() {
    let draft4 = json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"x": {"type": "integer"}}});
    assert_eq!(coerced(&draft4, r#"{"x":3.0}"#).unwrap().arguments, r#"{"x":3}"#);
    assert_eq!(coerced(&draft4, r#"{"x":1e30}"#), None);
}

#[test]
fn json_in_a_string_is_read() {
    check(json!({"type": "object"}), r#"{"x":"{\"a\": 1.10}"}"#, r#"{"x":{"a": 1.10}}"#);
    check(json!({"type": "object"}), r#"{"x":"{'a': True}"}"#, r#"{"x":{"a":true}}"#);
    check(json!({"type": "array"}), r#"{"x":"[1, \"b\"]"}"#, r#"{"x":[1, "b"]}"#);
    let deep = json!({"type": "object", "properties": {"y": {"type": "array", "items": {"type": "integer"}}}});
    check(deep, r#"{"x":"{\"y\":\"[\\\"1\\\", 2]\"}"}"#, r#"{"x":{"y":[1,2]}}"#);
    refuse(json!({"type": "object"}), &[json!(""), json!("a"), json!("[]"), json!("{"), json!(3), json!([])]);
}

#[test]
fn one_thing_becomes_a_list_of_it() {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    check(strings.clone(), r#"{"x":"a b"}"#, r#"{"x":["a b"]}"#);
    check(strings.clone(), r#"{"x":7}"#, r#"{"x":["7"]}"#);
    refuse(
        strings,
        &[json!(""), json!("a, b"), json!("a;b"), json!("a\nb"), json!("['a']"), json!("[a"), json!([null]), json!({}), json!(true)],
    );
    check(json!({"type": "array", "items": {"type": "integer"}}), r#"{"x":"3"}"#, r#"{"x":[3]}"#);
    check(json!({"type": "array", "items": {"required": ["a"]}}), r#"{"x":{"a" : 1.10}}"#, r#"{"x":[{"a" : 1.10}]}"#);
    refuse(json!({"type": "array", "minItems": 2}), &[json!("a")]);
}

#[test]
fn options_are_found_whatever_their_capitals() {
    check(json!({"enum": ["celsius", "kelvin"]}), r#"{"x":"Celsius"}"#, r#"{"x":"celsius"}"#);
    check(json!({"type": "string", "enum": ["GET", "PUT"]}), r#"{"x":"get"}"#, r#"{"x":"GET"}"#);
    check(json!({"type": "integer", "enum": [1, 2]}), r#"{"x":"2"}"#, r#"{"x":2}"#);
    check(json!({"const": "A"}), r#"{"x":"a"}"#, r#"{"x":"A"}"#);
    refuse(json!({"enum": ["a", "A"]}), &[json!("á"), json!("")]);
    refuse(json!({"enum": ["aB", "AB"]}), &[json!("ab")]);
    refuse(json!({"enum": ["celsius", null, 1.5]}), &[json!("C"), json!(" celsius"), json!("null"), json!("1.5"), json!([])]);
}

#[test]
fn null_for_what_may_be_absent_is_left_out() {
    check(json!({"type": "string"}), r#"{"a" : 1,"x":null, "b":2}"#, r#"{"a":1,"b":2}"#);
    check(json!({"anyOf": [{"type": "integer"}, {"enum": ["all"]}]}), r#"{"x":null}"#, "{}");
    assert_eq!(coerced(&json!({"properties": {"x": {"type": "string"}}, "required": ["x"]}), r#"{"x":null}"#), None);
    refuse(json!({"items": {"type": "string"}}), &[json!([null])]);
    refuse(json!(false), &[json!(null)]);
}

#[test]
fn one_alternative_must_be_meant() {
    let optional = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
    check(optional(json!({"type": "integer"})), r#"{"x":"3"}"#, r#"{"x":3}"#);
    check(optional(json!({"type": "object", "properties": {"n": {"type": "integer"}}})), r#"{"x":"{\"n\":\"3\"}"}"#, r#"{"x":{"n":3}}"#);
    check(json!({"type": ["integer", "null"]}), r#"{"x":"3"}"#, r#"{"x":3}"#);
    check(json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}), r#"{"x":"3"}"#, r#"{"x":3}"#);
    let tagged = |kind: &str, due: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, "n": {"type": due}}});
    check(
        json!({"oneOf": [tagged("a", "integer"), tagged("b", "boolean")]}),
        r#"{"x":{"kind":"a","n":"3"}}"#,
        r#"{"x":{"kind":"a","n":3}}"#,
    );
    refuse(json!({"type": ["integer", "array"]}), &[json!("3")]);
    refuse(json!({"anyOf": [{"type": "integer"}, {"type": "array"}]}), &[json!("3")]);
    refuse(json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}), &[json!("3")]);
}

#[test]
fn references_and_lists_are_followed() {
    let tree = json!({
        "$defs": {"node": {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}},
        "properties": {"x": {"$ref": "#/$defs/node"}, "a/b~c": {"items": {"type": "integer"}}},
    });
    let found = coerced(&tree, r#"{"x":{"n":"1","next":{"n":"2","note":1.10}},"a/b~c":[1,"2"]}"#).unwrap();
    assert_eq!(found.arguments, r#"{"x":{"n":1,"next":{"n":2,"note":1.10}},"a/b~c":[1,2]}"#);
    assert_eq!(found.changes, ["/a~1b~0c/1: \"2\" to 2", "/x/n: \"1\" to 1", "/x/next/n: \"2\" to 2"]);
}

#[test]
fn all_or_nothing() {
    let parameters = json!({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]});
    assert_eq!(coerced(&parameters, r#"{"a":"1","b":"two"}"#), None);
    assert_eq!(coerced(&parameters, r#"{"b":"2"}"#), None);
    assert_eq!(coerced(&json!({"properties": {"a": {"type": "integer", "minimum": 5}}}), r#"{"a":"1"}"#), None);
    assert_eq!(coerced(&json!({"properties": {"a": {"type": "string", "maxLength": 1}}}), r#"{"a":12}"#), None);
}

#[test]
fn arguments_stay_an_object() {
    assert_eq!(coerced(&json!({"type": "array"}), r#"{"x":"1"}"#), None);
}

#[test]
fn what_is_around_a_value_is_changed_first() {
    let list = json!({"type": "array", "properties": {"n": {"type": "integer"}}, "items": {"properties": {"n": {"type": "integer"}}}});
    let found = coerced(&json!({"properties": {"x": list}}), r#"{"x":{"n":"1"}}"#).unwrap();
    assert_eq!(found.arguments, r#"{"x":[{"n":1}]}"#);
    assert_eq!(found.changes, [r#"/x: {"n":"1"} to [{"n":"1"}]"#, "/x/0/n: \"1\" to 1"]);
}

#[test]
fn a_list_is_changed_up_to_a_length() {
    let parameters = json!({"properties": {"x": {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}});
    let of = |count: usize| coerced(&parameters, &json!({"x": vec!["1"; count]}).to_string());
    assert_eq!(of(1000).unwrap().arguments, json!({"x": vec![1; 1000]}).to_string());
    assert_eq!(of(1001), None);
}

#[test]
fn what_fits_keeps_its_spelling_and_its_place() {
    let arguments = "{ \"z\" : 1.10 , \"x\":\"1\", \"a\":[ 12345678901234567890123 ],\"\\u0062\": \"\\u00e9\" }";
    check(json!({"type": "integer"}), arguments, "{\"z\":1.10,\"x\":1,\"a\":[ 12345678901234567890123 ],\"b\":\"\\u00e9\"}");
}

#[test]
fn changes_are_told_briefly() {
    let list = json!({"properties": {"x": {"items": {"type": "string"}}}});
    let changes = coerced(&list, &json!({"x": vec![1; 500]}).to_string()).unwrap().changes;
    assert_eq!((changes.len(), changes[0].as_str(), changes[20].as_str()), (21, "/x/0: 1 to \"1\"", "and 480 more"));
    let object = json!({"properties": {"x": {"type": "object"}}});
    let changes = coerced(&object, &json!({"x": json!({"a": "é".repeat(500)}).to_string()}).to_string()).unwrap().changes;
    assert!(changes[0].starts_with("/x: \"{") && changes[0].len() < 200, "{}", changes[0]);
    assert_eq!(coerced(&json!({"properties": {"x": {"type": "array"}}}), r#"{"x":1}"#).unwrap().changes, ["/x: 1 to [1]"]);
    assert_eq!(coerced(&json!({"properties": {"x": {"type": "string"}}}), r#"{"x":null}"#).unwrap().changes, ["/x: null left out"]);
}

fn schema() -> impl Strategy<Value = Value> {
    let types = ["integer", "number", "string", "boolean", "array", "object", "null"];
    let one = prop::sample::select(types.to_vec()).prop_map(|due| json!({"type": due}));
    let several = prop::sample::subsequence(types.to_vec(), 1..3).prop_map(|due| json!({"type": due}));
    prop_oneof![
        one.clone(),
        several,
        one.clone().prop_map(|items| json!({"type": "array", "items": items})),
        prop::collection::vec(one, 1..3).prop_map(|any| json!({"anyOf": any})),
        Just(json!({"enum": ["a", "B", 1, true]})),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    let texts = ["a", "A", "b", "1", "1.0", "true", "[1]", "{\"a\":1}", "null", "", "x, y"];
    prop_oneof![
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!([1])),
        Just(json!({"a": 1})),
    ]
}

proptest! {
    #[test]
    fn the_outcome_fits_and_the_rest_is_untouched(x in schema(), value in scalar(), other in scalar()) {
        let parameters = json!({"properties": {"x": x}});
        let validator = jsonschema::options().build(&parameters).unwrap();
        let arguments = json!({"other": other, "x": value});
        let found = coerce(&arguments.to_string(), &validator);
        prop_assert!(found.is_none() || !validator.is_valid(&arguments));
        let Some(found) = found else { return Ok(()) };
        let outcome: Value = serde_json::from_str(&found.arguments).unwrap();
        prop_assert!(validator.is_valid(&outcome), "{}", outcome);
        prop_assert_eq!(&outcome["other"], &arguments["other"]);
        prop_assert!(!found.changes.is_empty());
    }
}
