use proptest::prelude::*;

use super::*;
use crate::tools::definition::Annotations;

fn candidate(server: &str, description: &str, schema: &Value) -> Arc<Definition> {
    Arc::new(Definition {
        server: server.into(),
        name: "search".to_owned(),
        description: description.to_owned(),
        schema: schema.to_string().into(),
        annotations: Annotations::default(),
    })
}

fn merged(schemas: &[Value]) -> Value {
    let candidates: Vec<_> = schemas.iter().map(|schema| candidate("s", "", schema)).collect();
    serde_json::from_slice(&schema(&candidates)).unwrap()
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn equal_schemas_keep_the_firsts_bytes() {
    let one = r#"{ "type":"object", "x-unknown": 1e2, "properties": {"a": {"type":"string"}} }"#;
    let same = r#"{"properties":{"a":{"type":"string"}},"x-unknown":1e2,"type":"object"}"#;
    let [first, second] = [one, same].map(|schema| {
        Arc::new(Definition { schema: Bytes::copy_from_slice(schema.as_bytes()), ..(*candidate("s", "", &json!({}))).clone() })
    });
    assert_eq!(schema(&[Arc::clone(&first), second]), one);
    assert_eq!(schema(&[first]), one);
}

#[test]
fn properties_are_united_and_only_what_all_require_is_required() {
    let path =
        json!({"type": "object", "properties": {"query": {"type": "string"}, "path": {"type": "string"}}, "required": ["path", "query"]});
    let url = json!({"type": "object", "properties": {"query": {"type": "string", "description": "What."}, "limit": {"type": "integer"}}, "required": ["query"]});
    let expected = json!({
        "type": "object",
        "properties": {"query": {"type": "string"}, "path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"]
    });
    assert_eq!(merged(&[path, url]).to_string(), expected.to_string());
}

#[test]
fn different_schemas_of_a_property_are_alternatives() {
    let check = |one: Value, other: Value, expected: Value| {
        assert_eq!(merged(&[object(json!({"a": one})), object(json!({"a": other, "b": {}}))])["properties"]["a"], expected);
    };
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    check(text.clone(), number.clone(), json!({"anyOf": [text, number]}));
    check(
        json!({"type": "string", "description": "A."}),
        number.clone(),
        json!({"description": "A.", "anyOf": [{"type": "string", "description": "A."}, number]}),
    );
    check(text.clone(), json!(true), json!({}));
    check(text.clone(), json!({"description": "Anything."}), json!({"description": "Anything."}));
    check(text.clone(), json!(false), text.clone());
    // A property may be called what is a note elsewhere.
    let titled = |kind: &str| json!({"type": "object", "properties": {"title": {"type": kind}}});
    check(titled("string"), titled("number"), json!({"anyOf": [titled("string"), titled("number")]}));
}

#[test]
fn nothing_else_is_refused_only_where_all_refuse_it() {
    let closed = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "additionalProperties": false});
    assert_eq!(merged(&[closed("a"), closed("b")])["additionalProperties"], false);
    assert_eq!(merged(&[closed("a"), object(json!({"b": {}}))]).get("additionalProperties"), None);
    let mut patterns = closed("b");
    patterns["patternProperties"] = json!({"^x-": {}});
    assert_eq!(merged(&[closed("a"), patterns]).get("additionalProperties"), None);
}

#[test]
fn references_keep_leading_somewhere() {
    let with = |definition: &Value| json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/item"}}, "$defs": {"item": definition}});
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let same = merged(&[with(&text), object(json!({"b": number}))]);
    assert_eq!((&same["properties"]["a"], &same["$defs"]["item"]), (&json!({"$ref": "#/$defs/item"}), &text));
    let clash = merged(&[with(&text), with(&number)]);
    assert_eq!((&clash["properties"]["a"], clash.get("$defs")), (&json!({}), None));
    let elsewhere = merged(&[object(json!({"a": {"$ref": "#/properties/b"}, "b": text})), object(json!({"c": number}))]);
    assert_eq!(elsewhere["properties"]["a"], json!({}));
}

