use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    backend::Served,
    chat::{Call, Message as Added},
    wire::fields,
};

/// A prompt about `body`, a request whose tools and messages are read as the dialects read them.
fn prompt(body: &Value) -> Prompt {
    let body = Bytes::from(body.to_string());
    let fields = fields::object(&body).unwrap();
    let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default();
    let tool_choice = match serde_json::from_slice(&field("tool_choice")).unwrap_or_default() {
        Value::String(choice) if choice == "required" => ToolChoice::Required,
        Value::String(choice) if choice == "none" => ToolChoice::None,
        Value::Object(named) => ToolChoice::Named(named["function"]["name"].as_str().unwrap().to_owned()),
        _ => ToolChoice::Auto,
    };
    let request = Request {
        messages: field("messages"),
        tools_json: field("tools"),
        tool_choice,
        parallel_tool_calls: field("parallel_tool_calls") != "false",
        fields,
        ..Request::default()
    };
    Prompt {
        request: Arc::new(request),
        offered: Offered::AsRequested,
        corrections: Vec::new(),
        form: None,
        sampling: Vec::new(),
        served: Served::default(),
    }
}

fn messages(prompt: &Prompt) -> Vec<Value> {
    serde_json::from_slice(&prompt.request.messages).unwrap()
}

/// The system prompt, as far as it is instructions.
fn said(body: &Value) -> String {
    let messages = messages(&rewritten(prompt(body)));
    messages.first().filter(|first| first["role"] == "system").and_then(|first| first["content"].as_str()).unwrap_or_default().to_owned()
}

