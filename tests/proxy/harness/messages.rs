//! Replies in Anthropic's words: named server-sent events, blocks in pieces, a ping.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Reply;

/// A streamed message of these blocks, each as `text`, `thinking` or `tool_use` makes it. One event is one piece.
pub(crate) fn message(blocks: &[Value], stop_reason: &str) -> Reply {
    let usage = json!({"input_tokens": 6, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 1});
    let start = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-up", "content": [], "usage": usage});
    let mut payloads = vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
    for (index, block) in blocks.iter().enumerate() {
        payloads.push(json!({"type": "content_block_start", "index": index, "content_block": block["begins"]}));
        let pieces = block["pieces"].as_array().unwrap();
        payloads.extend(pieces.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        payloads.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    payloads.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}));
    payloads.push(json!({"type": "message_stop"}));
    named(&payloads)
}

/// A stream of these payloads, each under its type's name.
pub(crate) fn named(payloads: &[Value]) -> Reply {
    let frame = |payload: &Value| Bytes::from(format!("event: {}\ndata: {payload}\n\n", payload["type"].as_str().unwrap()));
    Reply::streaming(payloads.iter().map(frame).collect())
}

/// A block of text in two pieces.
pub(crate) fn text(text: &str) -> Value {
    let pieces: Vec<Value> = halves(text).iter().map(|half| json!({"type": "text_delta", "text": half})).collect();
    json!({"begins": {"type": "text", "text": ""}, "pieces": pieces})
}

/// A block of signed thinking.
pub(crate) fn thinking(text: &str) -> Value {
    let pieces = [json!({"type": "thinking_delta", "thinking": text}), json!({"type": "signature_delta", "signature": "c2ln"})];
    json!({"begins": {"type": "thinking", "thinking": "", "signature": ""}, "pieces": pieces})
}

/// A call whose arguments, any text, come in two pieces.
pub(crate) fn tool_use(id: &str, name: &str, arguments: &str) -> Value {
    let pieces: Vec<Value> = halves(arguments).iter().map(|half| json!({"type": "input_json_delta", "partial_json": half})).collect();
    json!({"begins": {"type": "tool_use", "id": id, "name": name, "input": {}}, "pieces": pieces})
}

fn halves(text: &str) -> [&str; 2] {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    [&text[..middle], &text[middle..]]
}
