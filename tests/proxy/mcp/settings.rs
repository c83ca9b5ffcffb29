//! Servers that a file names.

use std::{collections::HashMap, path::PathBuf, process::Command};

use serde_json::{Value, json};
use toolgate::config;

use crate::harness::{Proxy, Reply, Upstream, chat, mcp};

/// A file that is gone when the test is over.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &Value) -> Self {
        let path = std::env::temp_dir().join(format!("toolgate-{name}-{}.json", std::process::id()));
        std::fs::write(&path, content.to_string()).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_server_of_the_file_is_started_with_what_the_environment_holds() {
    let mut tool = mcp::tool("greet", "who");
    tool["answer"] = json!({"content": [{"type": "text", "text": "${GREETING}, ${WHO:-world}"}]});
    let script = json!({"tools": [tool]}).to_string();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxy/harness/mcp_server.py");
    let file = File::new("started", &json!({"mcpServers": {"greeter": {"command": "python3", "args": [program, script]}}}));

    let env = [("TOOLGATE_MCP_SERVERS", file.path()), ("GREETING", "Hello"), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
    let env: HashMap<String, String> = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let (read, problems) = config::from_text("", &env);
    assert_eq!(problems, []);
    let upstream = Upstream::saying([Reply::call("greet", r#"{"who":"you"}"#), Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.tools = read.tools).await;
    let answer = proxy.ask(&chat()).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Done.", "{answer}");
    assert_eq!(upstream.requests()[1].json()["messages"][2]["content"], "Hello, world");
}

#[test]
fn check_reports_what_is_wrong_with_the_file_and_never_what_a_variable_holds() {
    let servers = json!([{"id": "a", "url": "${SOME_URL}"}, {"id": "b", "command": "x", "args": ["${NO_SUCH_VARIABLE}"]},
        {"id": "c", "command": "no-such-program"}]);
    let file = File::new("checked", &json!({"servers": servers}));
    let output = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .arg("check")
        .env("TOOLGATE_MCP_SERVERS", file.path())
        .env("SOME_URL", "ftp://sk-secret@host")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let at = file.path();
    assert!(said.contains(&format!("toolgate: {at}: servers[0].url: must be a URL")), "{said}");
    assert!(said.contains(&format!("toolgate: {at}: servers[1].args[0]: ${{NO_SUCH_VARIABLE}} is not set, and the server `b` needs it")));
    assert!(said.contains("the MCP server `c` cannot be started: there is no program `no-such-program`"), "{said}");
    assert!(!said.contains("sk-secret"), "{said}");
}
