//! Servers that were asked for and have no tools: the model is told, since it cannot know.

use std::collections::BTreeMap;

use serde_json::json;
use toolgate::tools::config::Transport;

use crate::harness::{Proxy, Reply, Upstream, chat, mcp};

#[tokio::test]
async fn the_model_is_told_of_a_server_that_is_asked_for_and_is_not_there() {
    let upstream = Upstream::saying([Reply::text("I cannot.")]).await;
    let broken = toolgate::tools::config::Server {
        transport: Transport::Stdio { command: "no-such-program".to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None },
        ..mcp::server("git-hub", json!([]))
    };
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([broken])).await;
    let told = async |words: &str, header: &str| {
        let mut request = chat();
        request["messages"] = json!([{"role": "user", "content": words}]);
        let before = upstream.requests().len();
        let headers = [("x-toolgate-explain", "1"), ("x-toolgate-mcp", header)];
        let answer = proxy.ask_with(&request, if header.is_empty() { &headers[..1] } else { &headers }).await;
        let said = upstream.requests()[before].json()["messages"][0]["content"].as_str().unwrap().to_owned();
        (said, answer)
    };
    let (said, answer) = told("Open an issue with Git-Hub.", "").await;
    assert!(said.starts_with("Open an issue with Git-Hub.\n\n[The MCP server git-hub has no tools to offer now (broken: "), "{said}");
    let notes = answer.json()["toolgate"]["notes"].clone();
    assert!(notes[0].as_str().unwrap().contains("git-hub"), "{notes}");
    assert_eq!(told("Open an issue.", "").await.0, "Open an issue.");
    assert!(told("Open an issue.", "git-hub").await.0.contains("git-hub"));
    assert_eq!(told("Open an issue with git-hub.", "off").await.0, "Open an issue with git-hub.");
}