/// What becomes of `given` where no tools are offered.
#[track_caller]
fn check(given: Value, expected: Value) {
    assert_eq!(Value::Array(messages(&rewritten(prompt(&json!({"messages": given}))))), expected, "{given}");
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn weather() -> Value {
    json!([{"type": "function", "function": {
        "name": "weather", "description": "Tells \"it\".", "strict": true,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
    }}])
}

#[test]
fn the_tools_stand_in_the_system_prompt() {
    let said = said(&json!({"messages": [{"role": "system", "content": "Be kind."}, user("Hi")], "tools": weather()}));
    let expected = r#"Be kind.

# Tools

You can call the tools below. Each line is the name of a tool, what it does, and the JSON schema of its arguments.
<tools>
{"name":"weather","description":"Tells \"it\".","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}
</tools>

To call a tool, write its name and its arguments as one JSON object in <tool_call> tags. A call of `weather` looks like this:
<tool_call>
{"name": "weather", "arguments": {"city":"some city"}}
</tool_call>

To make several calls at once, write a block of tags for each, one behind the other.
Stop after that. The next message has the results in <tool_response> tags; never write them yourself."#;
    assert_eq!(said, expected);
}

#[test]
fn the_beginning_depends_on_the_tools_alone() {
    let say = |more: Value| {
        let mut body = json!({"messages": [user("Hi")], "tools": weather()});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        said(&body)
    };
    let plain = say(json!({}));
    let check = |more: Value, has: &str| {
        let other = say(more);
        let same = plain.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        assert!(other.contains(has) && !plain.contains(has), "{other}");
        assert!(other.get(..same).unwrap().contains("</tool_call>\n"), "{other}");
    };
    check(json!({"parallel_tool_calls": false}), "exactly one block");
    check(json!({"tool_choice": "required"}), "Your answer must be a tool call.");
    check(json!({"tool_choice": {"type": "function", "function": {"name": "weather"}}}), "Your answer must be a call of `weather`.");
}

#[test]
fn without_tools_nothing_is_said_of_them() {
    let check = |body: Value, offered: Offered| {
        let given = body["messages"].clone();
        let rewritten = rewritten(Prompt { offered, ..prompt(&body) });
        assert_eq!(Value::Array(messages(&rewritten)), given, "{body}");
    };
    let messages = json!([user("Hi")]);
    check(json!({"messages": messages, "tools": weather()}), Offered::Withheld);
    check(json!({"messages": messages, "tools": weather(), "tool_choice": "none"}), Offered::AsRequested);
    check(json!({"messages": messages, "tools": []}), Offered::AsRequested);
    check(json!({"messages": messages, "tools": [{"type": "web_search"}, {"type": "function", "function": {}}]}), Offered::AsRequested);
    check(json!({"messages": messages}), Offered::AsRequested);
}

#[test]
fn the_offered_tools_replace_those_of_the_request() {
    let tools = Bytes::from_static(br#"[{"type":"custom","name":"x"}, {"function":{"name":"g","parameters":null,"description":null}} ]"#);
    let prompt = Prompt { offered: Offered::Instead(tools), ..prompt(&json!({"messages": [user("Hi")], "tools": weather()})) };
    let said = messages(&rewritten(prompt))[0]["content"].as_str().unwrap().to_owned();
    assert!(said.contains("<tools>\n{\"name\":\"g\"}\n</tools>") && !said.contains("weather"), "{said}");
    assert!(said.contains("{\"name\": \"g\", \"arguments\": {}}"), "{said}");
}

#[test]
fn no_field_speaks_of_tools() {
    let body =
        json!({"a": 1, "tools": weather(), "tool_choice": "required", "messages": [user("Hi")], "parallel_tool_calls": false, "z": 2});
    let rewritten = rewritten(prompt(&body));
    let names: Vec<&str> = rewritten.request.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "messages", "z"]);
    assert_eq!(rewritten.request.field("messages"), Some(&rewritten.request.messages));
    assert!(matches!(rewritten.offered, Offered::Withheld) && rewritten.request.tools_json.is_empty());
    assert_eq!(rewritten.request.tool_choice, ToolChoice::Auto);
}

#[test]
fn instructions_join_any_system_prompt() {
    let system = |given: Value| messages(&rewritten(prompt(&json!({"messages": given, "tools": weather()})))).swap_remove(0);
    assert_eq!(system(json!([user("Hi")]))["role"], "system");
    assert_eq!(system(json!([]))["role"], "system");
    let developer = system(json!([{"role": "developer", "content": "A"}, {"role": "system", "content": "B"}, user("Hi")]));
    assert_eq!(developer["role"], "system");
    assert!(developer["content"].as_str().unwrap().starts_with("A\n\nB\n\n# Tools"));
    let parts = system(json!([{"role": "system", "content": [{"type": "text", "text": "A"}]}, user("Hi")]));
    assert_eq!((&parts["content"][0]["text"], parts["content"].as_array().unwrap().len()), (&json!("A"), 2));
    assert!(parts["content"][1]["text"].as_str().unwrap().starts_with("# Tools"));
}

#[test]
fn calls_and_results_become_text() {
    check(
        json!([
            user("Hi"),
            {"role": "assistant", "content": "So.", "tool_calls": [call("1", "f", "{\"a\": 1}"), call("2", "g", "")], "reasoning_content": "r"},
            {"role": "tool", "tool_call_id": "2", "content": "line\n\"two\""},
            {"role": "tool", "tool_call_id": "1", "content": ""},
            user("And?"),
        ]),
        json!([
            user("Hi"),
            {"role": "assistant", "reasoning_content": "r", "content":
                "So.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"},
            user(concat!(
                "<tool_response>\nResult of `g`:\nline\n\"two\"\n</tool_response>\n\n",
                "<tool_response>\nResult of `f`:\n\n</tool_response>\n\nAnd?"
            )),
        ]),
    );
}

#[test]
fn older_and_odder_forms_are_read_too() {
    let said = |arguments: &str| assistant(format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>"));
    let calls = |call: Value| json!([user("Hi"), {"role": "assistant", "content": null, "tool_calls": [call]}]);
    check(calls(json!({"function": {"name": "f", "arguments": {"a": 1}}})), json!([user("Hi"), said("{\"a\":1}")]));
    check(calls(json!({"function": {"name": "f"}})), json!([user("Hi"), said("{}")]));
    check(calls(call("1", "f", "{\"a\":")), json!([user("Hi"), said("\"{\\\"a\\\":\"")]));
    check(calls(call("1", "f", " [1]\n")), json!([user("Hi"), said("\"[1]\"")]));
    check(
        json!([
            user("Hi"),
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
        ]),
        json!([user("Hi"), said("{}"), user("<tool_response>\nResult of `f`:\n1\n</tool_response>")]),
    );
    check(
        json!([user("Hi"), {"role": "assistant", "content": "a", "tool_calls": [], "function_call": null}]),
        json!([user("Hi"), assistant("a")]),
    );
    check(json!([{"role": "tool", "content": null}]), json!([user("<tool_response>\n\n</tool_response>")]));
}

#[test]
fn parts_stay_parts() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
    check(
        json!([
            user("Hi"),
            {"role": "assistant", "content": [text("So.")], "tool_calls": [call("1", "f", "{}")]},
            {"role": "tool", "tool_call_id": "1", "content": [text("a"), image]},
            user([image.clone()].to_vec()),
        ]),
        json!([
            user("Hi"),
            assistant(vec![text("So."), text("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")]),
            user(vec![text("<tool_response>\nResult of `f`:\n"), text("a"), image.clone(), text("\n</tool_response>"), image]),
        ]),
    );
}

#[test]
fn turns_alternate() {
    let system = |content: &str| json!({"role": "system", "content": content});
    check(json!([user("a"), user("b"), assistant("c"), assistant("d")]), json!([user("a\n\nb"), assistant("c\n\nd")]));
    check(json!([assistant("a"), user("b")]), json!([user("(No message.)"), assistant("a"), user("b")]));
    check(
        json!([system("a"), {"role": "developer", "content": "b"}, user("c"), system("d"), assistant("e")]),
        json!([system("a\n\nb"), user("c\n\nNote of the system:\n\nd"), assistant("e")]),
    );
    check(
        json!([{"role": "user", "content": "a", "name": "A"}, {"role": "user", "content": "b", "name": "B", "x": 1}]),
        json!([{"role": "user", "content": "a\n\nb", "name": "A", "x": 1}]),
    );
}

#[test]
fn broken_messages_stay_as_they_are() {
    for broken in [
        json!(3),
        json!({"role": "narrator", "content": "a"}),
        json!({"content": "a"}),
        json!({"role": "user", "content": {"a": 1}}),
        json!({"role": "tool", "content": 3}),
        json!({"role": "assistant", "tool_calls": "f"}),
        json!({"role": "assistant", "tool_calls": [{"id": "1"}]}),
        json!({"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "f", "input": ""}}]}),
        json!({"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}),
    ] {
        check(json!([user("a"), broken, user("b")]), json!([user("a"), broken, user("b")]));
    }
    let unread = Prompt { request: Arc::new(Request { messages: Bytes::from_static(b"{}"), ..Request::default() }), ..prompt(&json!({})) };
    assert_eq!(rewritten(unread).request.messages, "{}");
}

#[test]
fn untouched_messages_keep_their_spelling() {
    let body = Bytes::from_static(br#"[ {"role" : "user","content":"\u00e9", "n":1e2} ,{"role":"assistant","content":"b"}]"#);
    let request = Request { messages: body, ..Request::default() };
    let rewritten = rewritten(Prompt { request: Arc::new(request), ..prompt(&json!({})) });
    assert_eq!(rewritten.request.messages, r#"[{"role" : "user","content":"\u00e9", "n":1e2},{"role":"assistant","content":"b"}]"#);
}

#[test]
fn corrections_join_the_conversation() {
    let call = |name: &str| Call { id: name.to_owned(), name: name.to_owned(), arguments: "{}".to_owned() };
    let corrections = vec![
        Added::Assistant { content: "Let me see.".to_owned(), calls: vec![call("f")] },
        Added::Tool { call_id: "f".to_owned(), content: "Error".to_owned() },
        Added::Assistant { content: "text".to_owned(), calls: Vec::new() },
        Added::User("Call now.".to_owned()),
    ];
    let corrected = Prompt { corrections, ..prompt(&json!({"messages": [user("Hi")]})) };
    let rewritten = rewritten(corrected);
    assert!(rewritten.corrections.is_empty());
    let expected = [
        user("Hi"),
        assistant("Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"),
        user("<tool_response>\nResult of `f`:\nError\n</tool_response>"),
        assistant("text"),
        user("Call now."),
    ];
    assert_eq!(messages(&rewritten), expected);
}

#[test]
fn a_forced_form_is_told_at_the_end() {
    let body = json!({"messages": [user("a"), assistant("b"), user("c")], "tools": weather()});
    let form = Some(Bytes::from_static(b"{}"));
    let plain = messages(&rewritten(prompt(&body)));
    let forced = rewritten(Prompt { form: form.clone(), ..prompt(&body) });
    assert_eq!(forced.form, form);
    let forced = messages(&forced);
    assert_eq!(forced[..3], plain[..3]);
    assert_eq!(forced[3], user(format!("c\n\n{BARE_CALL}")));
}

/// Messages of all kinds, with calls and results that belong together or not.
fn conversation() -> impl Strategy<Value = Vec<Value>> {
    let text = prop_oneof![Just(json!("a")), Just(json!("")), Just(json!(null)), Just(json!([{"type": "text", "text": "b"}]))];
    let role = prop::sample::select(vec!["system", "developer", "user", "assistant", "calling", "tool", "function"]);
    let message = (role, text, 0u8..3).prop_map(|(role, content, id)| match role {
        "calling" => json!({"role": "assistant", "content": content, "tool_calls": [call(&id.to_string(), "f", "{}")]}),
        "tool" => json!({"role": "tool", "tool_call_id": id.to_string(), "content": content}),
        "function" => json!({"role": "function", "name": "f", "content": content}),
        role => json!({"role": role, "content": content}),
    });
    prop::collection::vec(message, 0..10)
}

fn corrections() -> impl Strategy<Value = Vec<Added>> {
    let call = || Call { id: "9".to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
    let kind = prop_oneof![
        Just(Added::User("u".to_owned())),
        Just(Added::Assistant { content: "a".to_owned(), calls: Vec::new() }),
        Just(Added::Assistant { content: String::new(), calls: vec![call()] }),
        Just(Added::Tool { call_id: "9".to_owned(), content: "t".to_owned() }),
    ];
    prop::collection::vec(kind, 0..4)
}

proptest! {
    #[test]
    fn whatever_comes_in_takes_turns(given in conversation(), corrections in corrections(), offered: bool, forced: bool) {
        let tools = if offered { weather() } else { json!([]) };
        let form = forced.then(|| Bytes::from_static(b"{}"));
        let once = rewritten(Prompt { corrections, form, ..prompt(&json!({"messages": given, "tools": tools})) });
        let messages = messages(&once);
        let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        let turns = &roles[usize::from(roles.first().is_some_and(|role| matches!(*role, "system" | "developer")))..];
        for (at, role) in turns.iter().enumerate() {
            prop_assert_eq!(*role, if at % 2 == 0 { "user" } else { "assistant" }, "{:?}", roles);
        }
        prop_assert!(!offered || roles.first() == Some(&"system"));
        for message in &messages {
            prop_assert!(message.get("tool_calls").is_none() && message.get("tool_call_id").is_none());
        }
        let bytes = once.request.messages.clone();
        prop_assert_eq!(&rewritten(once).request.messages, &bytes);
    }

    #[test]
    fn a_longer_conversation_begins_with_the_shorter(given in conversation(), more in conversation()) {
        let rewrite = |given: &[Value]| messages(&rewritten(prompt(&json!({"messages": given, "tools": weather()}))));
        let (short, long) = (rewrite(&given), rewrite(&[given.clone(), more].concat()));
        // The last message may grow; where there was nothing but system messages, that is the first.
        let fixed = short.len().saturating_sub(1);
        prop_assert_eq!(&long[..fixed], &short[..fixed]);
    }
}
