use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    backend::{Offered, Served},
    chat::{Call, Message, Request, Tool, ToolChoice},
};

/// `fields` as a request, which has a user's message unless it says otherwise.
fn prompt(fields: Value) -> Prompt {
    let Value::Object(mut fields) = fields else { panic!("fields are an object") };
    fields.entry("messages").or_insert_with(|| json!([{"role": "user", "content": "q"}]));
    let raw = |value: &Value| Bytes::from(value.to_string());
    let tools = fields.get("tools");
    let choice = match fields.get("tool_choice") {
        None => ToolChoice::Auto,
        Some(Value::String(word)) if word == "required" => ToolChoice::Required,
        Some(Value::String(word)) if word == "none" => ToolChoice::None,
        Some(choice) if choice["type"] == "function" => ToolChoice::Named(choice["function"]["name"].as_str().unwrap().to_owned()),
        Some(choice) if choice.is_object() => ToolChoice::Other,
        Some(_) => ToolChoice::Auto,
    };
    let request = Request {
        messages: raw(&fields["messages"]),
        tools_json: tools.map(raw).unwrap_or_default(),
        tools: tools.map(|_| Tool { name: "f".into(), parameters: Bytes::new() }).into_iter().collect(),
        tool_choice: choice,
        parallel_tool_calls: fields.get("parallel_tool_calls") != Some(&json!(false)),
        choices: fields.get("n").map_or(1, |n| n.as_u64().unwrap()),
        model: "claude".into(),
        fields: fields.iter().map(|(name, value)| (name.clone(), raw(value))).collect(),
        ..Request::default()
    };
    Prompt {
        request: Arc::new(request),
        offered: Offered::AsRequested,
        corrections: Vec::new(),
        form: None,
        sampling: Vec::new(),
        served: Served::default(),
    }
}

const PLAIN: Config =
    Config { max_tokens: 4096, cache: false, thinking: super::super::ThinkBy::Budget, sampling: true, output_format: false };

fn encoded(prompt: &Prompt, config: &Config) -> Value {
    serde_json::from_slice(&body(prompt, config).unwrap()).unwrap()
}

/// The fields of the body that are not there for a bare question.
fn added(prompt: &Prompt, config: &Config) -> Value {
    let Value::Object(mut body) = encoded(prompt, config) else { unreachable!() };
    assert_eq!((body.remove("model"), body.remove("stream")), (Some("claude".into()), Some(true.into())));
    if body["max_tokens"] == 4096 {
        body.remove("max_tokens");
    }
    if body["messages"] == json!([{"role": "user", "content": [{"type": "text", "text": "q"}]}]) {
        body.remove("messages");
    }
    Value::Object(body)
}

fn check(fields: Value, expected: Value) {
    assert_eq!(added(&prompt(fields.clone()), &PLAIN), expected, "{fields}");
}

fn f() -> Value {
    json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}, "strict": true}})
}

fn wire_f() -> Value {
    json!({"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}})
}

#[test]
fn fields_are_translated_or_left_out() {
    check(json!({}), json!({}));
    check(json!({"stream_options": {}, "logprobs": true, "seed": 3, "x": 1, "response_format": {"type": "json_object"}}), json!({}));
    check(json!({"max_tokens": 7, "max_completion_tokens": 9}), json!({"max_tokens": 9}));
    check(json!({"max_tokens": -1}), json!({}));
    check(json!({"stop": "a"}), json!({"stop_sequences": ["a"]}));
    check(json!({"stop": ["a", "", "b"]}), json!({"stop_sequences": ["a", "b"]}));
    check(json!({"stop": null, "temperature": null, "user": null}), json!({}));
    check(json!({"temperature": 1.7, "top_p": 0.5, "top_k": 40}), json!({"temperature": 1.0, "top_k": 40}));
    check(json!({"top_p": 0.5, "top_k": 0}), json!({"top_p": 0.5}));
    check(json!({"user": "u1"}), json!({"metadata": {"user_id": "u1"}}));
    check(
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}),
        json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
    );
}

#[test]
fn sampling_of_an_attempt_replaces_the_clients_and_can_be_kept_back() {
    let mut prompt = prompt(json!({"temperature": 0.2}));
    prompt.sampling = vec![("temperature", Bytes::from_static(b"0.4"))];
    assert_eq!(added(&prompt, &PLAIN), json!({"temperature": 0.4}));
    assert_eq!(added(&prompt, &Config { sampling: false, ..PLAIN }), json!({}));
}

#[test]
fn tools_and_their_choice() {
    let tools = |more: Value, expected: Value| {
        let (mut fields, mut wire) = (json!({"tools": [f()]}), json!({"tools": [wire_f()]}));
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wire.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        check(fields, wire);
    };
    let named = json!({"type": "function", "function": {"name": "f"}});
    tools(json!({}), json!({}));
    tools(json!({"parallel_tool_calls": false}), json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}));
    tools(json!({"tool_choice": "required"}), json!({"tool_choice": {"type": "any"}}));
    tools(json!({"tool_choice": named}), json!({"tool_choice": {"type": "tool", "name": "f"}}));
    tools(
        json!({"tool_choice": named, "parallel_tool_calls": false}),
        json!({"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true}}),
    );
    tools(json!({"tool_choice": "none"}), json!({"tool_choice": {"type": "none"}}));
    let g = json!({"type": "function", "function": {"name": "g"}});
    let allowed = |mode: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [g]}});
    let wire_g = json!([{"name": "g", "input_schema": {"type": "object"}}]);
    check(json!({"tools": [f(), g], "tool_choice": allowed("auto")}), json!({"tools": wire_g}));
    check(json!({"tools": [f(), g], "tool_choice": allowed("required")}), json!({"tools": wire_g, "tool_choice": {"type": "any"}}));
}

