//! The request body for the server: the client's fields byte for byte, in their order, with what an attempt adds.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use crate::{
    backend::{Offered, Prompt},
    chat::Message,
};

/// The JSON body of one upstream call. It always streams, and asks for usage where the server understands that. `more` is added
/// where the client does not say it itself.
pub(in crate::backend) fn body(prompt: &Prompt, asks_usage: bool, more: &[(&str, Bytes)]) -> Bytes {
    let request = &prompt.request;
    let size: usize = request.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut body = BytesMut::with_capacity(size + 1024);
    body.put_slice(b"{");
    for (name, value) in &request.fields {
        match (name.as_str(), &prompt.offered) {
            ("stream" | "stream_options", _) | ("tools" | "tool_choice" | "parallel_tool_calls", Offered::Withheld) => {}
            // A server that forces its own form of a call cannot force ours.
            ("tool_choice" | "parallel_tool_calls" | "response_format", _) if prompt.form.is_some() => {}
            ("tools", Offered::Instead(tools)) => field(&mut body, name, &[tools]),
            ("messages", _) if !prompt.corrections.is_empty() => {
                field(&mut body, name, &[]);
                extended(&mut body, value, &prompt.corrections);
            }
            _ => match prompt.sampling.iter().find(|(replaced, _)| replaced == name) {
                Some((_, value)) => field(&mut body, name, &[value]),
                None => field(&mut body, name, &[value]),
            },
        }
    }
    if let Some(schema) = &prompt.form {
        field(&mut body, "response_format", &[br#"{"type":"json_schema","json_schema":{"name":"call","schema":"#, schema, b"}}"]);
    }
    for (name, value) in more.iter().filter(|(name, _)| request.field(name).is_none()) {
        field(&mut body, name, &[value]);
    }
    field(&mut body, "stream", &[b"true"]);
    if asks_usage {
        field(&mut body, "stream_options", &[br#"{"include_usage":true}"#]);
    }
    body.put_slice(b"}");
    body.freeze()
}

fn field(body: &mut BytesMut, name: &str, value: &[&[u8]]) {
    if body.len() > 1 {
        body.put_slice(b",");
    }
    put_json(body, &name);
    body.put_slice(b":");
    for part in value {
        body.put_slice(part);
    }
}

/// `messages` with the corrections at its end, so that the server's prompt cache still fits all that comes before.
fn extended(body: &mut BytesMut, messages: &[u8], corrections: &[Message]) {
    let open = messages.trim_ascii_end().strip_suffix(b"]").unwrap_or(messages);
    body.put_slice(open);
    let mut separator: &[u8] = if open.trim_ascii_end().ends_with(b"[") { b"" } else { b"," };
    for message in corrections {
        body.put_slice(separator);
        put_json(body, &wire(message));
        separator = b",";
    }
    body.put_slice(b"]");
}

fn wire(message: &Message) -> serde_json::Value {
    match message {
        Message::User(content) => json!({"role": "user", "content": content}),
        Message::Tool { call_id, content } => json!({"role": "tool", "tool_call_id": call_id, "content": content}),
        Message::Assistant { content, calls } if calls.is_empty() => json!({"role": "assistant", "content": content}),
        Message::Assistant { content, calls } => {
            let calls: Vec<_> = calls
                .iter()
                .map(|call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}))
                .collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
    }
}

fn put_json(body: &mut BytesMut, value: &impl serde::Serialize) {
    // Strings and JSON values always serialise.
    if serde_json::to_writer(body.writer(), value).is_err() {
        debug_assert!(false, "a JSON value did not serialise");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        backend::Served,
        chat::{Call, Request},
        wire::fields,
    };

    fn prompt(body: &'static str, offered: Offered, corrections: Vec<Message>) -> Prompt {
        let request = Request { fields: fields::object(&Bytes::from_static(body.as_bytes())).unwrap(), ..Request::default() };
        Prompt { request: Arc::new(request), offered, corrections, form: None, sampling: Vec::new(), served: Served::default() }
    }

    fn check(prompt: &Prompt, expected: &str) {
        assert_eq!(std::str::from_utf8(&body(prompt, true, &[])).unwrap(), expected);
    }

    #[test]
    fn keeps_the_clients_spelling_and_order() {
        check(
            &prompt(r#"{ "x" : 1e2, "tools": [ {"b":1,"a":2} ],"stream":false,"messages":[ ] }"#, Offered::AsRequested, vec![]),
            r#"{"x":1e2,"tools":[ {"b":1,"a":2} ],"messages":[ ],"stream":true,"stream_options":{"include_usage":true}}"#,
        );
    }

    #[test]
    fn what_is_added_never_replaces_what_the_client_says() {
        let more = [("cache_prompt", Bytes::from_static(b"false")), ("id_slot", Bytes::from_static(b"3"))];
        let written = body(&prompt(r#"{"id_slot":1}"#, Offered::AsRequested, vec![]), false, &more);
        assert_eq!(std::str::from_utf8(&written).unwrap(), r#"{"id_slot":1,"cache_prompt":false,"stream":true}"#);
    }

    #[test]
    fn withholds_all_that_speaks_of_tools() {
        check(
            &prompt(r#"{"tools":[1],"tool_choice":"none","parallel_tool_calls":true,"messages":[]}"#, Offered::Withheld, vec![]),
            r#"{"messages":[],"stream":true,"stream_options":{"include_usage":true}}"#,
        );
    }

    #[test]
    fn forces_a_form_and_shifts_the_sampling() {
        let body = r#"{"seed":1,"response_format":{"type":"text"},"tool_choice":"required","tools":[1]}"#;
        let forced = Prompt {
            form: Some(Bytes::from_static(b"{\"x\":1}")),
            sampling: vec![("seed", Bytes::from_static(b"2")), ("temperature", Bytes::from_static(b"1"))],
            ..prompt(body, Offered::AsRequested, vec![])
        };
        check(
            &forced,
            concat!(
                r#"{"seed":2,"tools":[1],"response_format":{"type":"json_schema","json_schema":{"name":"call","schema":{"x":1}}},"#,
                r#""stream":true,"stream_options":{"include_usage":true}}"#
            ),
        );
    }

    #[test]
    fn extends_the_transcript_at_its_end() {
        let call = Call { id: "c1".into(), name: "f".into(), arguments: "{}".into() };
        let corrections = vec![
            Message::Assistant { content: String::new(), calls: vec![call] },
            Message::Tool { call_id: "c1".into(), content: "no".into() },
            Message::User("again".into()),
        ];
        check(
            &prompt(r#"{"messages":[{"role":"user","content":"q"} ]}"#, Offered::Instead(Bytes::from_static(b"[]")), corrections),
            concat!(
                r#"{"messages":[{"role":"user","content":"q"} ,{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},"#,
                r#"{"role":"tool","tool_call_id":"c1","content":"no"},{"role":"user","content":"again"}],"stream":true,"stream_options":{"include_usage":true}}"#
            ),
        );
        let only = vec![Message::User("go".into())];
        check(
            &prompt(r#"{"messages":[ ]}"#, Offered::AsRequested, only),
            r#"{"messages":[ {"role":"user","content":"go"}],"stream":true,"stream_options":{"include_usage":true}}"#,
        );
    }
}