#[test]
fn what_narrows_a_whole_schema_is_left_out() {
    let strict = json!({"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "minProperties": 1});
    assert_eq!(merged(&[strict, object(json!({"c": {}}))]), object(json!({"a": {}, "b": {}, "c": {}})));
}

#[test]
fn descriptions_are_joined_where_they_differ() {
    let schema = json!({});
    let check = |said: &[&str], expected: &str| {
        let servers = ["one", "two", "three"];
        let candidates: Vec<_> = said.iter().zip(servers).map(|(text, server)| candidate(server, text, &schema)).collect();
        assert_eq!(description(&candidates), expected);
    };
    check(&["Reads."], "Reads.");
    check(&["Reads.", "Reads. ", ""], "Reads.");
    check(&["Reads.", "Reads a URL.", "Reads a URL."], "Reads.\nOn two: Reads a URL.");
    check(&["", "Reads."], "On two: Reads.");
    let long = "ä".repeat(OTHER_DESCRIPTION_MAX + 1);
    check(&["Reads.", &long], &format!("Reads.\nOn two: {} …", "ä".repeat(OTHER_DESCRIPTION_MAX)));
}

/// What a property may be, and values that it may have.
fn property_schema() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "description": "Words."})),
        Just(json!({"type": "integer", "minimum": 2})),
        Just(json!({"type": ["string", "null"]})),
        Just(json!({"enum": ["x", "y"]})),
        Just(json!({"enum": ["x"], "default": "x"})),
        Just(json!({"type": "array", "items": {"type": "string"}})),
        Just(json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]})),
        Just(json!({"$ref": "#/$defs/item"})),
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
    ]
}

fn any_schema() -> impl Strategy<Value = Value> {
    let properties = prop::collection::vec(prop::option::of(property_schema()), NAMES.len());
    let required = prop::collection::vec(any::<bool>(), NAMES.len());
    let item = prop_oneof![Just(json!({"type": "string"})), Just(json!({"type": "integer"}))];
    (properties, required, prop::option::of(any::<bool>()), item).prop_map(|(properties, required, additional, item)| {
        let declared = NAMES.iter().zip(properties).filter_map(|(name, schema)| Some(((*name).to_owned(), schema?)));
        let mut schema = object(Value::Object(declared.collect()));
        schema["required"] = NAMES.iter().zip(required).filter(|(_, required)| *required).map(|(name, _)| json!(name)).collect();
        schema["$defs"] = json!({"item": item});
        if let Some(additional) = additional {
            schema["additionalProperties"] = json!(additional);
        }
        schema
    })
}

fn any_arguments() -> impl Strategy<Value = Vec<Option<Value>>> {
    let value = prop_oneof![
        Just(json!("x")),
        Just(json!("z")),
        Just(json!(1)),
        Just(json!(3)),
        Just(json!(null)),
        Just(json!(["x"])),
        Just(json!([1])),
        Just(json!(true))
    ];
    prop::collection::vec(prop::option::of(value), NAMES.len())
}

const NAMES: [&str; 3] = ["a", "b", "title"];

proptest! {
    #[test]
    fn what_a_server_accepts_of_its_own_properties_is_accepted(
        schemas in prop::collection::vec(any_schema(), 2..4),
        arguments in prop::collection::vec(any_arguments(), 20),
    ) {
        let shown = merged(&schemas);
        let shown_accepts = jsonschema::validator_for(&shown).unwrap();
        for schema in &schemas {
            let accepts = jsonschema::validator_for(schema).unwrap();
            for arguments in &arguments {
                let given = NAMES.iter().zip(arguments).filter(|(name, _)| schema["properties"].get(**name).is_some());
                let arguments = Value::Object(given.filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?))).collect());
                if accepts.is_valid(&arguments) {
                    prop_assert!(shown_accepts.is_valid(&arguments), "{arguments} by {schema} but not {shown}");
                }
            }
        }
    }
}
