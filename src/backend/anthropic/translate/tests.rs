use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    backend::{Slot, target},
    chat::Reply,
    upstream,
    wire::sse::Decoder,
};

fn translator() -> Translator {
    let config = target::Config { url: "http://h".parse().unwrap(), api_key: None, slot: Slot::ApiKey };
    let wait = std::time::Duration::ZERO;
    let upstream = upstream::Config { connect_timeout: wait, first_byte_timeout: wait, idle_timeout: wait, total_timeout: wait };
    Translator::new(Arc::new(Target::new(config, upstream)), Some(Secret::new("Bearer sk-secret-key")))
}

/// The events of a stream that comes in these pieces.
fn events<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Vec<Event>, Error> {
    let (mut translator, mut decoder) = (translator(), Decoder::new(1 << 20));
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        while let Some(payload) = decoder.next_event().unwrap() {
            translator.read(payload)?;
        }
        events.extend(std::iter::from_fn(|| translator.next()));
    }
    translator.finish()?;
    Ok(events)
}

fn stream(payloads: &[serde_json::Value]) -> String {
    let frame = |payload: &serde_json::Value| format!("event: {}\ndata: {payload}\n\n", payload["type"].as_str().unwrap_or("x"));
    payloads.iter().map(frame).collect()
}

fn fold(payloads: &[serde_json::Value]) -> Reply {
    let mut reply = Reply::default();
    let events = events([stream(payloads).as_bytes()]).unwrap();
    assert!(matches!(events.first(), Some(Event::Started(_))) && matches!(events.last(), Some(Event::Usage(_))), "{events:?}");
    events.into_iter().for_each(|event| reply.add(event));
    reply
}

fn start() -> serde_json::Value {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1});
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude", "usage": usage}})
}

fn begin(index: usize, block: serde_json::Value) -> serde_json::Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn call(index: usize, id: &str, input: serde_json::Value) -> serde_json::Value {
    begin(index, json!({"type": "tool_use", "id": id, "name": "f", "input": input}))
}

fn delta(index: usize, delta: serde_json::Value) -> serde_json::Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn json_delta(index: usize, piece: &str) -> serde_json::Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
}

fn text(index: usize, text: &str) -> serde_json::Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn end(index: usize) -> serde_json::Value {
    json!({"type": "content_block_stop", "index": index})
}

fn finish(reason: &str) -> [serde_json::Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}), json!({"type": "message_stop"})]
}

fn whole(middle: &[serde_json::Value], reason: &str) -> Vec<serde_json::Value> {
    [start()].into_iter().chain(middle.to_vec()).chain(finish(reason)).collect()
}

/// What every part of the format looks like in one stream.
fn rich() -> Vec<serde_json::Value> {
    whole(
        &[
            json!({"type": "ping"}),
            begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "h\u{e9}"})),
            delta(0, json!({"type": "signature_delta", "signature": "abc="})),
            end(0),
            begin(1, json!({"type": "redacted_thinking", "data": "xyz="})),
            end(1),
            begin(2, json!({"type": "text", "text": ""})),
            text(2, "Let me"),
            text(2, " see."),
            end(2),
            begin(3, json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}})),
            json_delta(3, "{\"q\":1}"),
            end(3),
            call(4, "toolu_1", json!({})),
            json_delta(4, ""),
            json_delta(4, "{\"a\""),
            json_delta(4, ": 1}"),
            end(4),
            call(6, "toolu_2", json!({"b": [2]})),
            end(6),
            call(7, "toolu_3", json!({})),
            end(7),
        ],
        "tool_use",
    )
}

#[test]
fn blocks_become_reasoning_text_and_calls_numbered_without_gaps() {
    let reply = fold(&rich());
    assert_eq!((reply.meta.id.as_deref(), reply.meta.model.as_deref()), (Some("msg_1"), Some("claude")));
    assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), ("h\u{e9}", "Let me see."));
    let calls: Vec<_> = reply.calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("toolu_1", "f", r#"{"a": 1}"#), ("toolu_2", "f", r#"{"b":[2]}"#), ("toolu_3", "f", "{}")]);
    assert_eq!(reply.finish, Some(FinishReason::ToolCalls));
    let usage = Usage { prompt_tokens: 125, completion_tokens: 7, cached_tokens: 100, reasoning_tokens: 0, cache_write_tokens: 20 };
    assert_eq!(reply.usage, usage);
}

#[test]
fn reasons_to_end() {
    for (word, expected) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("pause_turn", FinishReason::Length),
        ("tool_use", FinishReason::ToolCalls),
        ("refusal", FinishReason::ContentFilter),
        ("something_new", FinishReason::Stop),
    ] {
        assert_eq!(fold(&whole(&[], word)).finish, Some(expected), "{word}");
    }
    let details = json!({"type": "refusal", "category": null, "explanation": "I will not."});
    let refused = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}});
    assert_eq!(fold(&[start(), refused, json!({"type": "message_stop"})]).refusal, "I will not.");
}

