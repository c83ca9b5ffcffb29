//! Messages of every kind in OpenAI's words.

use serde_json::{Value, json};

use super::*;

fn become_openais(system: &Value, messages: &Value) -> Result<Value, Problem> {
    let bytes = |value: &Value| Bytes::from(value.to_string());
    let system = Some(bytes(system)).filter(|_| !system.is_null());
    Ok(serde_json::from_slice(&read(system.as_ref(), Some(&bytes(messages)))?.0).unwrap())
}

fn check(messages: Value, expected: Value) {
    assert_eq!(become_openais(&Value::Null, &messages).unwrap(), expected, "{messages}");
}

fn user(content: Value) -> Value {
    json!([{"role": "user", "content": content}])
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn the_system_prompt_comes_first_and_without_the_line_for_accounts() {
    let system = |system: Value| become_openais(&system, &user(json!("hi"))).unwrap()[0].clone();
    let prompt = |text: &str| json!({"role": "system", "content": text});
    assert_eq!(system(json!("Be brief.")), prompt("Be brief."));
    assert_eq!(system(json!([text("a"), {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}])), prompt("a\n\nb"));
    let accounts = text("x-anthropic-billing-header: cc_version=1; cch=12345;");
    assert_eq!(system(json!([accounts, text("You are an agent.")])), prompt("You are an agent."));
    assert_eq!(system(json!("x-anthropic-billing-header: cch=1;\n\nYou are an agent.")), prompt("You are an agent."));
    assert_eq!(system(json!([accounts]))["role"], "user");
    assert_eq!(system(json!(""))["role"], "user");
}

#[test]
fn strings_keep_their_spelling() {
    let messages = Bytes::from_static(br#"[{"role":"user","content":"\u00e9 \/"},{"role":"assistant","content":"A\u0021"}]"#);
    assert_eq!(
        std::str::from_utf8(&read(None, Some(&messages)).unwrap().0).unwrap(),
        r#"[{"role":"user","content":"\u00e9 \/"},{"role":"assistant","content":"A\u0021"}]"#
    );
}

#[test]
fn texts_are_joined_and_images_are_parts() {
    check(user(json!([text("a"), text("b")])), user(json!("a\n\nb")));
    check(user(json!([])), user(json!("")));
    let image = |source: Value| json!({"type": "image", "source": source});
    let part = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let inline = image(json!({"type": "base64", "media_type": "image/png", "data": "AAAA"}));
    let linked = image(json!({"type": "url", "url": "https://host/x.png"}));
    check(
        user(json!([text("a"), inline, linked])),
        user(json!([text("a"), part("data:image/png;base64,AAAA"), part("https://host/x.png")])),
    );
}

#[test]
fn documents_become_text_and_files_stay_files() {
    let document = |source: Value| json!([{"type": "document", "source": source, "title": "T"}]);
    check(user(document(json!({"type": "text", "media_type": "text/plain", "data": "words"}))), user(json!("T\nwords")));
    check(user(document(json!({"type": "content", "content": [text("a"), text("b")]}))), user(json!("T\na\nb")));
    check(user(document(json!({"type": "url", "url": "https://host/x"}))), user(json!("T\nhttps://host/x")));
    check(
        user(document(json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"}))),
        user(json!([{"type": "file", "file": {"filename": "T", "file_data": "data:application/pdf;base64,AAAA"}}])),
    );
    let found = json!([{"type": "search_result", "title": "T", "source": "https://host", "content": [text("a")]}]);
    check(user(found), user(json!("T\nhttps://host\na")));
}

#[test]
fn calls_and_results_stand_in_messages_of_their_own() {
    let messages = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "redacted_thinking", "data": "zzz"},
            text("Looking."),
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
            {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
        ]},
        {"role": "user", "content": [
            text("And tomorrow?"),
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": [text("no"), text("clock")]},
        ]},
    ]);
    let call =
        |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    check(
        messages,
        json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "Looking.", "reasoning_content": "Hm.", "tool_calls": [
                call("toolu_1", "get_weather", r#"{"city":"Paris"}"#), call("toolu_2", "now", "{}"),
            ]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "rain"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: no\n\nclock"},
            {"role": "user", "content": "And tomorrow?"},
        ]),
    );
}

