//! A stream read as the strictest of the known clients reads it.

use serde_json::{Value, json};

/// The chunks of a stream that ended well, without the comments between them.
pub(crate) fn events(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    let body = text.strip_suffix("data: [DONE]\n\n").unwrap_or_else(|| panic!("no [DONE] at the end: {text}"));
    let payload = |frame: &str| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
    body.split_terminator("\n\n").filter(|frame| !frame.starts_with(':')).map(payload).collect()
}

/// The text in a stream that has not ended, up to the last whole frame.
pub(crate) fn text_so_far(stream: &str) -> String {
    let frames = stream.rsplit_once("\n\n").map_or("", |(frames, _)| frames).split("\n\n");
    let deltas = frames.filter_map(|frame| serde_json::from_str::<Value>(frame.strip_prefix("data: ")?).ok());
    deltas.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

/// The completion that the chunks make. Fails where an official client would stumble: see each assertion.
pub(crate) fn fold(chunks: &[Value]) -> Value {
    let first = &chunks[0];
    let mut message = json!({"role": first["choices"][0]["delta"]["role"], "content": null});
    assert_eq!(message["role"], "assistant", "the role comes first");
    let (mut finish, mut usage, mut logprobs) = (None, Value::Null, Vec::new());
    for chunk in chunks {
        for key in ["id", "created", "model", "object", "system_fingerprint"] {
            assert_eq!(chunk[key], first[key], "`{key}` is the same in each chunk");
        }
        assert_eq!(chunk["object"], "chat.completion.chunk");
        if chunk["usage"].is_object() {
            assert!(usage.is_null() && chunk["choices"] == json!([]), "usage comes once, in a chunk of its own");
            usage = chunk["usage"].clone();
            continue;
        }
        assert!(usage.is_null(), "usage comes last");
        assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
        let choice = &chunk["choices"][0];
        assert!(finish.is_none(), "nothing follows the finish reason: {chunk}");
        finish = choice["finish_reason"].as_str();
        logprobs.extend(choice["logprobs"]["content"].as_array().cloned().unwrap_or_default());
        add(&mut message, &choice["delta"]);
    }
    let logprobs = if logprobs.is_empty() { Value::Null } else { json!({"content": logprobs, "refusal": null}) };
    json!({
        "id": first["id"], "created": first["created"], "model": first["model"], "system_fingerprint": first["system_fingerprint"],
        "message": message, "finish_reason": finish.expect("a finish reason"), "usage": usage, "logprobs": logprobs,
    })
}

fn add(message: &mut Value, delta: &Value) {
    for key in ["content", "reasoning_content", "refusal"] {
        if let Some(more) = delta[key].as_str() {
            let so_far = message[key].as_str().unwrap_or_default();
            message[key] = Value::from(so_far.to_owned() + more);
        }
    }
    for piece in delta["tool_calls"].as_array().into_iter().flatten() {
        call(message, piece);
    }
}

fn call(message: &mut Value, piece: &Value) {
    if message["tool_calls"].is_null() {
        message["tool_calls"] = json!([]);
    }
    let calls = message["tool_calls"].as_array_mut().unwrap();
    let index = usize::try_from(piece["index"].as_u64().expect("every piece has an index")).unwrap();
    let arguments = piece["function"]["arguments"].as_str().expect("arguments are a string").to_owned();
    if index == calls.len() {
        assert!(piece["id"].is_string() && piece["type"] == "function" && piece["function"]["name"].is_string(), "{piece}");
        calls.push(json!({"id": piece["id"], "type": "function", "function": {"name": piece["function"]["name"], "arguments": arguments}}));
        return;
    }
    for key in ["id", "type"] {
        assert!(piece[key].is_null(), "`{key}` comes once");
    }
    assert!(piece["function"]["name"].is_null(), "the name comes once");
    let so_far = calls[index]["function"]["arguments"].as_str().unwrap().to_owned();
    calls[index]["function"]["arguments"] = Value::from(so_far + &arguments);
}
