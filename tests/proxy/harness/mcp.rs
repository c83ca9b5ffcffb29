//! MCP servers that do what a test tells them to.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use toolgate::{
    config::Config,
    secret::Template,
    tools::config::{Server, Transport},
};

/// A child process that has `tools`.
pub(crate) fn server(id: &str, tools: Value) -> Server {
    scripted(id, &json!({"tools": tools}))
}

/// A child process that does what `script` says, see `mcp_server.py`.
pub(crate) fn scripted(id: &str, script: &Value) -> Server {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxy/harness/mcp_server.py");
    let args = [program, &script.to_string()].map(Template::new).into();
    let transport = Transport::Stdio { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None };
    Server { id: id.to_owned(), transport, tags: Vec::new(), concurrent_max: 10, timeout: Duration::from_secs(30) }
}

/// A tool with one argument, a string.
pub(crate) fn tool(name: &str, argument: &str) -> Value {
    json!({
        "name": name,
        "description": format!("The tool {name}."),
        "inputSchema": {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]},
    })
}

/// Settings with these servers.
pub(crate) fn with_servers(servers: impl IntoIterator<Item = Server>) -> impl FnOnce(&mut Config) {
    let servers: Vec<Server> = servers.into_iter().collect();
    move |config| {
        config.tools.servers = servers;
        config.tools.variables = toolgate::tools::config::Variables(std::sync::Arc::new(|name| {
            #[expect(clippy::disallowed_methods, reason = "a test is no part of the program")]
            std::env::var(name).ok()
        }));
    }
}
