use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn told(messages: &Value) -> Value {
    let json = messages.to_string();
    let transcript = Transcript::of(json.as_bytes(), &[]).unwrap();
    json!({"system": transcript.system, "messages": transcript.messages})
}

/// The turns that `messages` become: role and content, where a text stands for its block.
fn check(messages: Value, expected: Value) {
    let mut told = told(&messages)["messages"].take();
    for content in told.as_array_mut().unwrap().iter_mut().flat_map(|turn| turn["content"].as_array_mut().unwrap()) {
        if content["type"] == "text" {
            *content = content["text"].take();
        }
    }
    let turns: Vec<Value> = told.as_array().unwrap().iter().map(|turn| json!([turn["role"], turn["content"]])).collect();
    assert_eq!(Value::from(turns), expected, "{messages}");
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})).collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn tool_result(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text}]})
}

fn no_result(id: &str) -> Value {
    let content = json!([{"type": "text", "text": "This call has no result."}]);
    json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": true})
}

#[test]
fn the_first_words_of_the_system_stand_apart_and_later_ones_are_the_users() {
    let told = told(&json!([
        {"role": "system", "content": "a"}, {"role": "system", "content": " "}, {"role": "developer", "content": "b"},
        user("q"), {"role": "system", "content": "c"},
    ]));
    assert_eq!(told["system"], json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]));
    assert_eq!(told["messages"], json!([{"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": "c"}]}]));
}

#[test]
fn turns_alternate_and_the_user_begins() {
    let said = json!({"role": "assistant", "content": "b "});
    check(json!([user("a"), user("b")]), json!([["user", ["a", "b"]]]));
    check(json!([said, user("a")]), json!([["user", ["(begin)"]], ["assistant", ["b "]], ["user", ["a"]]]));
    check(json!([user("a"), said, said]), json!([["user", ["a"]], ["assistant", ["b ", "b"]]]));
    check(json!([{"role": "system", "content": "s"}]), json!([["user", ["(begin)"]]]));
    check(json!([user("a"), {"role": "assistant", "content": ""}, user(" "), user("b")]), json!([["user", ["a", "b"]]]));
    check(json!([user("a"), {"role": "assistant", "refusal": "no"}]), json!([["user", ["a"]], ["assistant", ["no"]]]));
    check(json!([]), json!([]));
}

#[test]
fn results_stand_first_in_the_message_behind_their_calls() {
    check(
        json!([user("q"), calls(&["a", "b"]), user("wait"), result("b", "2"), result("a", "1"), user("go")]),
        json!([
            ["user", ["q"]],
            ["assistant", [tool_use("a"), tool_use("b")]],
            ["user", [tool_result("b", "2"), tool_result("a", "1"), "wait", "go"]],
        ]),
    );
    check(
        json!([user("q"), calls(&["a"]), calls(&["b"]), result("a", "1"), result("b", "2")]),
        json!([["user", ["q"]], ["assistant", [tool_use("a"), tool_use("b")]], ["user", [tool_result("a", "1"), tool_result("b", "2")]]]),
    );
    let silent = json!({"type": "tool_result", "tool_use_id": "a"});
    check(json!([user("q"), calls(&["a"]), result("a", "")]), json!([["user", ["q"]], ["assistant", [tool_use("a")]], ["user", [silent]]]));
}

#[test]
fn calls_without_a_result_are_told_so() {
    check(
        json!([user("q"), calls(&["a", "b"]), result("b", "2"), {"role": "assistant", "content": "x"}]),
        json!([
            ["user", ["q"]],
            ["assistant", [tool_use("a"), tool_use("b")]],
            ["user", [tool_result("b", "2"), no_result("a")]],
            ["assistant", ["x"]],
        ]),
    );
    check(
        json!([user("q"), calls(&["a"]), {"role": "assistant", "content": "x"}, user("y")]),
        json!([["user", ["q"]], ["assistant", [tool_use("a")]], ["user", [no_result("a")]], ["assistant", ["x"]], ["user", ["y"]]]),
    );
    check(
        json!([user("q"), calls(&["a"]), user("y")]),
        json!([["user", ["q"]], ["assistant", [tool_use("a")]], ["user", [no_result("a"), "y"]]]),
    );
    check(json!([user("q"), calls(&["a"])]), json!([["user", ["q"]], ["assistant", [tool_use("a")]], ["user", [no_result("a")]]]));
}

#[test]
fn results_without_a_call_are_the_users_words() {
    check(json!([user("q"), result("z", "9")]), json!([["user", ["q", "Result of a tool call:", "9"]]]));
    check(
        json!([user("q"), calls(&["a"]), result("z", "9")]),
        json!([["user", ["q"]], ["assistant", [tool_use("a")]], ["user", [no_result("a"), "Result of a tool call:", "9"]]]),
    );
    check(json!([user("q"), result("z", "")]), json!([["user", ["q"]]]));
}

