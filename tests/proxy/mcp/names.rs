//! The names by which the model and the client know tools.

use serde_json::{Value, json};

use crate::harness::{Proxy, Reply, Upstream, chat, mcp, tool};

fn names(request: &Value) -> Vec<String> {
    request["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_clients_tool_keeps_its_name_and_ours_is_called_by_its_full_one() {
    let upstream = Upstream::saying([Reply::call("files__read", r#"{"path":"a"}"#), Reply::call("read", r#"{"page":1}"#)]).await;
    let server = mcp::server("files", json!([mcp::tool("read", "path"), mcp::tool("list", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    let mut request = chat();
    request["tools"] = json!([tool("read", json!({"type": "object", "properties": {"page": {"type": "integer"}}}))]);
    let answer = proxy.ask(&request).await;
    assert_eq!(answer.calls(), [("read".to_owned(), r#"{"page":1}"#.to_owned())]);
    let requests = upstream.requests();
    let first = requests[0].json();
    assert_eq!(names(&first), ["read", "files__read", "list", "respond"]);
    assert_eq!(first["tools"][0].to_string(), request["tools"][0].to_string());
    assert_eq!(requests[1].json()["messages"][2]["content"], r#"read {"path": "a"}"#);
}

#[tokio::test]
async fn a_tool_of_another_type_keeps_its_name_too() {
    let upstream = Upstream::saying([Reply::call("files__read", r#"{"path":"a"}"#), Reply::call("respond", r#"{"message":"Hi."}"#)]).await;
    let server = mcp::server("files", json!([mcp::tool("read", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    let mut request = chat();
    request["tools"] = json!([{"type": "custom", "custom": {"name": "read"}}]);
    assert_eq!(proxy.ask(&request).await.content(), "Hi.");
    let requests = upstream.requests();
    let tools = requests[0].json()["tools"].clone();
    assert_eq!((&tools[0], &tools[1]["function"]["name"]), (&request["tools"][0], &json!("files__read")));
    assert_eq!(requests[1].json()["messages"][2]["content"], r#"read {"path": "a"}"#);
}

#[tokio::test]
async fn a_tool_with_a_name_that_no_model_may_see_is_called_by_another() {
    let long = format!("files.read/{}", "x".repeat(70));
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Hi."}"#)]).await;
    let server = mcp::server("files", json!([mcp::tool(&long, "path"), mcp::tool("a b", "path"), mcp::tool("a_b", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    proxy.ask(&chat()).await;
    let shown = names(&upstream.requests()[0].json());
    for name in &shown {
        assert!((1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
    }
    assert!(shown[0].starts_with("files_read_xxx") && shown[1].starts_with("a_b_") && shown[2] == "a_b", "{shown:?}");

    let upstream = Upstream::saying([Reply::call(&shown[0], r#"{"path":"p"}"#), Reply::call("respond", r#"{"message":"Hi."}"#)]).await;
    let server = mcp::server("files", json!([mcp::tool(&long, "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    assert_eq!(proxy.ask(&chat()).await.content(), "Hi.");
    assert_eq!(upstream.requests()[1].json()["messages"][2]["content"], format!(r#"{long} {{"path": "p"}}"#));
}

#[tokio::test]
async fn a_tool_called_respond_is_not_taken_for_the_guardrails_own() {
    let upstream =
        Upstream::saying([Reply::call("mail__respond", r#"{"text":"yes"}"#), Reply::call("respond", r#"{"message":"Sent."}"#)]).await;
    let server = mcp::server("mail", json!([mcp::tool("respond", "text")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    assert_eq!(proxy.ask(&chat()).await.content(), "Sent.");
    let requests = upstream.requests();
    assert_eq!(names(&requests[0].json()), ["mail__respond", "respond"]);
    assert_eq!(requests[1].json()["messages"][2]["content"], r#"respond {"text": "yes"}"#);
}
