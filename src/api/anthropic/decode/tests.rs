//! Requests read, good ones and bad ones.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::chat::ToolChoice;

fn read(body: &Value) -> Result<Decoded, Problem> {
    request(&Bytes::from(body.to_string()))
}

fn with(more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let Value::Object(more) = more else { panic!("fields are an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

#[test]
fn faults_are_named() {
    let check = |body: Value, param: &str, part: &str| {
        let problem = read(&body).unwrap_err();
        assert_eq!(problem.param.as_deref(), Some(param), "{body}");
        assert!(problem.message.contains(param) && problem.message.contains(part), "{body}: {}", problem.message);
    };
    check(json!({}), "messages", "missing");
    check(with(json!({"messages": null})), "messages", "missing");
    check(with(json!({"messages": {}})), "messages", "list");
    check(with(json!({"messages": []})), "messages", "empty");
    check(with(json!({"messages": [3]})), "messages.0", "object");
    check(with(json!({"messages": [{"content": "x"}]})), "messages.0.role", "missing");
    check(with(json!({"messages": [{"role": "tool", "content": "x"}]})), "messages.0.role", "assistant");
    check(with(json!({"messages": [{"role": "user"}]})), "messages.0.content", "missing");
    check(with(json!({"messages": [{"role": "user", "content": 3}]})), "messages.0.content", "list of content blocks");
    check(with(json!({"system": 3})), "system", "list");
    check(with(json!({"model": 3})), "model", "string");
    check(with(json!({"max_tokens": 0})), "max_tokens", "positive");
    check(with(json!({"max_tokens": "many"})), "max_tokens", "integer");
    check(with(json!({"stop_sequences": "x"})), "stop_sequences", "list");
    check(with(json!({"temperature": "hot"})), "temperature", "number");
    check(with(json!({"stream": 1})), "stream", "boolean");
    check(with(json!({"thinking": true})), "thinking", "object");
    check(with(json!({"metadata": {"user_id": 3}})), "metadata", "string");
    check(with(json!({"output_config": {"format": {"type": "xml"}}})), "output_config.format.type", "json_schema");
    check(with(json!({"output_format": {"type": "json_schema"}})), "output_format.schema", "schema");
    check(with(json!({"tools": {}})), "tools", "list");
    check(with(json!({"tools": [3]})), "tools.0", "tool");
    check(with(json!({"tools": [{"input_schema": {}}]})), "tools.0.name", "missing");
    check(with(json!({"tools": [{"name": "f"}]})), "tools.0.input_schema", "missing");
    check(with(json!({"tools": [{"name": "f", "input_schema": "x"}]})), "tools.0.input_schema", "schema");
    check(with(json!({"tool_choice": "auto"})), "tool_choice", "object");
    check(with(json!({"tool_choice": {"type": "any"}})), "tool_choice", "no tools");
    check(with(json!({"tool_choice": {"type": "some"}})), "tool_choice.type", "auto");
    check(with(json!({"tool_choice": {"type": "tool"}})), "tool_choice.name", "missing");
    check(with(json!({"tool_choice": {"type": "tool", "name": "g"}})), "tool_choice.name", "`g`");
    for (body, part) in [("", "empty"), ("{", "not valid JSON"), ("[]", "must be a JSON object"), ("\"x\"", "must be a JSON object")] {
        let problem = request(&Bytes::from_static(body.as_bytes())).unwrap_err();
        assert!(problem.param.is_none() && problem.message.contains(part), "{body}: {}", problem.message);
    }
}

/// The fields that a request becomes, but the model and the messages.
fn fields(more: Value) -> Value {
    let fields = read(&with(more)).unwrap().request.fields.into_iter().filter(|(name, _)| name != "model" && name != "messages");
    fields.map(|(name, value)| (name, serde_json::from_slice::<Value>(&value).unwrap())).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn fields_become_openais() {
    let check = |more: Value, expected: Value| assert_eq!(fields(more.clone()), expected, "{more}");
    check(json!({}), json!({}));
    check(json!({"max_tokens": 9, "stop_sequences": ["a"]}), json!({"max_tokens": 9, "stop": ["a"]}));
    check(json!({"stop_sequences": [], "temperature": null}), json!({}));
    check(json!({"temperature": 0.5, "top_k": 3, "top_p": 1, "seed": 7}), json!({"temperature": 0.5, "top_p": 1, "top_k": 3, "seed": 7}));
    check(json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}), json!({"thinking_budget_tokens": 2048}));
    check(json!({"thinking": {"type": "disabled"}}), json!({"chat_template_kwargs": {"enable_thinking": false}}));
    check(json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}), json!({}));
    let kwargs = json!({"chat_template_kwargs": {"enable_thinking": true, "x": 1}, "thinking": {"type": "disabled"}});
    check(kwargs, json!({"chat_template_kwargs": {"enable_thinking": true, "x": 1}}));
    check(json!({"output_config": {"effort": "low"}}), json!({"reasoning_effort": "low"}));
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"}}});
    let asked = json!({"type": "json_schema", "schema": {"type": "object"}});
    check(json!({"output_config": {"format": asked}}), json!({"response_format": format}));
    check(json!({"output_format": asked}), json!({"response_format": format}));
    check(json!({"metadata": {"user_id": "u"}}), json!({"user": "u"}));
    check(json!({"metadata": {"user_id": "u".repeat(65)}}), json!({}));
    check(
        json!({"betas": ["x"], "context_management": {}, "service_tier": "auto", "container": "c", "mcp_servers": [], "new": 1}),
        json!({}),
    );
}

