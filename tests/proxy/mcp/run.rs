//! A run of several turns that the client sees as one answer.

use serde_json::json;

use crate::harness::{Proxy, Reply, Upstream, chat, mcp, text_so_far};

#[tokio::test]
async fn a_tool_is_run_and_its_result_is_read() {
    let upstream =
        Upstream::saying([Reply::call("read_file", r#"{"path":"README.md"}"#), Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let server = mcp::server("filesystem", json!([mcp::tool("read_file", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    let answer = proxy.ask(&chat()).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Done.", "{answer}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let requests = upstream.requests();
    let second = requests[1].json();
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{second}");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "read_file");
    assert_eq!(messages[2]["content"], r#"read_file {"path": "README.md"}"#);
}

#[tokio::test]
async fn a_stream_stays_one_stream() {
    let upstream =
        Upstream::saying([Reply::call("read_file", r#"{"path":"README.md"}"#), Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let server = mcp::server("filesystem", json!([mcp::tool("read_file", "path")]));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([server])).await;
    let mut request = chat();
    request["stream"] = json!(true);
    let answer = proxy.ask(&request).await;
    assert_eq!(text_so_far(answer.text()), "Done.");
}
