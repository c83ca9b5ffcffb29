//! Each script gives the reply that its name promises.

use super::*;

fn summary(model: &str, messages: Value) -> String {
    let tools = json!([
        {"type": "function", "function": {"name": "respond"}},
        {"type": "function", "function": {"name": "f"}},
    ]);
    match reply(&json!({"model": model, "tools": tools, "messages": messages})).0 {
        Reply::Message(message) => {
            let text = message.content.as_ref().map(|pieces| pieces.concat());
            let calls: String = message.calls.iter().map(|call| format!("{}{}", call.name, call.arguments.concat())).collect();
            format!("{}{calls} {}", text.unwrap_or_default(), message.finish_reason())
        }
        Reply::Status { code, body } => format!("{code} {body}"),
        Reply::Cut => "cut".into(),
    }
}

#[test]
fn models_name_scripts() {
    let check = |model: &str, expected: &str| {
        assert_eq!(summary(model, json!([{"role": "user", "content": "hi"}])), expected);
    };
    check("text-2", "w0 w1  stop");
    check("whatever-1", "w0  stop");
    check("respond-2-d10", r#""respond"{"message":"w0 w1 "} tool_calls"#);
    check("tool", r#""f"{"city":"Paris"} tool_calls"#);
    check("tool-1", r#""f"{"city":"w0 "} tool_calls"#);
    check("mistral", r#"[TOOL_CALLS]f{"city": "Paris"} stop"#);
    check("bare-1", "w0  stop");
    check("unknown", r#""no_such_tool"{"city":"Paris"} tool_calls"#);
    check("badargs", r#""f"{"city": Par tool_calls"#);
    check("drop", "cut");
    check("script", "no script stop");
}

#[test]
fn nudges_bring_a_good_call() {
    let nudged = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "w0"},
        {"role": "user", "content": "call a tool"},
    ]);
    for model in ["bare", "unknown", "badargs"] {
        assert_eq!(summary(model, nudged.clone()), r#""f"{"city":"Paris"} tool_calls"#);
    }
    assert_eq!(summary("stubborn-1", nudged), "w0  stop");
}

#[test]
fn scripts_give_one_reply_per_turn() {
    let script = json!([
        {"status": 429, "body": {"a": 1}},
        {"text": "x", "calls": [{"name": "f", "arguments": "no json"}]},
        {"text": "end", "finish": "length"},
    ]);
    let check = |turns: usize, expected: &str| {
        let mut messages = vec![json!({"role": "user", "content": script.to_string()})];
        messages.extend((0..turns).map(|_| json!({"role": "assistant", "content": ""})));
        assert_eq!(summary("script", json!(messages)), expected);
    };
    check(0, r#"429 {"a":1}"#);
    check(1, r#"x"f"no json tool_calls"#);
    check(2, "end length");
    check(3, "end length");
}

#[test]
fn names_carry_length_and_pause() {
    let check = |name: &str, kind: &str, words: usize, pause_ms: u64| {
        let pause = Duration::from_millis(pause_ms);
        assert_eq!(Model::parse(name), Model { kind, words, pause });
    };
    check("text", "text", 32, 0);
    check("text-5", "text", 5, 0);
    check("tool-5-d20", "tool", 5, 20);
    check("script-d7", "script", 32, 7);
    check("text-x", "text", 32, 0);
}
