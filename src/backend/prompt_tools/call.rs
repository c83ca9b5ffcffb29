//! How a call and its result are written as text.
//!
//! A call has the form of Hermes and Qwen, with its arguments in the spelling of whoever wrote them: what a model said once, it reads again
//! in the same tokens, which the server's prompt cache knows.
//!
//! A result stands in Qwen's tags as it is. In a JSON object, as Hermes has it, every quote and line break of it would be escaped: small
//! models read that badly, copy it into files, and it is longer. The tool's name stands in front, since results of several calls come in
//! one message.

use std::collections::HashMap;

use serde_json::json;

use super::message::{Message, Role};
use crate::{
    chat,
    wire::{
        content::{joined, string_body, text_part},
        object::{Object, array, decoded, elements, encoded},
    },
};

/// The names of the tools that were called, by the JSON texts of the calls' ids.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

/// Calls in `message` become text behind its own, and a result becomes a text of the user. A message whose calls cannot be read is not
/// understood.
pub(super) fn make_text(message: &mut Message<'_>, names: &mut Names) {
    match message.role {
        Role::Assistant => match Call::all_of(message) {
            Some(calls) => say(message, &calls, names),
            None => message.role = Role::Other,
        },
        Role::Tool => *message = answer(message, names),
        Role::System | Role::User | Role::Other => {}
    }
}

/// A call as text. The name and the arguments are JSON texts.
pub(super) fn block(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}

/// A call in a client's form.
pub(super) fn json(call: &chat::Call) -> String {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}).to_string()
}

/// A past call.
struct Call {
    /// The JSON text of its id.
    id: Option<String>,
    name: String,
    /// The JSON text of its arguments.
    arguments: String,
}

impl Call {
    /// The calls of an assistant's message; `None` when one cannot be read.
    fn all_of(message: &Message<'_>) -> Option<Vec<Self>> {
        let fields = message.fields();
        let mut calls = Vec::new();
        for call in fields.get("tool_calls").map_or(Some(Vec::new()), |list| elements(list))? {
            let call = Object::read(call)?;
            let id = call.get("id").map(ToString::to_string);
            calls.push(Self::of_function(id, call.get("function")?)?);
        }
        // Its older form, which has no id: the result has the name.
        if let Some(call) = fields.get("function_call") {
            calls.push(Self::of_function(None, call)?);
        }
        Some(calls)
    }

    fn of_function(id: Option<String>, function: &str) -> Option<Self> {
        let function = Object::read(function)?;
        let arguments = match function.get("arguments") {
            Some(text) if text.starts_with('"') => decoded(text)?,
            other => other.map(ToString::to_string).unwrap_or_default(),
        };
        let arguments = match arguments.trim() {
            "" => "{}".to_owned(),
            object if Object::read(object).is_some() => object.to_owned(),
            broken => encoded(broken),
        };
        Some(Self { id, name: function.text("name")?, arguments })
    }
}

fn say(message: &mut Message<'_>, calls: &[Call], names: &mut Names) {
    let had_calls = message.remove("tool_calls");
    if !message.remove("function_call") && !had_calls {
        return;
    }
    if !calls.is_empty() {
        let blocks: Vec<String> = calls.iter().map(|call| block(&encoded(&call.name), &call.arguments)).collect();
        let content = joined([message.content(), &encoded(&blocks.join("\n"))]);
        message.set("content", content);
    }
    for call in calls {
        call.id.as_ref().map(|id| names.0.insert(id.clone(), call.name.clone()));
    }
}

/// The user's message that stands for a result.
fn answer(result: &Message<'_>, names: &Names) -> Message<'static> {
    let fields = result.fields();
    let name = fields.get("tool_call_id").and_then(|id| names.0.get(id.as_ref()).cloned()).or_else(|| fields.text("name"));
    let opening = match name {
        Some(name) => format!("{RESULT_START}\nResult of `{name}`:\n"),
        None => format!("{RESULT_START}\n"),
    };
    Message::added(Role::User, wrapped(&opening, result.content(), &format!("\n{RESULT_END}")))
}

/// `content` between two texts.
fn wrapped(before: &str, content: &str, after: &str) -> String {
    let (before, after) = (encoded(before), encoded(after));
    let body = if content == "null" { Some("") } else { string_body(content) };
    if let (Some(before), Some(body), Some(after)) = (string_body(&before), body, string_body(&after)) {
        return format!("\"{before}{body}{after}\"");
    }
    let (before, after) = (text_part(&before), text_part(&after));
    array([before.as_str()].into_iter().chain(elements(content).unwrap_or_default()).chain([after.as_str()]))
}

pub(super) const RESULT_START: &str = "<tool_response>";
const RESULT_END: &str = "</tool_response>";
