//! A page of the web that the user happens to visit must not have tools run.

use serde_json::json;

use crate::harness::{Proxy, Reply, Upstream, chat, mcp};

#[tokio::test]
async fn a_foreign_page_has_no_tools_run() {
    let upstream = Upstream::saying([Reply::text("Hello.")]).await;
    let server = mcp::server("files", json!([mcp::tool("read_file", "path")]));
    let with_servers = mcp::with_servers([server]);
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers(config);
        config.server.origins = vec!["https://chat.example.com".to_owned()];
    })
    .await;
    let status = async |origin: &str, mcp: &str| proxy.ask_with(&chat(), &[("origin", origin), ("x-toolgate-mcp", mcp)]).await.status;
    assert_eq!(status("https://evil.example.com", "files").await, 403);
    assert_eq!(upstream.calls(), 0);
    assert_eq!(status("https://chat.example.com", "files").await, 200);
    assert_eq!(status("http://localhost:3000", "files").await, 200);
    // One whose name leads here learns nothing of the servers.
    let told = async |path: &str, host: &str| proxy.client.send("GET", path, &[("host", host)], String::new()).await.status;
    for path in ["/health", "/health/ready", "/tools", "/metrics"] {
        assert_eq!((told(path, "evil.example.com").await, told(path, "localhost").await), (403, 200), "{path}");
    }
    assert_eq!(told("/health/live", "evil.example.com").await, 200);
    // It may talk, as it may without tools.
    assert_eq!(status("https://evil.example.com", "off").await, 200);
}
