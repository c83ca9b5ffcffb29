//! The synthetic tool `respond(message)`: a model that must call something can still talk.
//!
//! Small models take "call a tool or answer" badly and "call one of these tools" well. Trusting their own signal that text was
//! meant costs most of the correct calls, so answering becomes a tool too. The client never sees it.

pub(crate) mod message;

use std::sync::LazyLock;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use crate::{
    chat::{Request, ToolChoice},
    inference::offer::Tool,
};

/// The tool's name.
pub const NAME: &str = "respond";

static DEFINITION: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "function",
        "function": {
            "name": NAME,
            "description": "Say something to the user. Use it to answer, to ask back, or to report a result, whenever no other tool is needed.",
            "parameters": {
                "type": "object",
                "properties": {"message": {"type": "string", "description": "The text that the user reads."}},
                "required": ["message"]
            }
        }
    })
});

/// Whether the tool belongs into the offer: only where the model may choose, and never beside a tool of that name.
pub(super) fn fits(request: &Request) -> bool {
    request.tool_choice == ToolChoice::Auto && !request.tools.iter().any(|tool| tool.name == NAME)
}

/// The tool, for validation.
pub(super) fn tool() -> Tool {
    let parameters = DEFINITION.pointer("/function/parameters").cloned().unwrap_or_default();
    Tool::new(NAME.to_owned(), parameters)
}

/// The JSON array `tools` with the tool at its end; the rest keeps its bytes.
pub(super) fn append(tools: &[u8]) -> Bytes {
    let open = tools.trim_ascii_end().strip_suffix(b"]").unwrap_or(tools);
    let definition = DEFINITION.to_string();
    let mut array = BytesMut::with_capacity(open.len() + definition.len() + 2);
    array.put_slice(open);
    array.put_slice(b",");
    array.put_slice(definition.as_bytes());
    array.put_slice(b"]");
    array.freeze()
}

/// The message in `arguments`, whole or cut off: `message`, or the only string where the model gave it another name, or the arguments
/// themselves when they are a string. `None` when there is none to read.
pub(super) fn message(arguments: &str) -> Option<String> {
    let mut reader = message::Reader::default();
    reader.push(arguments);
    let text = reader.take();
    if !text.is_empty() {
        return Some(text);
    }
    match serde_json::from_str(arguments).ok()? {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => only_string(fields),
            _ => Some(text),
        },
        Value::Object(fields) => only_string(fields),
        _ => None,
    }
}

fn only_string(mut fields: Map<String, Value>) -> Option<String> {
    if let Some(Value::String(message)) = fields.remove("message") {
        return Some(message);
    }
    let mut fields = fields.into_iter();
    match (fields.next(), fields.next()) {
        (Some((_, Value::String(text))), None) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_appended_without_touching_the_rest() {
        let appended = append(b"[ {\"x\":1} ]\n");
        assert!(appended.starts_with(b"[ {\"x\":1} ,{"));
        let list: Vec<Value> = serde_json::from_slice(&appended).unwrap();
        assert_eq!(list[1], *DEFINITION);
    }

    #[test]
    fn a_message_is_read_wherever_it_can_only_be() {
        let check = |arguments: &str, expected: Option<&str>| assert_eq!(message(arguments).as_deref(), expected, "{arguments}");
        check(r#"{"message":"hi","to":"you"}"#, Some("hi"));
        check(r#"{"text":"hi"}"#, Some("hi"));
        check(r#""hi""#, Some("hi"));
        check(r#""{\"message\":\"hi\"}""#, Some("hi"));
        check(r#"{"text":"hi","tone":"kind"}"#, None);
        check(r#"{"message":3}"#, None);
        check("{}", None);
        check(r#"{"message":"cut of"#, Some("cut of"));
        check("no JSON", None);
    }
}
