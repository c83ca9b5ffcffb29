//! The messages of a run: the client's own bytes, and behind them what the client does not see.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::chat::{Call, Request};

/// The JSON array of messages as it grows.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    /// Without its closing bracket.
    open: String,
    /// Where what the client does not see begins.
    clients: usize,
}

impl Transcript {
    /// The messages of `request`.
    pub(super) fn of(request: &Request) -> Self {
        let text = String::from_utf8_lossy(&request.messages);
        let open = text.trim_end().strip_suffix(']').unwrap_or(&text).trim_end().to_owned();
        let clients = open.len();
        Self { open, clients }
    }

    /// Adds the JSON of a message.
    pub(super) fn push(&mut self, message: &str) {
        if !self.open.ends_with('[') {
            self.open.push(',');
        }
        self.open.push_str(message);
    }

    /// The whole array.
    pub(super) fn json(&self) -> Bytes {
        format!("{}]", self.open).into()
    }

    /// What the client does not see, as an array of its own.
    pub(super) fn hidden(&self) -> String {
        let hidden = self.open.get(self.clients..).unwrap_or_default();
        format!("[{}]", hidden.strip_prefix(',').unwrap_or(hidden))
    }

    /// Whether there is something that the client does not see.
    pub(super) fn hides(&self) -> bool {
        self.open.len() > self.clients
    }
}

/// What the model said and called, as a message. Reasoning is left out where there is none.
pub(super) fn assistant(content: &str, reasoning: &str, calls: &[Call]) -> String {
    let call = |call: &Call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
    let calls: Vec<Value> = calls.iter().map(call).collect();
    let content = if content.is_empty() { Value::Null } else { json!(content) };
    let mut message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    if let (false, Some(fields)) = (reasoning.is_empty(), message.as_object_mut()) {
        fields.insert("reasoning_content".to_owned(), json!(reasoning));
    }
    message.to_string()
}

/// The answer to one call; `content` is JSON.
pub(super) fn result(call_id: &str, content: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":{},"content":{content}}}"#, json!(call_id))
}

/// Something in the user's role.
pub(super) fn user(text: &str) -> String {
    json!({"role": "user", "content": text}).to_string()
}

/// What the user said last in `messages`, as text; empty when nothing.
pub(super) fn last_words(messages: &[u8]) -> String {
    let messages: Vec<Value> = serde_json::from_slice(messages).unwrap_or_default();
    let last = messages.iter().rfind(|message| message.get("role").is_some_and(|role| role == "user"));
    last.and_then(|message| message.get("content")).map(words).unwrap_or_default()
}

/// The text of a message's content.
pub(super) fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_bytes_stay() {
        let request = Request { messages: Bytes::from_static(b"[ {\"role\" : \"user\"} ] "), ..Request::default() };
        let mut transcript = Transcript::of(&request);
        assert!(!transcript.hides());
        transcript.push(&result("a", "\"b\""));
        assert_eq!(transcript.json(), &br#"[ {"role" : "user"},{"role":"tool","tool_call_id":"a","content":"b"}]"#[..]);
        assert_eq!(transcript.hidden(), r#"[{"role":"tool","tool_call_id":"a","content":"b"}]"#);
        assert!(transcript.hides());
    }

    #[test]
    fn an_empty_list_takes_a_first_message() {
        let request = Request { messages: Bytes::from_static(b"[]"), ..Request::default() };
        let mut transcript = Transcript::of(&request);
        transcript.push(&user("hi"));
        assert_eq!(transcript.json(), &br#"[{"role":"user","content":"hi"}]"#[..]);
        assert_eq!(transcript.hidden(), r#"[{"role":"user","content":"hi"}]"#);
    }

    #[test]
    fn the_last_words_are_the_users() {
        let check = |messages: &str, expected: &str| assert_eq!(last_words(messages.as_bytes()), expected, "{messages}");
        check(r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#, "a");
        check(r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]}]"#, "a\nb");
        check(r#"[{"role":"system","content":"a"}]"#, "");
        check("no JSON", "");
    }
}
