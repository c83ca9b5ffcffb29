//! Calls written as JSON objects.

use super::check;

#[test]
fn json_shapes() {
    check(r#"{"name":"ping","arguments":{"a": 1}}"#, r#"ping {"a": 1}"#);
    check(r#"{"tool":"ping","args":{"a":1.0}}"#, r#"ping {"a":1.0}"#);
    check(r#"{"function":"ping","parameters":{"a":1}}"#, r#"ping {"a":1}"#);
    check(r#"{"id":"c1","type":"x","name":"io.read-file_2","arguments":{}}"#, "io.read-file_2 {}");
    check(r#"{"note":"hm","name":"ping","arguments":{"a":1}}"#, r#"ping {"a":1}"#);
    check(r#"{"type":"function","function":{"name":"ping","arguments":"{\"a\":1}"}}"#, r#"ping {"a":1}"#);
    check(r#"{"tool_calls":[{"name":"ping"},{"name":"save"}]}"#, "ping {} + save {}");
    check(r#"[{"name":"ping"}, {"name":"ping"}]"#, "ping {} + ping {}");
    check("{\"name\":\"ping\"}\n{\"name\":\"save\",\"args\":null}", "ping {} + save {}");
    check(r#"{"name":"other","arguments":{"name":"ping","arguments":{}}}"#, "none");
    check(r#"{"name":"other","arguments":{}} {"name":"ping","args":{}}"#, r#"ping {} | {"name":"other","arguments":{}}"#);
    check(r#"{"name":"save","arguments":{"meta":{"name":"ping","arguments":{}}}}"#, r#"save {"meta":{"name":"ping","arguments":{}}}"#);
    check(r#"{"name":"ping","host":"a"}"#, "none");
    check(r#"{"name":"ping","arguments":{}"#, "none");
    check(r#"[{"name":"ping","args":{}},{"name":"sa"#, r#"ping {} | [ ,{"name":"sa"#);
    check(r#"{ {"name":"ping","args":{}}"#, "ping {}");
    check("say \"hi {\"name\":\"ping\",\"args\":{}}", "ping {} | say \"hi");
    check(r#"{"name":"ping","parameters":{"type":"object","properties":{"a":{}}}}"#, "none");
}

/// Members were once read on past the closing brace when a quote followed it.
#[test]
fn an_object_ends_at_its_brace() {
    check(r#"{"name":"ping","args":{}}"host":1"#, r#"ping {} | "host":1"#);
}

#[test]
fn json_arguments() {
    check(r#"{"name":"ping","arguments":"{\"a\":\"b\"}"}"#, r#"ping {"a":"b"}"#);
    check(r#"{"name":"ping","arguments":"\"{\\\"a\\\":1}\""}"#, r#"ping {"a":1}"#);
    check(r#"{"name":"ping","arguments":""}"#, "ping {}");
    check(r#"{"name":"ping","arguments":[1, 2]}"#, "ping [1, 2]");
    check(r#"{"name":"ping","arguments":7}"#, "ping 7");
    check(r#"{"name":"ping","arguments":"{a: 1}"}"#, r#"ping "{a: 1}""#);
    check(r#"{"name":"ping","args":{"n":123456789012345678901234567890, "b":1}}"#, r#"ping {"n":123456789012345678901234567890, "b":1}"#);
}

#[test]
fn strings_confuse_nothing() {
    check(r#"{"name":"save","args":{"path":"a } b { [ ` ``` \" </tool_call>"}}"#, r#"save {"path":"a } b { [ ` ``` \" </tool_call>"}"#);
    check(r#"{"name":"save","args":{"path":"<think>a</think> ping[ARGS]{} "}}"#, r#"save {"path":"<think>a</think> ping[ARGS]{} "}"#);
    check(
        r#"{"name":"save","args":{"path":"[TOOL_CALLS]ping{} <function=ping></function>"}}"#,
        r#"save {"path":"[TOOL_CALLS]ping{} <function=ping></function>"}"#,
    );
    check(r#"{"name":"save","args":{"path":"say "{"name":"ping","args":{}}" now"}}"#, "none");
    check(r#"{"name":"save","args":{oops}} {"name":"ping","args":{}}"#, r#"ping {} | {"name":"save","args":{oops}}"#);
    check(r#"{"name":"save","args":{"path":"ping[ARGS]{}" oops}}"#, "none");
    check("<function=save><parameter=path>ping[ARGS]{}</parameter></function>", r#"save {"path":"ping[ARGS]{}"}"#);
}

/// A record's field named like a wrapped call once ran.
#[test]
fn json_wrappers() {
    check(r#"{"users":[{"name":"ping","parameters":{"a":1}}]}"#, "none");
    check(r#"{"data":{"name":"ping","args":{}}}"#, "none");
    check(r#"{"meta":1,"tool_calls":{"x":{"name":"ping","args":{}}}}"#, "none");
    check(r#"[{"users":[{"name":"ping","args":{}}]}]"#, "none");
    check(r#"{"tool_call":{"name":"ping","args":{}}}"#, "ping {}");
    check(r#"{"function_call":{"name":"ping","arguments":"{}"}}"#, "ping {}");
    check(r#"{"thought":"x","calls":[[{"tool":"ping","args":{}}],7,{"name":"save","args":{"size":1}}]}"#, r#"ping {} + save {"size":1}"#);
    check(r#"{"tool_calls":[{"type":"function","function":{"name":"ping","arguments":"{\"a\":1}"}}]}"#, r#"ping {"a":1}"#);
}

/// A bare name in prose once ran with `{}`.
#[test]
fn arguments_are_not_invented() {
    let bare = r#"{"function":"ping","type":"tool"}"#;
    check(&format!("The config is:\n{bare}"), "none");
    check("1. {\"name\":\"ping\"}\n2. {\"name\":\"save\"}", "none");
    check(&format!("{bare}\nDone."), "none");
    check(&format!("I'll run these:\n[{bare},{{\"name\":\"save\",\"args\":{{}}}}]"), "none");
    check(&format!("{bare}\n{{\"name\":\"Bob\"}}"), "none");
    check(bare, "ping {}");
    check(&format!("\n[{bare}];\n"), "ping {}");
    check(&format!("Now:\n```json\n{bare}\n```\nOk."), "ping {} | Now:\nOk.");
    check(&format!("Now: <tool_call>{bare}</tool_call> Ok."), "ping {} | Now: Ok.");
    check(&format!("Now: [TOOL_CALLS][{bare}] Ok."), "ping {} | Now: Ok.");
    check(r#"Now: {"name":"ping","arguments":null}"#, "ping {} | Now:");
}

#[test]
fn json_names() {
    check(r#"{"name":"functions.ping","args":{}}"#, "ping {}");
    check(r#"[TOOL_CALLS]functions.ping{}"#, "ping {}");
    check(r#"{"name":"functions.other","args":{}}"#, "none");
    check(r#"{"name":"other","args":{}}"#, "none");
    check("```json\n{\"name\":\"other\",\"args\":{}}\n```", "none");
    check(r#"Ok: {"name":"other","args":{}}"#, "none");
    check(r#"{"name":"","args":{}}"#, "none");
    check(r#"[{"name":"ping","args":{}},{"name":"other","args":{}},{"name":"Bob"}]"#, "ping {} + other {}");
}