#[test]
fn results_are_text_in_every_form() {
    let result = |more: Value| {
        let mut block = json!({"type": "tool_result", "tool_use_id": "t"});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        become_openais(&Value::Null, &user(json!([block]))).unwrap()
    };
    let tool = |content: &str| json!({"role": "tool", "tool_call_id": "t", "content": content});
    assert_eq!(result(json!({})), json!([tool("")]));
    assert_eq!(result(json!({"content": null})), json!([tool("")]));
    assert_eq!(result(json!({"content": "x", "is_error": true})), json!([tool("Error: x")]));
    assert_eq!(result(json!({"content": "<error>x", "is_error": true})), json!([tool("<error>x")]));
    assert_eq!(result(json!({"content": "ERROR: x", "is_error": true})), json!([tool("ERROR: x")]));
    assert_eq!(
        result(json!({"content": [{"type": "tool_reference", "tool_name": "f"}]})),
        json!([tool("The tool `f` can be called now.")])
    );
    let image = json!({"type": "image", "source": {"type": "url", "url": "u"}});
    let shown = json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]});
    assert_eq!(result(json!({"content": [image]})), json!([tool(ELSEWHERE), shown]));
    assert_eq!(result(json!({"content": [text("a"), image]})), json!([tool("a"), shown]));
}

#[test]
fn an_assistant_that_only_calls_says_nothing() {
    let message = |content: Value| become_openais(&Value::Null, &json!([{"role": "assistant", "content": content}])).unwrap()[0].clone();
    let silent = message(json!([{"type": "tool_use", "id": "t", "name": "f"}]));
    assert_eq!((&silent["content"], &silent["tool_calls"][0]["function"]["arguments"]), (&Value::Null, &json!("{}")));
    assert_eq!(message(json!([{"type": "redacted_thinking", "data": "z"}])), json!({"role": "assistant", "content": ""}));
}

#[test]
fn what_anthropics_servers_did_becomes_text() {
    let found = json!({"type": "web_search_result", "url": "u", "title": "T", "encrypted_content": "zzz"});
    let block = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [found]});
    let message = become_openais(&Value::Null, &json!([{"role": "assistant", "content": [block]}])).unwrap();
    let said = message[0]["content"].as_str().unwrap();
    assert!(said.contains("\"title\":\"T\"") && !said.contains("zzz"), "{said}");
}

#[test]
fn the_system_in_mid_conversation_speaks_as_the_user() {
    check(
        json!([{"role": "user", "content": "a"}, {"role": "system", "content": [text("b")]}]),
        json!([{"role": "user", "content": "a"}, {"role": "user", "content": "<system-reminder>\nb\n</system-reminder>"}]),
    );
    let block = json!({"type": "mid_conv_system", "content": [text("b")]});
    check(user(json!([text("a"), block])), user(json!("a\n\n<system-reminder>\nb\n</system-reminder>")));
}

#[test]
fn faults_name_the_block() {
    let check = |block: Value, role: &str, param: &str| {
        let problem = become_openais(&Value::Null, &json!([{"role": role, "content": [text("a"), block]}])).unwrap_err();
        assert_eq!(problem.param.as_deref(), Some(param), "{block}");
    };
    check(json!(3), "user", "messages.0.content.1");
    check(json!({}), "user", "messages.0.content.1.type");
    check(json!({"type": "text"}), "user", "messages.0.content.1.text");
    check(json!({"type": "image"}), "user", "messages.0.content.1.source");
    check(json!({"type": "image", "source": {"type": "file", "file_id": "f"}}), "user", "messages.0.content.1.source");
    check(json!({"type": "document", "source": 3}), "user", "messages.0.content.1.source");
    check(json!({"type": "tool_result", "content": "x"}), "user", "messages.0.content.1.tool_use_id");
    check(json!({"type": "tool_result", "tool_use_id": "t", "content": [{}]}), "user", "messages.0.content.1.content.0.type");
    check(json!({"type": "tool_use", "name": "f"}), "assistant", "messages.0.content.1.id");
    check(json!({"type": "tool_use", "id": "t"}), "assistant", "messages.0.content.1.name");
    check(json!({"type": "tool_use", "id": "t", "name": "f", "input": "x"}), "assistant", "messages.0.content.1.input");
    assert_eq!(become_openais(&json!([{"type": "image"}]), &user(json!("a"))).unwrap_err().param.as_deref(), Some("system.0.source"));
}
