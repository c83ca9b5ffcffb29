//! What holds for all repairs together, and how long they take.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{Policy, Replay, repaired},
    STRICT, assistant, call, calling, repaired_by, result, user,
};

/// One of the messages that clients have been seen to send, sound or not; what it says holds `mark`.
fn any_message(mark: usize) -> impl Strategy<Value = Value> {
    let mark = format!("<{mark}>");
    let content = {
        let mark = mark.clone();
        prop_oneof![
            4 => Just(json!(mark)),
            1 => Just(json!([{"type": "text", "text": mark}])),
            1 => Just(json!([{"type": "text", "text": "<think>why</think>"}, {"type": "text", "text": mark}])),
            1 => Just(json!([mark, {"type": "image_url", "image_url": {"url": "x"}}])),
            1 => Just(json!({"a": mark})),
            1 => Just(json!("")),
            1 => Just(json!([])),
            1 => Just(json!(null)),
            1 => Just(json!(format!("<think>why</think>{mark}"))),
        ]
    };
    let id = prop_oneof![Just(json!("a")), Just(json!("b")), Just(json!("")), Just(json!(null)), Just(json!(1))];
    let arguments = {
        let mark = mark.clone();
        prop_oneof![
            Just(json!("{}")),
            Just(json!(format!("{{\"x\":\"{mark}"))),
            Just(json!([mark])),
            Just(json!({"x": mark})),
            Just(json!(null)),
        ]
    };
    let call = (id.clone(), arguments).prop_map(|(id, arguments)| json!({"id": id, "function": {"name": "f", "arguments": arguments}}));
    let calls = prop_oneof![2 => Just(json!(null)), 3 => proptest::collection::vec(call, 0..3).prop_map(|calls| json!(calls))];
    let role = prop_oneof![
        4 => Just("assistant"),
        3 => Just("tool"),
        3 => Just("user"),
        1 => Just("system"),
        1 => Just("other"),
    ];
    (role, content, calls, id, any::<bool>()).prop_map(|(role, content, calls, id, thinks)| match role {
        "assistant" if thinks => json!({"role": role, "content": content, "tool_calls": calls, "reasoning_content": "why"}),
        "assistant" => json!({"role": role, "content": content, "tool_calls": calls}),
        "tool" => json!({"role": role, "content": content, "tool_call_id": id}),
        _ => json!({"role": role, "content": content}),
    })
}

fn any_history() -> impl Strategy<Value = Value> {
    (0..12usize).prop_flat_map(|length| (0..length).map(any_message).collect::<Vec<_>>()).prop_map(|messages| json!(messages))
}

/// A history that says all there is to say in the order that the API asks for.
fn sound_history() -> impl Strategy<Value = Value> {
    let turn = (any::<bool>(), 0..4usize, any::<bool>()).prop_map(|(speaks, calls, backwards)| {
        let mut messages = vec![user("q")];
        let id = |n: usize| format!("c{n}");
        if calls > 0 {
            let mut acting = calling(&(0..calls).map(|n| call(&id(n), r#"{"a":"\u00e9"}"#)).collect::<Vec<_>>());
            if speaks {
                acting["content"] = json!("Let me see.");
            }
            messages.push(acting);
            let results = (0..calls).map(|n| result(&id(n), "7"));
            if backwards { messages.extend(results.rev()) } else { messages.extend(results) }
        }
        messages.push(assistant("a"));
        messages
    });
    (any::<bool>(), proptest::collection::vec(turn, 0..6)).prop_map(|(system, turns)| {
        let system = system.then(|| json!({"role": "system", "content": "s"}));
        json!(system.into_iter().chain(turns.into_iter().flatten()).collect::<Vec<_>>())
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let reasoning = prop_oneof![Just(Replay::None), Just(Replay::KeepLast), Just(Replay::Full)];
    (reasoning, any::<bool>()).prop_map(|(reasoning, strict_alternation)| Policy { reasoning, strict_alternation })
}

fn marks(messages: &Value) -> Vec<String> {
    let text = messages.to_string();
    (0..12).map(|mark| format!("<{mark}>")).filter(|mark| text.contains(mark.as_str())).collect()
}

proptest! {
    #[test]
    fn a_sound_history_is_not_touched(history in sound_history(), policy in any_policy()) {
        prop_assert_eq!(repaired_by(policy, &history), None);
    }

    #[test]
    fn a_repaired_history_needs_no_repair_and_has_lost_nothing(history in any_history(), policy in any_policy()) {
        let Some((after, changes)) = repaired_by(policy, &history) else { return Ok(()) };
        prop_assert_eq!(repaired_by(policy, &after), None, "{} became {}", history, after);
        prop_assert_eq!(marks(&history), marks(&after), "{} became {}", history, after);
        prop_assert_eq!(repaired_by(policy, &history), Some((after, changes)), "the same again");
    }

    #[test]
    fn roles_alternate_where_they_must(history in any_history()) {
        let messages = repaired_by(STRICT, &history).map_or(history.clone(), |(after, _)| after);
        let messages = messages.as_array().unwrap();
        let is = |message: &Value, role: &str| message["role"] == role;
        let calls = |message: &Value| message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        // Nobody knows where a role that nobody knows stands.
        if messages.iter().any(|message| is(message, "other")) {
            return Ok(());
        }
        prop_assert!(!messages.iter().skip(1).any(|message| is(message, "system")), "{}", json!(messages));
        let speaking: Vec<&Value> = messages.iter().filter(|message| is(message, "user") || is(message, "assistant") && !calls(message)).collect();
        prop_assert!(speaking.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]), "{}", json!(messages));
    }
}

/// Each unit is what costs most in one of the steps; in quadratic time this would take minutes.
#[test]
fn time_is_linear() {
    let (size, limit) = if cfg!(debug_assertions) { (1 << 18, 2000) } else { (1 << 21, 500) };
    let calls = "{\"id\":\"a\"},".repeat(size / 80) + "{}";
    let turn = format!(r#"{{"role":"assistant","tool_calls":[{calls}]}}"#);
    let thoughts = format!(r#"{{"role":"assistant","content":"{}{}"}}"#, "<think></think>".repeat(size / 60), "<think><".repeat(size / 60));
    let fields = format!(r#"{{"role":"assistant"{}}}"#, r#","k":null"#.repeat(size / 16));
    for (head, unit) in [
        ("{}", "{}"),
        ("{}", r#"{"role":"user","content":"x"}"#),
        ("{}", r#"{"role":"system","content":["x"]}"#),
        (&fields, r#"{"role":"assistant"}"#),
        (&thoughts, r#"{"role":"assistant","content":"<think>","reasoning":"x"}"#),
        (&turn, r#"{"role":"tool"}"#),
        (&turn, r#"{"role":"tool","tool_call_id":"a"}"#),
        ("{}", r#"{"role":"assistant","tool_calls":[{"function":{"arguments":"["}}]}"#),
        ("{}", r#"{"role":"assistant","tool_calls":[{"id":"a","function":{}}]},{"role":"user"}"#),
    ] {
        let list = format!("[{head},{}{{\"role\":\"user\"}}]", format!("{unit},").repeat(size / unit.len()));
        let begun = Instant::now();
        assert!(repaired(&list.into(), STRICT).is_some());
        assert!(begun.elapsed() < Duration::from_millis(limit), "{:?} for {unit}", begun.elapsed());
    }
}