#[test]
fn usage_of_the_end_counts() {
    let counted = |usage: serde_json::Value| {
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
        let usage = fold(&[start(), end, json!({"type": "message_stop"})]).usage;
        [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.reasoning_tokens]
    };
    assert_eq!(counted(json!({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}})), [125, 100, 9, 4]);
    assert_eq!(counted(json!({"input_tokens": 0, "output_tokens": 9})), [125, 100, 9, 0]);
    assert_eq!(counted(json!({"input_tokens": 6, "cache_read_input_tokens": 200, "output_tokens": 9})), [206, 200, 9, 0]);
    assert_eq!(counted(json!(null)), [125, 100, 1, 0]);
}

#[test]
fn what_servers_leave_out_or_add_does_no_harm() {
    // No end of the block, one number for all blocks, arguments at the beginning and once more in pieces, no reason.
    let reply = fold(&[
        json!({"type": "message_start"}),
        call(0, "a", json!({"x": 1})),
        json_delta(0, "{\"x\":1}"),
        call(0, "b", json!(null)),
        json!({"type": "something_new", "delta": null}),
        json!({"type": "message_stop"}),
        json!({"type": "message_stop"}),
    ]);
    let arguments: Vec<_> = reply.calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!((arguments, reply.finish), (vec![r#"{"x":1}"#, "{}"], Some(FinishReason::ToolCalls)));
    // No beginning, and OpenAI's end.
    let mut bare = stream(&[text(0, "hi")]);
    bare.push_str(&stream(&finish("end_turn")));
    bare.push_str("data: [DONE]\n\n");
    let mut reply = Reply::default();
    events([bare.as_bytes()]).unwrap().into_iter().for_each(|event| reply.add(event));
    assert_eq!((reply.content.as_str(), reply.finish), ("hi", Some(FinishReason::Stop)));
}

#[test]
fn a_whole_message_is_read_where_the_server_did_not_stream() {
    let usage = json!({"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5});
    let content = json!([{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": [1]}}]);
    let reply =
        fold(&[json!({"type": "message", "id": "m", "model": "c", "content": content, "stop_reason": "max_tokens", "usage": usage})]);
    assert_eq!(
        (reply.content.as_str(), reply.calls[0].arguments.as_str(), reply.finish),
        ("hi", r#"{"x":[1]}"#, Some(FinishReason::Length))
    );
    assert_eq!((reply.meta.id.as_deref(), reply.usage.prompt_tokens, reply.usage.completion_tokens), (Some("m"), 7, 5));
}

#[test]
fn a_stream_that_is_cut_is_no_reply() {
    let payloads = rich();
    for length in 0..payloads.len() {
        let cut = events([stream(&payloads[..length]).as_bytes()]);
        assert!(matches!(cut, Err(Error::Protocol(_))), "{length}");
    }
    assert!(matches!(events([&b"data: no json\n\n"[..]]), Err(Error::Protocol(_))));
    assert!(matches!(events([&b"data: 7\n\n"[..]]), Err(Error::Protocol(_))));
}

#[test]
fn errors_in_the_stream_have_the_status_of_their_type() {
    let check = |error: serde_json::Value, expected: (u16, Option<&str>)| {
        let failed = events([stream(&[start(), json!({"type": "error", "error": error})]).as_bytes()]);
        let Err(Error::Status(refusal)) = failed else { panic!("{failed:?} is no refusal") };
        assert_eq!((refusal.status, refusal.body.message.as_deref()), expected);
    };
    check(json!({"type": "overloaded_error", "message": "Overloaded"}), (529, Some("Overloaded")));
    check(json!({"type": "rate_limit_error", "message": "m"}), (429, Some("m")));
    check(json!({"type": "api_error", "message": "key sk-secret-key"}), (500, Some("key [secret]")));
    check(json!({"type": "authentication_error"}), (401, None));
    check(json!({"type": "new_error", "message": "m"}), (502, Some("m")));
    check(json!({"code": 503, "type": "unavailable_error", "message": "Loading"}), (503, Some("Loading")));
}

proptest! {
    #[test]
    fn the_cuts_do_not_matter(cuts in proptest::collection::vec(0usize..4000, 0..12)) {
        let whole = stream(&rich());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % whole.len()).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([whole.len()]);
        let pieces = [0].into_iter().chain(cuts.iter().copied()).zip(ends).map(|(from, to)| &whole.as_bytes()[from..to]);
        let told = |events: Vec<Event>| format!("{events:?}");
        prop_assert_eq!(told(events(pieces).unwrap()), told(events([whole.as_bytes()]).unwrap()));
    }
}
