//! Each repair on its own.

mod properties;

use serde_json::{Value, json};

use super::*;

const PLAIN: Policy = Policy { reasoning: Replay::None, strict_alternation: false };
const STRICT: Policy = Policy { strict_alternation: true, ..PLAIN };

fn repaired_by(policy: Policy, messages: &Value) -> Option<(Value, Vec<String>)> {
    let (bytes, changes) = repaired(&Bytes::from(messages.to_string()), policy)?;
    Some((serde_json::from_slice(&bytes).unwrap(), changes.iter().map(ToString::to_string).collect()))
}

#[track_caller]
fn check(policy: Policy, before: Value, after: Value, changes: &[&str]) {
    let (messages, made) = repaired_by(policy, &before).expect("there is something to repair");
    assert_eq!(messages, after, "{made:?}");
    assert_eq!(made, changes);
    assert_eq!(repaired_by(policy, &messages), None, "a repaired history is sound");
}

#[track_caller]
fn untouched(policy: Policy, messages: Value) {
    assert_eq!(repaired_by(policy, &messages), None);
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
}

fn calling(calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

#[test]
fn sound_messages_keep_their_bytes() {
    let sound = r#" [ {"content" : "\u00e9" , "role":"user", "x": 1e2 } , {"role":"assistant","content":"a"} ] "#;
    assert_eq!(repaired(&Bytes::from_static(sound.as_bytes()), PLAIN), None);
    let broken = sound.replace("} ] ", "} , { \"role\" : \"user\" , \"content\" : null , \"y\" : 1e3 } ] ");
    let (bytes, changes) = repaired(&Bytes::from(broken), PLAIN).unwrap();
    let expected =
        r#"[{"content" : "\u00e9" , "role":"user", "x": 1e2 },{"role":"assistant","content":"a"},{"role":"user","content":"","y":1e3}]"#;
    assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
    assert_eq!(changes, [Change { message: 2, what: "missing content made an empty text" }]);
}

#[test]
fn what_is_not_understood_is_left_alone() {
    for odd in [json!([]), json!(["text"]), json!([{"content": "x"}]), json!([{"role": 3}]), json!([{"role": "bot", "content": null}])] {
        untouched(STRICT, odd);
    }
    untouched(PLAIN, json!([user("q"), {"role": "assistant", "tool_calls": "none", "content": "a"}]));
    assert_eq!(repaired(&Bytes::from_static(b"[{\"role\":\"user\",\"content\":\"\xff\"}]"), PLAIN), None);
    assert_eq!(repaired(&Bytes::from_static(b"[{]"), PLAIN), None);
}

#[test]
fn arguments_become_an_object_in_a_string() {
    let history = |arguments: Value, result: Value| {
        let function = json!({"name": "f", "arguments": arguments, "strict": true});
        json!([user("q"), calling(&[json!({"function": function, "id": "c1", "type": "function"})]), result])
    };
    let answered = |arguments: &str| history(json!(arguments), result("c1", "7"));
    let wrapped = ["message 1: arguments made one object in a string"];
    check(PLAIN, history(json!({"a": 1}), result("c1", "7")), answered(r#"{"a":1}"#), &wrapped);
    check(PLAIN, answered(r#""{\"a\":1}""#), answered(r#"{"a":1}"#), &wrapped);
    for missing in [json!(null), json!(""), json!(" ")] {
        check(PLAIN, history(missing, result("c1", "7")), answered("{}"), &["message 1: missing arguments made an empty object"]);
    }
    let told = "7\n\nThe arguments of this call were no JSON object: {\"a\":";
    let changes = ["message 1: broken arguments replaced by an empty object", "message 2: broken arguments of its call told"];
    check(PLAIN, answered(r#"{"a":"#), history(json!("{}"), result("c1", told)), &changes);
    let parts = |parts: &[&str]| json!(parts.iter().map(|text| json!({"type": "text", "text": text})).collect::<Vec<_>>());
    let in_parts = |texts: &[&str]| json!({"role": "tool", "tool_call_id": "c1", "content": parts(texts)});
    let told = "The arguments of this call were no JSON object: [1]";
    check(PLAIN, history(json!("[1]"), in_parts(&["7"])), history(json!("{}"), in_parts(&["7", told])), &changes);
}

#[test]
fn types_and_ids_are_added() {
    let bare = json!({"function": {"name": "f", "arguments": "{}"}});
    let minted = |id: &str| json!({"function": {"name": "f", "arguments": "{}"}, "type": "function", "id": id});
    check(
        PLAIN,
        json!([user("q"), calling(&[bare.clone(), bare]), {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]),
        json!([user("q"), calling(&[minted("t00010000"), minted("t00010001")]), result("t00010000", "1"), result("t00010001", "2")]),
        &[
            "message 1: call type added",
            "message 1: call id minted",
            "message 1: call type added",
            "message 1: call id minted",
            "message 2: result given its call's id",
            "message 3: result given its call's id",
        ],
    );
    let mut numbered = call("", "{}");
    numbered["id"] = json!(5);
    check(
        PLAIN,
        json!([calling(&[numbered]), {"role": "tool", "tool_call_id": 5, "content": "1"}]),
        json!([calling(&[call("t00000000", "{}")]), result("t00000000", "1")]),
        &["message 0: call id minted", "message 1: result given its call's id"],
    );
}

#[test]
fn an_id_belongs_to_one_call_of_a_turn() {
    check(
        PLAIN,
        json!([calling(&[call("c1", "{}"), call("c1", "{}")]), result("c1", "1"), result("c1", "2")]),
        json!([calling(&[call("c1", "{}"), call("t00000001", "{}")]), result("c1", "1"), result("t00000001", "2")]),
        &["message 0: call id minted", "message 2: result given its call's id"],
    );
    let turn = [calling(&[call("c1", "{}")]), result("c1", "1")];
    untouched(PLAIN, json!([user("q"), turn[0], turn[1], turn[0], turn[1]]));
}

#[test]
fn results_are_found_wherever_they_stand_in_the_turn() {
    untouched(PLAIN, json!([calling(&[call("a", "{}"), call("b", "{}")]), result("b", "2"), result("a", "1")]));
    untouched(PLAIN, json!([calling(&[call("a", "{}")]), user("and?"), result("a", "1")]));
    untouched(PLAIN, json!([calling(&[call("a", "{}")]), calling(&[call("b", "{}")]), result("a", "1"), result("b", "2")]));
    untouched(PLAIN, json!([calling(&[call("a", "{}")]), result("a", "half"), result("a", "whole")]));
    check(
        PLAIN,
        json!([calling(&[call("a", "{}"), call("b", "{}")]), result("lost", "1"), result("b", "2")]),
        json!([calling(&[call("a", "{}"), call("b", "{}")]), result("a", "1"), result("b", "2")]),
        &["message 1: result given its call's id"],
    );
}

#[test]
fn every_result_has_a_call() {
    let change = "result without a call made a user message";
    let named = json!({"role": "tool", "tool_call_id": "x", "name": "f", "content": "7"});
    let first = [format!("message 0: {change}")];
    check(PLAIN, json!([named, user("q")]), json!([user("Result of `f`:\n\n7"), user("q")]), &[&first[0]]);
    check(
        PLAIN,
        json!([calling(&[call("a", "{}"), call("b", "{}")]), result("a", "1"), result("b", "2"), result("x", "3"), assistant("so")]),
        json!([
            calling(&[call("a", "{}"), call("b", "{}")]),
            result("a", "1"),
            result("b", "2"),
            user("Result of a tool call:\n\n3"),
            assistant("so")
        ]),
        &["message 3: result without a call made a user message"],
    );
    check(
        PLAIN,
        json!([calling(&[call("a", "{}")]), result("x", "3"), result("a", "1")]),
        json!([calling(&[call("a", "{}")]), result("a", "1"), user("Result of a tool call:\n\n3")]),
        &["message 1: result without a call made a user message"],
    );
}

#[test]
fn results_of_the_older_role_are_results() {
    check(
        PLAIN,
        json!([calling(&[call("a", "{}")]), {"role": "function", "name": "f", "content": "7"}]),
        json!([calling(&[call("a", "{}")]), {"role": "tool", "name": "f", "content": "7", "tool_call_id": "a"}]),
        &["message 1: role function made tool", "message 1: result given its call's id"],
    );
}

#[test]
fn every_past_call_has_a_result() {
    check(
        PLAIN,
        json!([calling(&[call("a", "{"), call("b", "{}")]), result("b", "2"), user("go on")]),
        json!([
            calling(&[call("a", "{}"), call("b", "{}")]),
            result("b", "2"),
            result("a", "No result was given.\n\nThe arguments of this call were no JSON object: {"),
            user("go on")
        ]),
        &["message 0: broken arguments replaced by an empty object", "message 0: missing result added"],
    );
    untouched(PLAIN, json!([user("q"), calling(&[call("a", "{")])]));
}

#[test]
fn contents_become_texts_or_typed_parts() {
    let said = |content: Value| json!([{"role": "user", "content": content}]);
    let text = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    untouched(PLAIN, said(text.clone()));
    untouched(PLAIN, said(json!([image])));
    untouched(PLAIN, said(json!([])));
    untouched(PLAIN, json!([calling(&[call("a", "{}")]), result("a", "")]));
    let parts = ["message 0: content parts made text parts"];
    for spelled in [json!(["a", "b"]), json!([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}])] {
        check(PLAIN, said(spelled), said(text.clone()), &parts);
    }
    check(PLAIN, said(json!([{"type": "refusal", "refusal": "no"}, image])), said(json!([{"type": "text", "text": "no"}, image])), &parts);
    check(PLAIN, said(json!([{"type": "text", "text": null}])), said(json!([{"type": "text", "text": ""}])), &parts);
    check(PLAIN, said(json!({"a": 1})), said(json!(r#"{"a":1}"#)), &["message 0: content put into a string"]);
    check(PLAIN, said(json!(3)), said(json!("3")), &["message 0: content put into a string"]);
    let missing = ["message 0: missing content made an empty text"];
    check(PLAIN, said(json!(null)), said(json!("")), &missing);
    check(PLAIN, json!([{"role": "system"}]), json!([{"role": "system", "content": ""}]), &missing);
    let refused = json!([user("q"), {"role": "assistant", "content": null, "refusal": "no"}, user("r")]);
    check(PLAIN, refused, json!([user("q"), assistant("no"), user("r")]), &["message 1: refusal made the content"]);
}

#[test]
fn nulls_that_servers_fail_on_are_removed() {
    let dumped = json!([{"role": "user", "content": "q", "name": null, "tool_call_id": null, "tool_calls": null, "refusal": null}]);
    let kept = json!([{"role": "user", "content": "q", "tool_calls": null, "refusal": null}]);
    check(PLAIN, dumped, kept, &["message 0: null field removed", "message 0: null field removed"]);
}

#[test]
fn empty_messages_of_the_assistant_are_dropped() {
    let dropped = ["message 1: empty message dropped"];
    for empty in [json!({"role": "assistant"}), assistant(""), json!({"role": "assistant", "content": [], "tool_calls": []})] {
        check(PLAIN, json!([user("q"), empty, assistant("a")]), json!([user("q"), assistant("a")]), &dropped);
    }
    // It is all that parts two messages of the user.
    let mut silent = json!([user("q"), {"role": "assistant", "content": null}, user("r")]);
    check(PLAIN, silent.clone(), json!([user("q"), assistant(""), user("r")]), &["message 1: missing content made an empty text"]);
    check(
        STRICT,
        silent.clone(),
        json!([user("q\n\nr")]),
        &["message 1: empty message dropped", "message 2: joined with the message before it"],
    );
    silent[1]["function_call"] = json!({"name": "f", "arguments": "{}"});
    untouched(PLAIN, silent);
    untouched(PLAIN, json!([user("q"), assistant("")]));
    untouched(PLAIN, json!([assistant("")]));
    untouched(PLAIN, json!([{"role": "system", "content": ""}, user(""), assistant("a"), user("q")]));
}

#[test]
fn reasoning_goes_as_the_policy_has_it() {
    let thought = |text: &str| json!({"role": "assistant", "content": format!("<think>why</think>\n\n{text}"), "reasoning_content": "why"});
    let early = json!([user("q"), thought("a"), user("r")]);
    check(PLAIN, early.clone(), json!([user("q"), assistant("a"), user("r")]), &["message 1: reasoning removed"]);
    let mut acting = calling(&[call("c", "{}")]);
    acting["reasoning"] = json!("which");
    let turns = json!([user("q"), thought("a"), user("r"), acting, result("c", "7")]);
    let plain = json!([user("q"), assistant("a"), user("r"), calling(&[call("c", "{}")]), result("c", "7")]);
    check(PLAIN, turns.clone(), plain, &["message 1: reasoning removed", "message 3: reasoning removed"]);
    let kept = json!([user("q"), assistant("a"), user("r"), acting, result("c", "7")]);
    check(Policy { reasoning: Replay::KeepLast, ..PLAIN }, turns.clone(), kept, &["message 1: reasoning removed"]);
    untouched(Policy { reasoning: Replay::Full, ..PLAIN }, turns);
    // The last message is not past.
    untouched(PLAIN, json!([user("q"), thought("")]));
    let only_thought = json!([user("q"), {"role": "assistant", "reasoning_content": "why"}, user("r")]);
    let kept = json!([user("q"), {"role": "assistant", "reasoning_content": "why", "content": ""}, user("r")]);
    check(Policy { reasoning: Replay::Full, ..PLAIN }, only_thought, kept, &["message 1: missing content made an empty text"]);
}

#[test]
fn neighbours_of_one_role_are_joined_where_roles_must_alternate() {
    let joined = |index: usize| format!("message {index}: joined with the message before it");
    let spoken = json!([user("a"), user("b"), assistant("c"), assistant("d"), user("e")]);
    untouched(PLAIN, spoken.clone());
    check(STRICT, spoken, json!([user("a\n\nb"), assistant("c\n\nd"), user("e")]), &[&joined(1), &joined(3)]);
    let image = json!({"type": "image_url", "image_url": {"url": "x"}});
    check(
        STRICT,
        json!([user("a"), {"role": "user", "content": [image]}]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, image]}]),
        &[&joined(1)],
    );
    let mut acting = calling(&[call("c", "{}")]);
    let before = json!([user("a"), assistant("Let me see."), acting, result("c", "7"), assistant("7")]);
    acting["content"] = json!("Let me see.");
    check(STRICT, before, json!([user("a"), acting, result("c", "7"), assistant("7")]), &[&joined(2)]);
}

#[test]
fn no_message_moves_across_results() {
    let acting = calling(&[call("c", "{}")]);
    check(
        STRICT,
        json!([user("a"), user("b"), acting, result("c", "7"), user("d")]),
        json!([user("a\n\nb"), acting, result("c", "7"), assistant("(No answer.)"), user("d")]),
        &["message 1: joined with the message before it", "message 4: missing turn added before it"],
    );
    untouched(STRICT, json!([user("a"), acting, result("c", "7"), acting, result("c", "8")]));
    let added = ["message 0: missing turn added before it"];
    check(STRICT, json!([assistant("Hello"), user("a")]), json!([user("(No message.)"), assistant("Hello"), user("a")]), &added);
}

#[test]
fn system_messages_stand_first_where_roles_must_alternate() {
    let system = |text: &str| json!({"role": "system", "content": text});
    let developer = json!({"role": "developer", "content": "B"});
    let before = json!([system("A"), developer, user("q"), assistant("a"), system("C"), user("r")]);
    untouched(PLAIN, before.clone());
    check(
        STRICT,
        before,
        json!([system("A\n\nB"), user("q"), assistant("a"), user("Note of the system:\n\nC\n\nr")]),
        &[
            "message 1: joined with the message before it",
            "message 4: later system message made a user message",
            "message 5: joined with the message before it",
        ],
    );
    untouched(STRICT, json!([developer, user("q")]));
}
