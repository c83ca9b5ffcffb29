//! Odd but legal tools and transcripts, which must never fail a request.

use serde_json::{Value, json};

use crate::harness::{Reply, proxy_before, question_with};

#[tokio::test]
async fn odd_schemas_accept_what_they_should() {
    let schemas = [
        Value::Null,
        json!({}),
        json!(true),
        json!([]),
        json!("a string"),
        json!({"type": "object", "properties": {"city": {"type": ["string", "null"]}}}),
        json!({"type": "object", "properties": {"city": true}}),
        json!({"type": "object", "properties": {"city": {"type": "string", "enum": []}}}),
        json!({"type": "object", "properties": {"city": {"$ref": "https://example.com/city.json"}}}),
        json!({"type": "object", "properties": {"city": {"$ref": "file:///etc/passwd"}}}),
        json!({"type": "object", "properties": {"city": {"$ref": "#/$defs/none"}}}),
        json!({"$schema": "https://example.com/own-dialect", "type": "object"}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"city": {"maxLength": 9, "exclusiveMinimum": true}}}),
        json!({"properties": {"city": {"x-odd": 1, "format": "city", "pattern": "(?<"}}}),
        json!({"properties": {"city": {"type": "text"}}, "required": "city"}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    ];
    for schema in schemas {
        let (proxy, upstream) = proxy_before([Reply::call("f", r#"{"city":"Paris"}"#)]).await;
        let answer = proxy.ask(&question_with(json!({"tools": [crate::harness::tool("f", schema.clone())]}))).await;
        assert_eq!(answer.outcome(), (200, "clean", "1"), "{schema}");
        assert_eq!(upstream.only_request().json()["tools"][0]["function"]["parameters"], schema);
    }
}

#[tokio::test]
async fn a_schema_deeper_than_anybody_reads_travels_as_it_is() {
    let deep = "{\"properties\":{\"a\":".repeat(300) + "{}" + &"}}".repeat(300);
    let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{deep}}}}}"#);
    let (proxy, upstream) = proxy_before([Reply::call("f", r#"{"a":{"a":1}}"#)]).await;
    let answer = proxy.post("/v1/chat/completions", format!(r#"{{"messages":[],"tools":[{tool}]}}"#)).await;
    assert_eq!(answer.outcome(), (200, "clean", "1"));
    assert!(upstream.only_request().text().contains(&tool));
}

#[tokio::test]
async fn odd_tools_travel_as_they_are() {
    for odd in [
        json!({"type": "function", "function": {"name": "f"}}),
        json!({"type": "function", "function": {"name": "f", "description": null, "strict": null, "parameters": null}}),
        json!({"function": {"name": "f"}}),
        json!({"type": "function", "function": {"name": "f", "parameters": {}}, "cache_control": {"type": "ephemeral"}}),
    ] {
        let (proxy, upstream) = proxy_before([Reply::call("f", "{}")]).await;
        let answer = proxy.ask(&question_with(json!({"tools": [{"type": "web_search"}, odd]}))).await;
        assert_eq!(answer.calls(), [("f".to_owned(), "{}".to_owned())], "{odd}");
        assert_eq!(upstream.only_request().json()["tools"][1], odd);
    }
}

#[tokio::test]
async fn odd_transcripts_travel_as_they_are() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    for messages in [
        json!([]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]),
        json!([{"role": "assistant", "content": null, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": ""}]),
        json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [call]}]),
        json!([{"role": "developer", "content": null, "name": 3}, 4, "five", null]),
    ] {
        let (proxy, upstream) = proxy_before([Reply::text("no"), crate::harness::paris()]).await;
        let answer = proxy.ask(&question_with(json!({"messages": messages}))).await;
        assert_eq!(answer.outcome(), (200, "nudged", "2"), "{messages}");
        let sent = upstream.requests().iter().map(|request| request.json()["messages"].clone()).collect::<Vec<_>>();
        assert_eq!(sent[0], messages);
        let own = messages.as_array().unwrap();
        assert_eq!(&sent[1].as_array().unwrap()[..own.len()], &own[..]);
    }
}

#[tokio::test]
async fn a_name_may_hold_anything() {
    for name in ["ns.tool-1", "mcp__files__read", "名前", "with \"quotes\" and \\"] {
        let (proxy, _upstream) = proxy_before([Reply::call(name, "{}")]).await;
        let answer = proxy.ask(&question_with(json!({"tools": [crate::harness::tool(name, json!({}))]}))).await;
        assert_eq!(answer.calls(), [(name.to_owned(), "{}".to_owned())]);
    }
}

#[tokio::test]
async fn a_hundred_tools_are_offered_and_found() {
    let tools: Vec<Value> = (0..100).map(|n| crate::harness::tool(&format!("tool_{n}"), json!({"type": "object"}))).collect();
    let (proxy, upstream) = proxy_before([Reply::call("tool_100", "{}"), Reply::call("tool_99", "{}")]).await;
    let answer = proxy.ask(&question_with(json!({"tools": tools}))).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    let complaint = upstream.requests()[1].json()["messages"][2]["content"].as_str().unwrap().to_owned();
    assert!(complaint.len() < 1000 && complaint.contains('…'), "{complaint}");
}
