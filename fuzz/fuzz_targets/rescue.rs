//! What is rescued from a text keeps its promises: only what was offered or marked is called, with arguments that were written, and what
//! a model thinks, programs or hands over calls nothing.
//!
//! What stands before a `~` in the input was shown already; the `~` is not part of the text.

#![no_main]

use std::{collections::HashMap, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json, value::RawValue};
use toolgate::inference::{
    offer::{Offer, Tool},
    rescue::{Call, Form, Rescued, rescue},
};

fuzz_target!(|input: &str| {
    let (shown, held) = input.split_once('~').unwrap_or(("", input));
    let text = &format!("{shown}{held}");
    if let Some(rescued) = rescue(text, shown.len(), &OFFER) {
        check_calls(text, held, &rescued);
        check_content(shown, held, &rescued.content);
    }
    assert_eq!(rescue(text, text.len(), &OFFER), None, "of what was shown");
    check_reasoning(text);
    check_code(text);
    check_data(text);
});

static OFFER: LazyLock<Offer> = LazyLock::new(|| {
    let save = json!({"type": "object", "properties": {
        "path": {"type": "string"}, "size": {"type": "integer"}, "force": {"type": "boolean"}, "tags": {"type": "array"},
        "note": {"type": ["string", "null"]}, "limit": {"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}]},
    }, "$defs": {"count": {"type": "integer"}}});
    let tools = vec![Tool::new("save".to_owned(), save), Tool::new("ping".to_owned(), Value::Null)];
    Offer::of(tools)
});

fn check_calls(text: &str, held: &str, Rescued { calls, form, .. }: &Rescued) {
    assert!(!calls.is_empty(), "what is rescued has calls");
    for call in calls {
        assert!(!call.name.is_empty(), "a call has a name");
        assert!(serde_json::from_str::<&RawValue>(&call.arguments).is_ok(), "arguments are JSON: {call:?}");
    }
    // Reasoning in the middle of a call is taken out, so that the call does not stand in the text in one piece.
    if may_have_reasoning(text) {
        return;
    }
    let is_offered = |call: &Call| OFFER.find(&call.name).is_some();
    let is_marked = MARKERS.iter().any(|marker| text.contains(marker));
    assert!(is_marked || calls.iter().any(is_offered), "unmarked calls hold an offered one: {calls:?}");
    // Escapes are decoded, in a name and in arguments that are a string.
    for call in calls.iter().filter(|_| !held.contains('\\')) {
        assert!(is_offered(call) || held.contains(&call.name), "a name is offered or written: {call:?}");
        assert!(is_written(&call.arguments, held), "arguments are not invented: {call:?}");
    }
    let token = match form {
        Form::Mistral => "[TOOL_CALLS]",
        Form::QwenXml | Form::FunctionTag => "<function=",
        Form::Phi => "functools[",
        Form::DeepSeek | Form::Kimi => "tool",
        Form::Harmony => "<|message|>",
        Form::Glm => "<tool_call>",
        Form::Invoke | Form::MiniMax => "<",
        Form::Pythonic | Form::Lfm => "(",
        Form::React => "Action Input:",
        Form::Yaml => ": ",
        Form::Rehearsal
        | Form::Json
        | Form::OpenAi
        | Form::Hermes
        | Form::Granite
        | Form::Nemotron
        | Form::CommandR
        | Form::Llama
        | Form::Functionary => "",
    };
    assert!(held.contains(token), "{form:?} has its token");
}

/// Whether arguments stand in a text: as they are, member by member where they were XML, or not at all where there are none.
fn is_written(arguments: &str, text: &str) -> bool {
    if arguments == "{}" || text.contains(arguments) {
        return true;
    }
    let members: HashMap<String, &RawValue> = serde_json::from_str(arguments).unwrap_or_default();
    !members.is_empty()
        && members.iter().all(|(key, value)| {
            let is_named = text.contains(key) || is_only_parameter(key);
            is_named && (text.contains(value.get()) || serde_json::from_str(value.get()).is_ok_and(|value| holds_leaves(&value, text)))
        })
}

/// The only parameter of a tool may be left unnamed; the tools here have several or none.
fn is_only_parameter(key: &str) -> bool {
    OFFER
        .tools
        .iter()
        .any(|tool| tool.parameters["properties"].as_object().is_some_and(|known| known.len() == 1 && known.contains_key(key)))
}

/// Whether every text, number and constant of a value stands in a text, as JSON or as Python's.
fn holds_leaves(value: &Value, text: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| holds_leaves(item, text)),
        Value::Object(members) => members.iter().all(|(key, value)| text.contains(key) && holds_leaves(value, text)),
        Value::String(written) => text.contains(written),
        Value::Null => text.contains("null") || text.contains("None"),
        Value::Bool(true) => text.contains("true") || text.contains("True"),
        Value::Bool(false) => text.contains("false") || text.contains("False"),
        // Another spelling of the same number is told by its own text, which is looked for before.
        Value::Number(_) => true,
    }
}

