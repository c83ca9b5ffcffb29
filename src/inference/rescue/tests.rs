//! What is read out of which text, for all forms together.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Form, rescue};
use crate::inference::offer::{Offer, Tool};

pub(super) fn offer() -> Offer {
    let save = json!({"type": "object", "properties": {
        "path": {"type": "string"}, "size": {"type": "integer"}, "ratio": {"type": "number"},
        "force": {"type": "boolean"}, "tags": {"type": "array"}, "meta": {"type": "object"},
        "limit": {"type": ["integer", "null"]}, "note": {"type": ["string", "null"]}, "odd": {}
    }});
    let tool = |(name, parameters): (&str, Value)| Tool::new(name.to_owned(), parameters);
    let tools = [("ping", Value::Null), ("save", save), ("io.read-file_2", json!({}))];
    Offer { tools: tools.into_iter().map(tool).collect(), responds: false, json: None }
}

/// Each call as `name arguments`, joined with ` + `; then ` | content` if there is any.
fn shown(text: &str) -> String {
    let Some(rescued) = rescue(text, &offer()) else {
        return "none".to_owned();
    };
    let calls: Vec<_> = rescued.calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect();
    let mut shown = calls.join(" + ");
    if !rescued.content.is_empty() {
        write!(shown, " | {}", rescued.content).unwrap();
    }
    shown
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(shown(text), expected, "{text}");
}

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
    check(r#"{"name":"other","arguments":{}} {"name":"ping"}"#, r#"ping {} | {"name":"other","arguments":{}}"#);
    check(r#"{"name":"save","arguments":{"meta":{"name":"ping","arguments":{}}}}"#, r#"save {"meta":{"name":"ping","arguments":{}}}"#);
    check(r#"{"name":"ping","host":"a"}"#, "none");
    check(r#"{"name":"ping","arguments":{}"#, "none");
    check(r#"[{"name":"ping"},{"name":"sa"#, r#"ping {} | [ ,{"name":"sa"#);
    check(r#"{ {"name":"ping"}"#, "ping {} | {");
    check("say \"hi {\"name\":\"ping\"}", "ping {} | say \"hi");
    check(r#"{"name":"ping","parameters":{"type":"object","properties":{"a":{}}}}"#, "none");
}

/// Members were once read on past the closing brace when a quote followed it.
#[test]
fn an_object_ends_at_its_brace() {
    check(r#"{"name":"ping"}"host":1"#, r#"ping {} | "host":1"#);
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
fn json_packaging() {
    check("```json\n{\"name\":\"ping\"}\n```", "ping {}");
    check("I'll check that.\n```json\n{\"name\":\"ping\"}\n```", "ping {} | I'll check that.");
    check("```{\"name\":\"ping\"}```\nDone soon.", "ping {} | Done soon.");
    check("<tool_call>\n{\"name\":\"ping\"}\n</tool_call>\n<tool_call>{\"name\":\"save\"}", "ping {} + save {}");
    check("```xml\n<tool_call>{\"name\":\"ping\"}</tool_call>\n```", "ping {}");
    check("<tool_call>```json\n{\"name\":\"ping\"}\n```</tool_call>", "ping {}");
    check("```a\n{\"name\":\"ping\"}\n```\n\n```a\n{\"name\":\"save\"}\n```\nOk", "ping {} + save {} | Ok");
    check("```py\nx = 1\n```\n{\"name\":\"ping\"}", "ping {} | ```py\nx = 1\n```");
    check("```\n# run\n{\"name\":\"ping\"}\n```", "ping {} | ```\n# run\n```");
    check("```json\n{\"name\":\"ping\"}", "ping {}");
    check("Sure, {\"name\":\"ping\"} now", "ping {} | Sure, now");
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
    check(r#"{"name":"save","args":{oops}} {"name":"ping"}"#, r#"ping {} | {"name":"save","args":{oops}}"#);
    check(r#"{"name":"save","args":{"path":"ping[ARGS]{}" oops}}"#, "none");
    check("<function=save><parameter=path>ping[ARGS]{}</parameter></function>", r#"save {"path":"ping[ARGS]{}"}"#);
}

#[test]
fn mistral() {
    check(r#"[TOOL_CALLS]ping{"a":"}"}"#, r#"ping {"a":"}"}"#);
    check(r#"[TOOL_CALLS]io.read-file_2 {"a":1}[TOOL_CALLS]ping{}"#, r#"io.read-file_2 {"a":1} + ping {}"#);
    check(r#"[TOOL_CALLS]ping[ARGS]{"a":1}"#, r#"ping {"a":1}"#);
    check(r#"Ok. [TOOL_CALLS]ping[CALL_ID]x9Y[ARGS]{"a":1} save[ARGS]{}"#, r#"ping {"a":1} + save {} | Ok."#);
    check(r#"[TOOL_CALLS] [{"name":"ping","arguments":{}},{"name":"save","arguments":{"size":1}}]"#, r#"ping {} + save {"size":1}"#);
    check(r#"[TOOL_CALLS]other{"a":1}"#, "none");
    check(r#"[TOOL_CALLS]ping{"a":1"#, "none");
    check(r#"[TOOL_CALLS]ping{"a":"[TOOL_CALLS]save{}"}"#, r#"ping {"a":"[TOOL_CALLS]save{}"}"#);
}

#[test]
fn rehearsal() {
    check(r#"ping[ARGS]{"a":1}"#, r#"ping {"a":1}"#);
    check(r#"First ping[ARGS]{} then io.read-file_2[ARGS] {"b":"}"}"#, r#"ping {} + io.read-file_2 {"b":"}"} | First then"#);
    check(r#"other[ARGS]{"name":"ping","arguments":{}}"#, "none");
    check(r#"ping[ARGS]{"a":"#, "none");
    check(r#"ping[ARGS]{"name":"save","arguments":{}}"#, r#"ping {"name":"save","arguments":{}}"#);
}

#[test]
fn qwen_xml() {
    let save = |key: &str, value: &str, expected: &str| {
        let text = format!("<function=save><parameter={key}>\n{value}\n</parameter></function>");
        check(&text, &format!("save {{\"{key}\":{expected}}}"));
    };
    save("path", "42", "\"42\"");
    save("path", "\n a\n", "\"\\n a\\n\"");
    save("path", "a </function> b", "\"a </function> b\"");
    save("size", "42", "42");
    save("size", "12345678901234567890123", "12345678901234567890123");
    save("size", "4.5", "\"4.5\"");
    save("size", "007", "\"007\"");
    save("ratio", "4.50", "4.50");
    save("force", "true", "true");
    save("force", "True", "\"True\"");
    save("tags", "[1, \"</x>\"]", "[1, \"</x>\"]");
    save("meta", "{\"b\": 1, \"a\": 2}", "{\"b\": 1, \"a\": 2}");
    save("meta", "[1]", "\"[1]\"");
    save("limit", "null", "null");
    save("limit", "5", "5");
    save("limit", "many", "\"many\"");
    save("note", "5", "\"5\"");
    save("note", "null", "null");
    save("odd", "5", "\"5\"");
    save("unknown", "5", "\"5\"");
    check("<tool_call>\n<function=ping>\n</function>\n</tool_call>", "ping {}");
    check("Go.\n<tool_call><function=ping></function></tool_call>", "ping {} | Go.");
    check("<function=save><parameter=size>1<parameter=path>x</function>", r#"save {"size":1,"path":"x"}"#);
    check(
        "<function=save><parameter=size>1</function><function=save><parameter=size>2</parameter></function>",
        r#"save {"size":1} + save {"size":2}"#,
    );
    check("<function=save><parameter=size>1</parameter><parameter=size>2</parameter></function>", r#"save {"size":2}"#);
    check(r#"<function=ping>{"a": "</function>"}</function>"#, r#"ping {"a": "</function>"}"#);
    check(r#"<function=ping>{"a": 1</function>"#, "none");
    check("<function=ping>hello</function>", "none");
    check("<function=save><parameter=size>1</parameter>", "none");
    check("<function=other><parameter=a>{\"name\":\"ping\"}</parameter></function>", "none");
}

#[test]
fn reasoning() {
    check("<think>{\"name\":\"save\"}</think>{\"name\":\"ping\"}", "ping {}");
    check("<THINKING>save[ARGS]{}</thinking>\nOk {\"name\":\"ping\"}", "ping {} | Ok");
    check("[THINK]a[/THINK][TOOL_CALLS]ping{}", "ping {}");
    check("<think>{\"name\":\"ping\"}", "none");
    check("maybe {\"name\":\"save\"}</think>{\"name\":\"ping\"}", "ping {}");
    check("{\"name\":\"ping\"}</think>", "none");
    check("{\"name\":\"ping\"} <think>more", "ping {}");
    check("a <function=save><parameter=path> </think><function=save><parameter=path>b</parameter></function>", r#"save {"path":"b"}"#);
    check("<function=save><parameter=path>a</think>b</parameter></function>", r#"save {"path":"a</think>b"}"#);
}

#[test]
fn quotes() {
    let call = r#"{"name":"ping"}"#;
    check(&format!("Send `{call}` to it."), "none");
    check(&format!("Send ``{call}`` to it."), "none");
    check(&format!("`{call}`, `{call}`"), "none");
    check(&format!("With `ping` now: {call}"), "ping {} | With `ping` now:");
    check(&format!("It`s {call}"), "ping {} | It`s");
    check(&format!("For Example: {call}"), "none");
    check(&format!("Use this format:\n\n```json\n{call}\n```"), "none");
    check(&format!("E.g.\n{call} {call}"), "none");
    check(&format!("It looks like\n{call}"), "none");
    check(&format!("Tools such as {call}"), "none");
    check(&format!("I need more information: {call}"), "ping {} | I need more information:");
    check(&format!("An example.\nNow I ask.\n{call}"), "ping {} | An example.\nNow I ask.");
    check(r#"{"name":"save","args":{"path":"format"}} {"name":"ping"}"#, r#"save {"path":"format"} + ping {}"#);
    check(&format!("{call}\n{}", "é".repeat(160)), &format!("ping {{}} | {}", "é".repeat(160)));
    check(&format!("{call}\n{}", "é".repeat(161)), "none");
    check(&format!("{}\n{call}", "a ".repeat(200)), &format!("ping {{}} | {}", "a ".repeat(200).trim()));
    check("The format is ping[ARGS]{}", "none");
}

#[test]
fn the_first_form_wins() {
    let form = |text| rescue(text, &offer()).map(|rescued| rescued.form.as_str());
    assert_eq!(form("[TOOL_CALLS]ping[ARGS]{} save[ARGS]{}"), Some(Form::Mistral.as_str()));
    assert_eq!(form("ping[ARGS]{} {\"name\":\"ping\"}"), Some("rehearsal"));
    assert_eq!(form("<function=ping></function> {\"name\":\"ping\"}"), Some("qwen_xml"));
    assert_eq!(form("{\"name\":\"ping\"}"), Some("json"));
    assert_eq!(form("plain text"), None);
}
