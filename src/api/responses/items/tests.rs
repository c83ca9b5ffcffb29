use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

fn read(input: &Value) -> Result<Value, Problem> {
    let tools = json!([
        {"type": "namespace", "name": "n", "tools": [{"name": "f"}]},
        {"type": "namespace", "name": "m", "tools": [{"name": "f"}]},
        {"type": "custom", "name": "patch"},
    ]);
    let tools = Tools::read(&[("tools".to_owned(), Bytes::from(tools.to_string()))]).unwrap();
    let input = RawValue::from_string(input.to_string()).unwrap();
    messages(None, &input, &tools).map(|messages| serde_json::from_str(&messages).unwrap())
}

fn check(input: Value, expected: Value) {
    assert_eq!(read(&input).unwrap(), expected, "{input}");
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn a_text_is_what_the_user_says() {
    let raw = RawValue::from_string(r#""hi""#.to_owned()).unwrap();
    let messages = messages(Some(r#""be kind""#), &raw, &Tools::default()).unwrap();
    assert_eq!(messages, r#"[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}]"#);
}

#[test]
fn messages_keep_their_roles() {
    check(
        json!([
            {"role": "developer", "content": "d"},
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "s"}]},
            {"role": "user", "content": "u", "id": "msg_1", "status": "completed"},
            {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "a"}]},
            {"role": "assistant", "content": "b"},
        ]),
        json!([
            {"role": "system", "content": "d"},
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"},
        ]),
    );
}

#[test]
fn a_turn_of_the_assistant_is_one_message() {
    check(
        json!([
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "short"}], "content": [{"type": "reasoning_text", "text": "why"}]},
            {"type": "message", "role": "assistant", "content": "let me see"},
            {"type": "function_call", "call_id": "c1", "name": "g", "arguments": "{\"a\": 1}"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "more"}]},
            {"type": "function_call", "call_id": "c2", "name": "f", "namespace": "m", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
            {"type": "message", "role": "assistant", "content": "done"},
        ]),
        json!([
            {
                "role": "assistant", "content": "let me see", "reasoning_content": "why\n\nmore",
                "tool_calls": [call("c1", "g", "{\"a\": 1}"), call("c2", "m__f", "{}")],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "assistant", "content": "done"},
        ]),
    );
}

#[test]
fn text_behind_open_calls_stays_with_them() {
    check(
        json!([
            {"type": "function_call", "call_id": "c1", "name": "g", "arguments": ""},
            {"type": "message", "role": "assistant", "content": "a"},
            {"type": "message", "role": "assistant", "content": "b"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
        ]),
        json!([
            {
                "role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "tool_calls": [call("c1", "g", "")],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
        ]),
    );
}

#[test]
fn reasoning_belongs_to_what_follows() {
    check(
        json!([{"role": "assistant", "content": "a"}, {"type": "reasoning", "summary": [{"text": "why"}]}, {"role": "assistant", "content": "b"}]),
        json!([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "why"}]),
    );
    check(
        json!([{"type": "reasoning", "summary": [{"text": "why"}]}, {"role": "user", "content": "u"}]),
        json!([{"role": "assistant", "content": "", "reasoning_content": "why"}, {"role": "user", "content": "u"}]),
    );
    check(
        json!([{"type": "reasoning", "summary": [], "encrypted_content": "xyz"}, {"role": "user", "content": "u"}]),
        json!([{"role": "user", "content": "u"}]),
    );
}

#[test]
fn other_calls_are_calls_too() {
    check(
        json!([
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** \"x\""},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            {"type": "local_shell_call", "id": "i", "call_id": "c2", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "c2", "output": "{\"output\":\"a\"}"},
            {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c3", "output": [{"stdout": "a"}]},
            {"type": "mcp_call", "id": "c4", "server_label": "s", "name": "roll", "arguments": "{}", "output": "6"},
            {"type": "code_interpreter_call", "id": "c5", "code": "1+1", "outputs": null},
            {"type": "web_search_call", "id": "w", "status": "completed"},
        ]),
        json!([
            {"role": "assistant", "content": "", "tool_calls": [call("c1", "patch", "{\"input\":\"*** \\\"x\\\"\"}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "assistant", "content": "", "tool_calls": [call("c2", "local_shell", "{\"command\":[\"ls\"]}")]},
            {"role": "tool", "tool_call_id": "c2", "content": "{\"output\":\"a\"}"},
            {"role": "assistant", "content": "", "tool_calls": [call("c3", "shell", "{\"commands\":[\"ls\"]}")]},
            {"role": "tool", "tool_call_id": "c3", "content": "[{\"stdout\":\"a\"}]"},
            {"role": "assistant", "content": "", "tool_calls": [call("c4", "roll", "{}")]},
            {"role": "tool", "tool_call_id": "c4", "content": "6"},
            {"role": "assistant", "content": "", "tool_calls": [call("c5", "code_interpreter", "{\"code\":\"1+1\"}")]},
            {"role": "tool", "tool_call_id": "c5", "content": ""},
        ]),
    );
}

#[test]
fn faults_are_named() {
    let check = |input: Value, param: &str, said: &str| {
        let problem = read(&input).unwrap_err();
        assert_eq!(problem.param.as_deref(), Some(param), "{input}");
        assert!(problem.message.contains(said), "{}", problem.message);
    };
    check(json!(3), "input", "text or a list");
    check(json!([3]), "input[0]", "not an item");
    check(json!([{"role": 3, "content": ""}]), "input[0]", "not an item");
    check(json!([{}]), "input[0].type", "missing");
    check(json!([{"type": "message", "content": "x"}]), "input[0].role", "missing");
    check(json!([{"role": "user"}]), "input[0].content", "missing");
    check(json!([{"role": "critic", "content": "x"}]), "input[0].role", "critic");
    check(json!([{"type": "item_reference", "id": "x"}]), "input[0]", "nothing is stored");
    check(json!([{"type": "telepathy"}]), "input[0].type", "telepathy");
    check(json!([{"type": "function_call", "name": "f", "arguments": "{}"}]), "input[0].call_id", "missing");
    check(json!([{"type": "function_call", "call_id": "c"}]), "input[0].name", "missing");
    check(json!([{"type": "function_call_output", "output": "x"}]), "input[0].call_id", "missing");
}
