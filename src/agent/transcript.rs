//! The messages of a run: the client's own bytes, and behind them what the client does not see.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::chat::{Call, Request};

/// The JSON array of messages as it grows.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    /// Without its closing bracket.
    open: String,
}

impl Transcript {
    /// The messages of `request`.
    pub(super) fn of(request: &Request) -> Self {
        let text = String::from_utf8_lossy(&request.messages);
        let open = text.trim_end().strip_suffix(']').unwrap_or(&text).trim_end().to_owned();
        Self { open }
    }

    /// Adds what the model said.
    pub(super) fn push_assistant(&mut self, content: &str, calls: &[Call]) {
        let call = |call: &Call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let content = if content.is_empty() { Value::Null } else { json!(content) };
        self.push(&json!({"role": "assistant", "content": content, "tool_calls": calls}).to_string());
    }

    /// Adds the answer to one call; `content` is JSON.
    pub(super) fn push_result(&mut self, call_id: &str, content: &str) {
        self.push(&format!(r#"{{"role":"tool","tool_call_id":{},"content":{content}}}"#, json!(call_id)));
    }

    /// Adds something in the user's role.
    pub(super) fn push_user(&mut self, text: &str) {
        self.push(&json!({"role": "user", "content": text}).to_string());
    }

    fn push(&mut self, message: &str) {
        if !self.open.ends_with('[') {
            self.open.push(',');
        }
        self.open.push_str(message);
    }

    /// The whole array.
    pub(super) fn json(&self) -> Bytes {
        format!("{}]", self.open).into()
    }
}

/// What the user said last in `messages`, as text; empty when nothing.
pub(super) fn last_words(messages: &[u8]) -> String {
    let messages: Vec<Value> = serde_json::from_slice(messages).unwrap_or_default();
    let Some(last) = messages.iter().rfind(|message| message.get("role").is_some_and(|role| role == "user")) else { return String::new() };
    match last.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
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
        transcript.push_result("a", "\"b\"");
        assert_eq!(transcript.json(), &br#"[ {"role" : "user"},{"role":"tool","tool_call_id":"a","content":"b"}]"#[..]);
    }

    #[test]
    fn an_empty_list_takes_a_first_message() {
        let request = Request { messages: Bytes::from_static(b"[]"), ..Request::default() };
        let mut transcript = Transcript::of(&request);
        transcript.push_user("hi");
        assert_eq!(transcript.json(), &br#"[{"role":"user","content":"hi"}]"#[..]);
    }
}
