//! Whatever a call's arguments are, a call that is written in a dialect is read back as it was.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::offer;
use crate::inference::rescue::rescue;

/// Writes a call with these arguments.
type Write = fn(&Value) -> String;

/// The forms whose arguments are JSON, which can hold any text.
const JSON_FORMS: &[(&str, Write)] = &[
    ("json", |arguments| object("arguments", arguments)),
    ("openai", |arguments| json!({"type": "function", "function": {"name": NAME, "arguments": arguments.to_string()}}).to_string()),
    ("hermes", |arguments| format!("<tool_call>\n{}\n</tool_call>", object("arguments", arguments))),
    ("granite", |arguments| format!("<|tool_call|>[{}]", object("arguments", arguments))),
    ("nemotron", |arguments| format!("<TOOLCALL>[{}]</TOOLCALL>", object("arguments", arguments))),
    ("minimax", |arguments| format!("<tool_calls>\n{}\n</tool_calls>", object("arguments", arguments))),
    ("command_r", |arguments| {
        format!("<|START_ACTION|>[{}]<|END_ACTION|>", json!({"tool_call_id": "0", "tool_name": NAME, "parameters": arguments}))
    }),
    ("command_r", |arguments| format!("Action: ```json\n[{}]\n```", json!({"tool_name": NAME, "parameters": arguments}))),
    ("phi", |arguments| format!("functools[{}]", object("arguments", arguments))),
    ("llama", |arguments| format!("<|python_tag|>{}<|eom_id|>", object("parameters", arguments))),
    ("mistral", |arguments| format!("[TOOL_CALLS][{}]", object("arguments", arguments))),
    ("mistral", |arguments| format!("[TOOL_CALLS]{NAME}[ARGS]{arguments}")),
    ("rehearsal", |arguments| format!("{NAME}[ARGS]{arguments}")),
    ("function_tag", |arguments| format!("<function={NAME}>{arguments}</function>")),
    ("deepseek", |arguments| format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{NAME}\n```json\n{arguments}\n```<｜tool▁call▁end｜>")),
    ("deepseek", |arguments| format!("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{NAME}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>")),
    ("kimi", |arguments| format!("<|tool_call_begin|>functions.{NAME}:0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>")),
    ("harmony", |arguments| format!("<|channel|>commentary to=functions.{NAME} <|constrain|>json<|message|>{arguments}<|call|>")),
    ("functionary", |arguments| format!(">>>{NAME}\n{arguments}")),
    ("react", |arguments| format!("Action: {NAME}\nAction Input: {arguments}")),
];

/// The forms whose values stand as raw text, which cannot hold their own tags.
const TEXT_FORMS: &[(&str, Write)] = &[
    ("qwen_xml", |arguments| {
        let parameters = members(arguments, |key, value| format!("<parameter={key}>\n{value}\n</parameter>\n"));
        format!("<tool_call>\n<function={NAME}>\n{parameters}</function>\n</tool_call>")
    }),
    ("glm", |arguments| {
        let parameters = members(arguments, |key, value| format!("<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"));
        format!("<tool_call>{NAME}\n{parameters}</tool_call>")
    }),
    ("invoke", |arguments| format!("<function_calls>\n{}\n</function_calls>", invoke(arguments))),
    ("minimax", |arguments| format!("<minimax:tool_call>\n{}\n</minimax:tool_call>", invoke(arguments))),
    ("pythonic", |arguments| format!("[{}]", python_call(arguments))),
    ("pythonic", |arguments| format!("Sure.\n```tool_code\n{}\n```", python_call(arguments))),
    ("lfm", |arguments| format!("<|tool_call_start|>[{}]<|tool_call_end|>", python_call(arguments))),
    ("yaml", |arguments| format!("<tool_call>\nname: {NAME}\narguments: {arguments}\n</tool_call>")),
];

const NAME: &str = "save";

fn object(key: &str, arguments: &Value) -> String {
    json!({"name": NAME, key: arguments}).to_string()
}

fn members(arguments: &Value, write: impl Fn(&str, &str) -> String) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    arguments.as_object().unwrap().iter().map(|(key, value)| write(key, &text(value))).collect()
}

fn invoke(arguments: &Value) -> String {
    let parameters = members(arguments, |key, value| format!("<parameter name=\"{key}\">\n{value}\n</parameter>\n"));
    format!("<invoke name=\"{NAME}\">\n{parameters}</invoke>")
}

fn python_call(arguments: &Value) -> String {
    let arguments = arguments.as_object().unwrap().iter().map(|(key, value)| format!("{key}={}", python(value)));
    format!("{NAME}({})", arguments.collect::<Vec<_>>().join(", "))
}

fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{}: {}", python(&json!(key)), python(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Texts of what is hard to read, with or without tags.
fn text(with_tags: bool) -> impl Strategy<Value = String> {
    let plain =
        ["a", "é😀", " ", "\"", "'", "\\", "\n", "{", "}", "[", "]", "(", ")", "`", "```", ":", "#", ",", "example", "ping[ARGS]{}"];
    let tags = ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|call|>", "</function>", "<think>", "</think>", ">>>ping\n{}", "Action:"];
    let count = if with_tags { tags.len() } else { 0 };
    let fragments: Vec<&str> = plain.iter().chain(tags.iter().take(count)).copied().collect();
    proptest::collection::vec(proptest::sample::select(fragments), 0..8).prop_map(|fragments| fragments.concat())
}

fn arguments(with_tags: bool) -> impl Strategy<Value = Value> {
    let values = (text(with_tags), any::<i64>(), any::<bool>(), proptest::collection::vec(text(with_tags), 0..3), text(with_tags));
    values.prop_map(|(path, size, force, tags, inner)| {
        json!({"path": path, "size": size, "force": force, "tags": tags, "meta": {"a": {"b": [inner, null, 1.5]}}})
    })
}

fn check(forms: &[(&str, Write)], arguments: &Value) -> Result<(), TestCaseError> {
    for (form, write) in forms {
        let text = write(arguments);
        let rescued = rescue(&text, 0, &offer());
        let Some(rescued) = rescued else {
            return Err(TestCaseError::fail(format!("{form}: nothing in {text:?}")));
        };
        prop_assert_eq!(rescued.form.as_str(), *form, "{:?}", text);
        prop_assert_eq!(rescued.calls.len(), 1, "{:?}", text);
        prop_assert_eq!(&rescued.calls[0].name, NAME);
        prop_assert_eq!(&serde_json::from_str::<Value>(&rescued.calls[0].arguments).unwrap(), arguments, "{:?}", text);
    }
    Ok(())
}

proptest! {
    #[test]
    fn json_is_read_back(arguments in arguments(true)) {
        check(JSON_FORMS, &arguments)?;
    }

    #[test]
    fn raw_text_is_read_back(arguments in arguments(false)) {
        check(TEXT_FORMS, &arguments)?;
    }
}