#[test]
fn schemas_keep_their_spelling_and_are_of_objects() {
    let schema = |given: &str, expected: &str| {
        let mut prompt = prompt(json!({}));
        let tools = format!(r#"[{{"type":"function","function":{{"name":"f","parameters":{given}}}}}]"#);
        prompt.offered = Offered::Instead(tools.into());
        let body = String::from_utf8(body(&prompt, &PLAIN).unwrap().to_vec()).unwrap();
        assert!(body.contains(&format!(r#""input_schema":{expected}}}]"#)), "{body}");
    };
    schema(r#"{ "type":"object", "x": 1e400 }"#, r#"{ "type":"object", "x": 1e400 }"#);
    schema("null", r#"{"type":"object"}"#);
    schema("{}", r#"{"type":"object"}"#);
    schema(r#"{ "properties": {} }"#, r#"{"type":"object","properties": {} }"#);
}

#[test]
fn withheld_tools_are_spoken_of_only_where_the_conversation_does() {
    let mut bare = prompt(json!({"tools": [f()], "tool_choice": "none"}));
    bare.offered = Offered::Withheld;
    assert_eq!(added(&bare, &PLAIN), json!({}));
    let past = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ]);
    let mut withheld = prompt(json!({"tools": [f()], "messages": past}));
    withheld.offered = Offered::Withheld;
    let body = encoded(&withheld, &PLAIN);
    assert_eq!((&body["tools"], &body["tool_choice"]), (&json!([wire_f()]), &json!({"type": "none"})));
    let body = encoded(&prompt(json!({"messages": past})), &PLAIN);
    assert_eq!(body["tools"], json!([{"name": "f", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn a_forced_form_is_one_call_or_a_form_of_text() {
    let open = r#"{"anyOf":[{"type":"object","properties":{"name":{"const":"f"},"arguments":{"type":"object"}}}]}"#;
    let form = r#"{"anyOf":[{"type":"object","properties":{"name":{"const":"f"},"arguments":{"type":"object","properties":{}}}}]}"#;
    let forced = |form: &'static str| Prompt { form: Some(form.into()), ..prompt(json!({"tools": [f()], "tool_choice": "required"})) };
    let any = json!({"type": "any", "disable_parallel_tool_use": true});
    let with = Config { output_format: true, ..PLAIN };
    assert_eq!(encoded(&forced(form), &PLAIN)["tool_choice"], any);
    assert_eq!(encoded(&forced(open), &with)["tool_choice"], any);
    let body = encoded(&forced(form), &with);
    assert_eq!(body["tool_choice"], Value::Null);
    assert_eq!(body["output_config"]["format"]["schema"]["anyOf"][0]["additionalProperties"], false);
}

#[test]
fn who_thinks_is_not_forced_and_samples_freely() {
    let thinking = json!({"tools": [f()], "tool_choice": "required", "reasoning_effort": "low", "temperature": 0.1, "top_k": 3});
    let budget = json!({"type": "enabled", "budget_tokens": 1024});
    check(thinking.clone(), json!({"tools": [wire_f()], "max_tokens": 5120, "thinking": budget}));
    let effort = Config { thinking: super::super::ThinkBy::Effort, ..PLAIN };
    let adaptive =
        json!({"tools": [wire_f()], "thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}});
    assert_eq!(added(&prompt(thinking), &effort), adaptive);
}

#[test]
fn the_ends_of_what_stays_the_same_are_marked_for_the_cache() {
    let messages = json!([
        {"role": "system", "content": "s"}, {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
    ]);
    let prompt = prompt(json!({"messages": messages, "tools": [f(), f()]}));
    let body = encoded(&prompt, &Config { cache: true, ..PLAIN });
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["system"], json!([{"type": "text", "text": "s"}, {"type": "text", "text": "d", "cache_control": mark}]));
    assert_eq!((&body["tools"][0]["cache_control"], &body["tools"][1]["cache_control"]), (&Value::Null, &mark));
    assert_eq!(body["messages"][2]["content"], json!([{"type": "text", "text": "c", "cache_control": mark}]));
    assert_eq!(body.to_string().matches("cache_control").count(), 3);
    assert!(!encoded(&prompt, &PLAIN).to_string().contains("cache_control"));
}

#[test]
fn corrections_are_turns_of_their_own() {
    let call = Call { id: "c1".into(), name: "f".into(), arguments: r#"{"a":1}"#.into() };
    let mut prompt = prompt(json!({}));
    prompt.corrections = vec![
        Message::Assistant { content: "so".into(), calls: vec![call] },
        Message::Tool { call_id: "c1".into(), content: "no".into() },
        Message::User("again".into()),
    ];
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "so"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "no"}]},
            {"type": "text", "text": "again"},
        ]},
    ]);
    assert_eq!(encoded(&prompt, &PLAIN)["messages"], expected);
}

#[test]
fn what_cannot_be_asked_names_the_field() {
    for (fields, param) in [
        (json!({"n": 2}), "n"),
        (json!({"messages": 3}), "messages"),
        (json!({"messages": [{"role": "owl", "content": "hu"}]}), "messages"),
        (json!({"tools": [{"type": "web_search"}]}), "tools"),
        (json!({"tools": [f()], "tool_choice": {"type": "allowed_tools", "allowed_tools": 1}}), "tool_choice"),
        (json!({"response_format": 1}), "response_format"),
    ] {
        let Err(Error::Status(refusal)) = body(&prompt(fields.clone()), &PLAIN) else { panic!("{fields} is no refusal") };
        assert_eq!((refusal.status, refusal.body.param.as_deref()), (400, Some(param)), "{fields}");
    }
}