#[test]
fn reasoning_is_shown_to_those_who_asked_for_it() {
    let shown = |more: Value| read(&with(more)).unwrap().shows_thinking;
    assert!(!shown(json!({})));
    assert!(!shown(json!({"thinking": {"type": "disabled"}})));
    assert!(!shown(json!({"thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}})));
    assert!(shown(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})));
    assert!(shown(json!({"thinking": {"type": "adaptive", "display": "summarized"}})));
}

#[test]
fn tools_keep_their_schema_as_written() {
    let body = Bytes::from_static(
        br#"{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"},
            {"name":"f","description":"d","input_schema":{ "b":1e2 },"cache_control":{"type":"ephemeral"}},
            {"type":"custom","name":"g","input_schema":{},"strict":true},{"type":"bash_20250124","name":"bash"}],
            "tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true}}"#,
    );
    let request = request(&body).unwrap().request;
    let names: Vec<_> = request.tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters[..])).collect();
    assert_eq!(names, [("f", &b"{ \"b\":1e2 }"[..]), ("g", b"{}")]);
    assert_eq!(
        std::str::from_utf8(&request.tools_json).unwrap(),
        concat!(
            r#"[{"type":"function","function":{"name":"f","description":"d","parameters":{ "b":1e2 }}},"#,
            r#"{"type":"function","function":{"name":"g","parameters":{},"strict":true}}]"#
        )
    );
    assert_eq!((&request.tool_choice, request.parallel_tool_calls), (&ToolChoice::Named("g".to_owned()), false));
    assert_eq!(request.field("tool_choice").unwrap().as_ref(), br#"{"type":"function","function":{"name":"g"}}"#.as_slice());
    assert_eq!(request.field("parallel_tool_calls").unwrap().as_ref(), b"false");
}

#[test]
fn a_choice_among_no_tools_says_nothing() {
    let server_tool = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    let choice = |more: Value| (read(&with(more.clone())).unwrap().request.tool_choice, fields(more));
    assert_eq!(choice(json!({"tools": server_tool, "tool_choice": {"type": "any"}})), (ToolChoice::Auto, json!({})));
    assert_eq!(choice(json!({"tool_choice": {"type": "none"}})), (ToolChoice::None, json!({})));
    let tools = json!([{"name": "f", "input_schema": {}}]);
    for (word, wanted, written) in [
        ("auto", ToolChoice::Auto, Value::Null),
        ("any", ToolChoice::Required, json!("required")),
        ("none", ToolChoice::None, json!("none")),
    ] {
        let (choice, fields) = choice(json!({"tools": tools, "tool_choice": {"type": word}}));
        assert_eq!((choice, &fields["tool_choice"]), (wanted, &written));
    }
}

#[test]
fn deferred_tools_are_shown_once_the_conversation_names_them() {
    let tool = |name: &str| json!({"name": name, "input_schema": {}});
    let deferred = |name: &str| json!({"name": name, "input_schema": {}, "defer_loading": true});
    let tools = json!([deferred("a"), tool("search"), deferred("b"), deferred("c"), tool("d")]);
    let offered = |blocks: Value, tools: &Value| {
        let messages = json!([{"role": "user", "content": "hi"}, {"role": "system", "content": blocks}]);
        let names = read(&json!({"messages": messages, "tools": tools})).unwrap().request.tools.into_iter().map(|tool| tool.name);
        names.collect::<Vec<_>>().join(" ")
    };
    let found = |name: &str| json!({"type": "tool_reference", "tool_name": name});
    let change = |kind: &str, name: &str| json!({"type": kind, "tool": {"type": "tool_reference", "name": name}});
    assert_eq!(offered(json!([]), &tools), "search d");
    assert_eq!(offered(json!([found("c"), found("a"), found("c"), found("x")]), &tools), "search d c a");
    assert_eq!(offered(json!([change("tool_addition", "b"), change("tool_removal", "d")]), &tools), "search b");
    assert_eq!(offered(json!([change("tool_removal", "d"), change("tool_addition", "d")]), &tools), "search d");
    let by_server = json!([{"type": "tool_search_tool_regex_20251119", "name": "tool_search"}, deferred("a"), tool("d")]);
    assert_eq!(offered(json!([]), &by_server), "a d");
}

fn json_like() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "text",
        "type",
        "image",
        "tool_use",
        "tool_result",
        "document",
        "source",
        "base64",
        "url",
        "content",
        "role",
        "user",
        "assistant",
        "messages",
        "system",
        "tools",
        "name",
        "input",
        "input_schema",
        "id",
        "tool_use_id",
        "thinking",
        "data",
        "media_type",
        "é\"\\",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let field = (words.clone(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(field, 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn no_request_is_too_odd(messages in json_like(), system in json_like(), tools in json_like(), block in json_like()) {
        let whole = json!({"messages": messages, "system": system, "tools": tools});
        let inside = json!({"messages": [{"role": "user", "content": [block]}, {"role": "assistant", "content": [block]}]});
        for body in [whole, inside, block] {
            if let Ok(decoded) = read(&body) {
                let messages: Vec<Value> = serde_json::from_slice(&decoded.request.messages).unwrap();
                prop_assert!(messages.iter().all(|message| message["role"].is_string()));
            }
        }
    }

    #[test]
    fn no_bytes_are_too_odd(body in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert!(request(&Bytes::from(body)).is_err());
    }
}
