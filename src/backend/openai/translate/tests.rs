//! One test for each liberty that servers of chat completions are known to take.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::{
    backend::{Slot, stream::Translator as _, target},
    chat::Reply,
    upstream,
};

fn read(payloads: &[&str]) -> Result<Reply, Error> {
    let wait = Duration::from_secs(1);
    let upstream = upstream::Config { connect_timeout: wait, first_byte_timeout: wait, idle_timeout: wait, total_timeout: wait };
    let config = target::Config { url: "http://h".parse().unwrap(), api_key: None, slot: Slot::Authorization };
    let mut translator = Translator::new(Arc::new(Target::new(config, upstream)), Arc::default());
    let mut reply = Reply::default();
    for payload in payloads {
        translator.read(payload.as_bytes())?;
    }
    translator.finish()?;
    let mut started = false;
    while let Some(event) = translator.next() {
        started |= matches!(event, Event::Started(_));
        assert!(started, "{event:?} comes before the beginning of {payloads:?}");
        reply.add(event);
    }
    Ok(reply)
}

/// What is said by a stream of one choice with these deltas.
fn said(deltas: &[&str]) -> Reply {
    let chunks: Vec<String> = deltas.iter().map(|delta| format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#)).collect();
    let end = [r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"];
    read(&chunks.iter().map(String::as_str).chain(end).collect::<Vec<_>>()).unwrap()
}

#[test]
fn reasoning_is_found_in_every_known_field() {
    let check = |deltas: &[&str], reasoning: &str, content: &str| {
        let reply = said(deltas);
        assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), (reasoning, content), "{deltas:?}");
    };
    check(&[r#"{"reasoning_content":"so"}"#, r#"{"content":"yes"}"#], "so", "yes");
    check(&[r#"{"reasoning":"so"}"#, r#"{"content":"yes","reasoning":null}"#], "so", "yes");
    check(&[r#"{"thinking":"so","content":"yes"}"#], "so", "yes");
    // Both names, the old one kept for clients that know no other; or a text and its parts.
    check(&[r#"{"reasoning":"so","reasoning_content":"so"}"#], "so", "");
    check(&[r#"{"reasoning":"so","reasoning_details":[{"type":"reasoning.text","text":"so"}]}"#], "so", "");
    check(&[r#"{"reasoning_content":"","reasoning":"so"}"#], "so", "");
    check(&[r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"so"},{"type":"reasoning.encrypted","data":"x"}]}"#], "so", "");
    let parts = r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]}]}"#;
    check(&[parts, r#"{"content":[{"type":"text","text":"y"},{"type":"text","text":"es"}]}"#, r#"{"content":"!"}"#], "so", "yes!");
}

#[test]
fn calls_are_put_together_by_whatever_is_known() {
    let check = |deltas: &[&str], expected: &[(&str, &str)]| {
        let deltas: Vec<String> = deltas.iter().map(|pieces| format!(r#"{{"tool_calls":{pieces}}}"#)).collect();
        let reply = said(&deltas.iter().map(String::as_str).collect::<Vec<_>>());
        let calls: Vec<_> = reply.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, expected, "{deltas:?}");
    };
    // SGLang and older vLLM: an empty id and name with every later piece.
    check(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"id":"","function":{"name":"","arguments":"{}"}}]"#,
        ],
        &[("f", "{}")],
    );
    check(
        &[r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#, r#"[{"id":"","function":{"name":"","arguments":"}"}}]"#],
        &[("f", "{}")],
    );
    // Google: whole calls, all numbered 0 or not at all, with empty ids or none.
    for begin in [r#"{"index":0,"id":"","#, r#"{"index":0,"#, "{"] {
        let call = |name: &str| format!(r#"{begin}"function":{{"name":"{name}","arguments":"{{\"a\":1}}"}}}}"#);
        let expected = [("f", r#"{"a":1}"#), ("f", r#"{"a":1}"#), ("g", r#"{"a":1}"#)];
        check(&[&format!("[{},{}]", call("f"), call("f")), &format!("[{}]", call("g"))], &expected);
    }
    // Numbers as strings, ids as numbers; pieces told apart by their id alone.
    check(
        &[
            r#"[{"index":"0","id":1,"function":{"name":"f","arguments":"{"}},{"index":"1","id":2,"function":{"name":"g","arguments":"{"}}]"#,
            r#"[{"id":1,"function":{"arguments":"}"}},{"id":2,"function":{"arguments":"}"}}]"#,
        ],
        &[("f", "{}"), ("g", "{}")],
    );
    check(&[r#"[{"index":0,"function":{"name":"f","arguments":{"a":[1, 2]}}}]"#], &[("f", r#"{"a":[1, 2]}"#)]);
    check(&[r#"[{"index":0,"id":"a","function":{"name":"f"}}]"#, r#"[{"index":0}]"#], &[("f", "")]);
    check(&["null", "[]"], &[]);
}

#[test]
fn usage_is_found_wherever_it_stands() {
    let check = |payloads: &[&str], expected: [u64; 4]| {
        let usage = read(payloads).unwrap().usage;
        assert_eq!([usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens], expected, "{payloads:?}");
    };
    const END: &str = r#"{"id":"x","choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    check(&[END, r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#, "[DONE]"], [3, 2, 0, 0]);
    // vLLM and xAI: with every chunk, growing; and nulls and zeros between.
    let grown = |n: u64| format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{{"prompt_tokens":3,"completion_tokens":{n}}}}}"#);
    let zeros = r#"{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#;
    check(&[&grown(1), &grown(2), r#"{"choices":[],"usage":null}"#, END, zeros], [3, 2, 0, 0]);
    // Groq, Moonshot, DeepSeek.
    check(
        &[r#"{"id":"x","x_groq":{"id":"r"},"choices":[]}"#, &END.replacen('{', r#"{"x_groq":{"usage":{"prompt_tokens":3}},"#, 1)],
        [3, 0, 0, 0],
    );
    check(
        &[r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":2,"cached_tokens":1}}]}"#],
        [3, 2, 1, 0],
    );
    check(&[&END.replacen('{', r#"{"usage":{"prompt_tokens":3,"prompt_cache_hit_tokens":2},"#, 1)], [3, 0, 2, 0]);
}

#[test]
fn a_whole_completion_is_a_reply() {
    let body = r#"{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning":"r",
        "tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let reply = read(&[body]).unwrap();
    assert_eq!((reply.content.as_str(), reply.reasoning.as_str(), reply.calls.len()), ("a", "r", 1));
    assert_eq!((reply.finish, reply.usage.total_tokens(), reply.meta.created), (Some(FinishReason::ToolCalls), 5, Some(7)));
    // Without a reason it is whole all the same.
    let reply = read(&[r#"{"choices":[{"message":{"content":"a"}}]}"#]).unwrap();
    assert_eq!((reply.content.as_str(), reply.finish), ("a", Some(FinishReason::Stop)));
}

#[test]
fn a_message_beside_the_deltas_is_not_said_twice() {
    let repeated = r#"{"choices":[{"delta":{"content":"b"},"message":{"content":"ab"}}]}"#;
    let at_the_end = r#"{"choices":[{"message":{"content":"ab"},"finish_reason":"stop"}]}"#;
    let begin = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    assert_eq!(read(&[begin, repeated, at_the_end]).unwrap().content, "ab");
}

#[test]
fn the_first_chunk_that_is_about_the_reply_says_what_it_is() {
    let about_the_prompt = r#"{"id":"","model":"","created":0,"choices":[],"prompt_filter_results":[{}]}"#;
    let chunk = r#"{"id":"c","model":"m","created":7.9,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let meta = read(&[about_the_prompt, chunk]).unwrap().meta;
    assert_eq!((meta.id.as_deref(), meta.model.as_deref(), meta.created), (Some("c"), Some("m"), Some(7)));
    let meta = read(&[r#"{"id":"","created":0,"model":null,"choices":[{"delta":{},"finish_reason":"stop"}]}"#]).unwrap().meta;
    assert_eq!(meta, Meta::default());
}

#[test]
fn the_end_is_told_in_many_words() {
    let check = |word: &str, expected: FinishReason| {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":"{word}"}}]}}"#);
        assert_eq!(read(&[&chunk, "[DONE]"]).unwrap().finish, Some(expected), "{word}");
    };
    for word in ["stop", "eos", "stop_sequence", "end_turn", "", "null"] {
        check(word, FinishReason::Stop);
    }
    check("MAX_TOKENS", FinishReason::Length);
    check("function_call", FinishReason::ToolCalls);
    check("sensitive", FinishReason::ContentFilter);
    // The empty word of a gateway is no end.
    let open = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}"#;
    assert!(matches!(read(&[open]), Err(Error::Protocol(_))));
    for word in ["error", "abort", "insufficient_system_resource", "network_error"] {
        let chunk = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{word}"}}]}}"#);
        assert!(matches!(read(&[&chunk, "[DONE]"]), Err(Error::Protocol(_))), "{word}");
    }
}

#[test]
fn errors_are_told_in_many_places() {
    let check = |payload: &str, status: u16, message: &str| {
        let Err(Error::Status(refusal)) = read(&[payload]) else { panic!("{payload} is no refusal") };
        assert_eq!((refusal.status, refusal.body.message.as_deref()), (status, Some(message)), "{payload}");
    };
    check(r#"{"error":{"code":429,"message":"slow down"}}"#, 429, "slow down");
    check(r#"{"error":"no memory","error_type":"generation"}"#, 502, "no memory");
    check(r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#, 400, "too long");
    check(r#"[{"error":{"code":400,"message":"bad schema","status":"INVALID_ARGUMENT"}}]"#, 400, "bad schema");
    check(r#"{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"gone"}}]}"#, 502, "gone");
    check(r#"{"choices":[],"x_groq":{"id":"r","error":"over capacity"}}"#, 502, "over capacity");
    check(r#"{"id":"x","error":{"code":"server_error","message":"cut"},"choices":[{"delta":{"content":""}}]}"#, 502, "cut");
    for none in ["null", "false", "\"\"", "{}"] {
        let chunk = format!(r#"{{"error":{none},"choices":[{{"delta":{{"content":"a"}},"finish_reason":"stop"}}]}}"#);
        assert_eq!(read(&[&chunk]).unwrap().content, "a", "{none}");
    }
}

#[test]
fn empty_payloads_say_nothing_and_nonsense_fails() {
    let chunk = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    assert_eq!(read(&["", " ", "null", chunk, " [DONE] "]).unwrap().content, "a");
    for nonsense in ["ping", "3", "{", "\"text\"", r#"{"choices":3}"#, r#"{"choices":[]}"#, "[DONE]"] {
        assert!(matches!(read(&[nonsense]), Err(Error::Protocol(_))), "{nonsense}");
    }
}

/// JSON made of the names and words that mean something here, put together in any way.
fn json() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 19] = [
        "id",
        "object",
        "choices",
        "index",
        "delta",
        "message",
        "content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "x_groq",
        "error",
        "timings",
        "type",
    ];
    const WORDS: [&str; 8] = ["", "a", "{\"b\":", "1}", "stop", "error", "text", "thinking"];
    let word = proptest::sample::select(&WORDS[..]).prop_map(Value::from);
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (-2i64..3).prop_map(Value::from), word];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let entry = (proptest::sample::select(&NAMES[..]), inner.clone());
        let object = proptest::collection::vec(entry, 0..5);
        let object = object.prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
        prop_oneof![object.prop_map(Value::Object), proptest::collection::vec(inner, 0..3).prop_map(Value::Array)]
    })
}

/// A chunk that is mostly in order.
fn chunk() -> impl Strategy<Value = String> {
    let call = (0u8..3, "[ab]?", "[fg]?", json()).prop_map(
        |(index, id, name, arguments)| serde_json::json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}),
    );
    let delta = (json(), json(), proptest::collection::vec(call, 0..3))
        .prop_map(|(content, reasoning, calls)| serde_json::json!({"content": content, "reasoning": reasoning, "tool_calls": calls}));
    let chunk = (delta, proptest::option::of(json()), json()).prop_map(|(delta, finish, usage)| {
        serde_json::json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}).to_string()
    });
    prop_oneof![4 => chunk, 1 => json().prop_map(|value| value.to_string()), 1 => "\\PC{0,9}"]
}

proptest! {
    /// `read` asserts that every reply begins with its beginning.
    #[test]
    fn whatever_comes_is_a_reply_or_an_error(chunks in proptest::collection::vec(chunk(), 0..5)) {
        let payloads: Vec<&str> = chunks.iter().map(String::as_str).collect();
        if let Ok(reply) = read(&payloads) {
            prop_assert!(reply.finish.is_some());
        }
    }

    #[test]
    fn a_chunk_in_order_is_never_refused_for_what_its_texts_and_counts_are(
        [content, reasoning, usage, id] in [json(), json(), json(), json()],
    ) {
        let chunk = serde_json::json!({
            "id": id, "usage": usage, "choices": [{"index": 0, "delta": {"content": content, "reasoning": reasoning}, "finish_reason": "stop"}],
        });
        prop_assert!(read(&[&chunk.to_string()]).is_ok(), "{}", chunk);
    }
}