#[test]
fn every_call_has_an_id_of_its_own() {
    check(
        json!([
            user("q"),
            calls(&["c", "c", "x.y"]),
            result("c", "1"),
            result("c", "2"),
            result("x.y", "3"),
            calls(&["c"]),
            result("c", "4")
        ]),
        json!([
            ["user", ["q"]],
            ["assistant", [tool_use("c"), tool_use("c_1"), tool_use("x_y")]],
            ["user", [tool_result("c", "1"), tool_result("c_1", "2"), tool_result("x_y", "3")]],
            ["assistant", [tool_use("c_2")]],
            ["user", [tool_result("c_2", "4")]],
        ]),
    );
    let nameless = json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
    check(
        json!([user("q"), nameless, {"role": "tool", "content": "1"}]),
        json!([["user", ["q"]], ["assistant", [tool_use("call")]], ["user", [tool_result("call", "1")]]]),
    );
}

#[test]
fn only_signed_thinking_goes_back() {
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s="});
    let hidden = json!({"type": "redacted_thinking", "data": "d="});
    let blocks = json!([signed, {"type": "thinking", "thinking": "hm"}, hidden, 7]);
    let said = json!({"role": "assistant", "content": "x", "reasoning_content": "hm", "thinking_blocks": blocks});
    check(json!([user("q"), said, user("r")]), json!([["user", ["q"]], ["assistant", [signed, hidden, "x"]], ["user", ["r"]]]));
}

#[test]
fn a_model_that_called_without_signed_thinking_does_not_begin_to_think() {
    let lets_think = |messages: Value| Transcript::of(messages.to_string().as_bytes(), &[]).unwrap().lets_think();
    let mut thought = calls(&["a"]);
    thought["thinking_blocks"] = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
    assert!(lets_think(json!([user("q")])));
    assert!(lets_think(json!([user("q"), thought, result("a", "1")])));
    assert!(!lets_think(json!([user("q"), calls(&["a"]), result("a", "1")])));
    assert!(lets_think(json!([user("q"), calls(&["a"]), result("a", "1"), {"role": "assistant", "content": "x"}, user("r")])));
    assert!(!lets_think(json!([user("q"), {"role": "assistant", "content": "goes on"}])));
}

#[test]
fn what_cannot_be_told_is_refused() {
    for messages in [
        json!({}),
        json!([3]),
        json!([{"content": "x"}]),
        json!([{"role": "user", "content": [{"type": "video"}]}]),
        json!([{"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "x"}}]}]),
    ] {
        assert!(Transcript::of(messages.to_string().as_bytes(), &[]).is_err(), "{messages}");
    }
}

/// What the API insists on.
fn check_sound(messages: &Value) {
    let told = told(messages);
    let turns: Vec<(&str, Vec<Value>)> = told["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| (turn["role"].as_str().unwrap(), turn["content"].as_array().unwrap().clone()))
        .collect();
    let ids = |blocks: &[Value], kind: &str, key: &str| -> Vec<String> {
        blocks.iter().filter(|block| block["type"] == kind).map(|block| block[key].as_str().unwrap().to_owned()).collect()
    };
    let mut seen = HashSet::new();
    for (place, (role, blocks)) in turns.iter().enumerate() {
        assert_eq!(*role, if place % 2 == 0 { "user" } else { "assistant" }, "{messages}");
        assert!(!blocks.is_empty(), "{messages}");
        assert!(blocks.iter().filter_map(|block| block["text"].as_str()).all(|text| !text.trim().is_empty()), "{messages}");
        let called = place.checked_sub(1).map(|before| ids(&turns[before].1, "tool_use", "id")).unwrap_or_default();
        let mut answered = ids(&blocks[..called.len().min(blocks.len())], "tool_result", "tool_use_id");
        assert_eq!(answered.len(), ids(blocks, "tool_result", "tool_use_id").len(), "{messages}");
        answered.sort();
        let mut called = called;
        called.sort();
        assert_eq!(answered, called, "{messages}");
        assert!(called.into_iter().all(|id| seen.insert(id)), "{messages}");
    }
    assert!(turns.last().is_none_or(|(_, blocks)| ids(blocks, "tool_use", "id").is_empty()), "{messages}");
}

proptest! {
    #[test]
    fn whatever_is_said_becomes_a_sound_conversation(said in proptest::collection::vec((0usize..6, "[ab]{0,2}", "[c .]{0,2}"), 0..10)) {
        let messages: Vec<Value> = said
            .iter()
            .map(|(kind, id, text)| match kind {
                0 => user(text),
                1 => json!({"role": "system", "content": text}),
                2 => json!({"role": "assistant", "content": text}),
                3 => calls(&[id]),
                4 => json!({"role": "assistant", "content": text, "tool_calls": calls(&[id, text])["tool_calls"]}),
                _ => result(id, text),
            })
            .collect();
        check_sound(&messages.into());
    }
}