fn check_content(shown: &str, held: &str, content: &str) {
    let Some(around) = content.strip_prefix(shown) else { panic!("content begins with what was shown: {content:?}") };
    assert_eq!(around.trim_end(), around, "content is trimmed");
    let mut rest = held.chars();
    let is_next = |char: char| rest.any(|other| other == char);
    assert!(around.chars().filter(|char| !char.is_whitespace()).all(is_next), "content is of the text: {content:?}");
}

/// What a model thinks calls nothing and changes nothing.
fn check_reasoning(text: &str) {
    assert_eq!(rescue(&format!("<think>so</think>{text}"), 0, &OFFER), rescue(text, 0, &OFFER), "behind reasoning");
    if !may_have_reasoning(text) {
        assert_eq!(rescue(&format!("<think>{text}"), 0, &OFFER), None, "in reasoning");
        assert_eq!(rescue(&format!("[THINK]{text}[/THINK]So."), 0, &OFFER), None, "in reasoning that has ended");
    }
}

/// A program that holds what looks like calls is none.
fn check_code(text: &str) {
    if !text.contains('`') && !may_have_reasoning(text) {
        assert_eq!(rescue(&format!("```js\n{text}\n```"), 0, &OFFER), None, "in code");
    }
}

/// What a call hands over reaches the tool as it is, whatever it looks like.
fn check_data(text: &str) {
    let arguments = json!({"path": text}).to_string();
    // One form an input, for speed.
    let (form, call) = match text.len() % 4 {
        0 => (Form::Json, format!(r#"{{"name":"save","arguments":{arguments}}}"#)),
        1 => (Form::Mistral, format!("[TOOL_CALLS]save[ARGS]{arguments}")),
        2 => (Form::Rehearsal, format!("save[ARGS]{arguments}")),
        _ => (Form::FunctionTag, format!("<function=save>{arguments}</function>")),
    };
    let calls = vec![Call { name: "save".to_owned(), arguments }];
    assert_eq!(rescue(&call, 0, &OFFER), Some(Rescued { calls, content: String::new(), form }), "as data of {call}");
}

/// Whether a text may have a tag of reasoning in it.
fn may_have_reasoning(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["think", "thought", "reasoning", "analysis"].iter().any(|word| text.contains(word))
}

/// What says that a call follows, which then need not be of an offered tool.
const MARKERS: [&str; 16] = [
    "[TOOL_CALLS]",
    "[ARGS]",
    "<function=",
    "<tool_call",
    "<|tool",
    "<｜tool",
    "tool_call",
    "tool\\_call",
    "<|python_",
    "functools[",
    "<TOOLCALL>",
    "<|START_ACTION|>",
    "<|message|>",
    "<function_calls>",
    "invoke name=",
    "tool call",
];
