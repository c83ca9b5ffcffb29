//! A model, a proxy and one MCP server that notes what it is asked.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use serde_json::{Value, json};
use toolgate::{
    config::Config,
    tools::config::{Approval, Policy},
};

use crate::harness::{Answer, PATIENCE, Proxy, Reply, Upstream, mcp};

/// The three, with the server called `fs`.
pub(crate) struct Bench {
    pub(crate) proxy: Proxy,
    pub(crate) upstream: Upstream,
    log: PathBuf,
}

impl Bench {
    /// A model that says `replies`, and a server with `tools`.
    pub(crate) async fn new(replies: impl IntoIterator<Item = Reply>, tools: Value) -> Self {
        Self::with(replies, tools, |_| {}).await
    }

    /// The same with other settings.
    pub(crate) async fn with(replies: impl IntoIterator<Item = Reply>, tools: Value, change: impl FnOnce(&mut Config)) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("toolgate-bench-{}-{number}.log", std::process::id()));
        let upstream = Upstream::saying(replies).await;
        let servers = mcp::with_servers([mcp::scripted("fs", &json!({"tools": tools, "log": log}))]);
        let proxy = Proxy::start_with(&upstream, |config| {
            servers(config);
            change(config);
        })
        .await;
        Self { proxy, upstream, log }
    }

    /// How many lines of the server's log begin with `word`.
    pub(crate) fn count(&self, word: &str) -> usize {
        fs::read_to_string(&self.log).unwrap_or_default().lines().filter(|line| line.starts_with(word)).count()
    }

    /// How many calls the server got.
    pub(crate) fn calls(&self) -> usize {
        self.count("tools/call")
    }

    /// The messages of the request of that number, from 0.
    pub(crate) fn read(&self, request: usize) -> Vec<Value> {
        let requests = self.upstream.requests();
        requests[request].json()["messages"].as_array().unwrap().clone()
    }

    /// The same, each in a few words.
    pub(crate) fn outline(&self, request: usize) -> Vec<String> {
        self.read(request).iter().map(outline).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // There is none when the server never started.
        let _ = fs::remove_file(&self.log);
    }
}

/// Role, calls and content of a message.
fn outline(message: &Value) -> String {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls: Vec<String> =
        calls.map(|call| format!("{}={}", call["id"].as_str().unwrap(), call["function"]["name"].as_str().unwrap())).collect();
    let words = [message["role"].as_str().unwrap(), message["tool_call_id"].as_str().unwrap_or_default(), &calls.join(",")];
    let said = words.into_iter().chain(message["content"].as_str()).filter(|word| !word.is_empty()).collect::<Vec<_>>();
    said.join(" ")
}

/// A tool `name(q: string)` that changes nothing, with more about it.
pub(crate) fn reading(name: &str, more: Value) -> Value {
    let mut tool = changing(name, more);
    tool["annotations"] = json!({"readOnlyHint": true});
    tool
}

/// A tool `name(q: string)` that may change something, with more about it.
pub(crate) fn changing(name: &str, more: Value) -> Value {
    let mut tool = mcp::tool(name, "q");
    let Value::Object(more) = more else { panic!("fields are an object") };
    tool.as_object_mut().unwrap().extend(more);
    tool
}

/// `lookup` changes nothing, `change` does.
pub(crate) fn tools() -> Value {
    json!([reading("lookup", json!({})), changing("change", json!({}))])
}

/// The model calls `lookup`.
pub(crate) fn lookup() -> Reply {
    Reply::call("lookup", r#"{"q":"a"}"#)
}

/// The model answers.
pub(crate) fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

/// The next request of the conversation: what was answered, and the client's results by the place of their calls.
pub(crate) fn follow(request: &Value, message: &Value, results: &[&str]) -> Value {
    let mut next = request.clone();
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(message.clone());
    for (call, content) in message["tool_calls"].as_array().unwrap().iter().zip(results) {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": content}));
    }
    next
}

/// The names of the calls in a message.
pub(crate) fn names(message: &Value) -> Vec<&str> {
    message["tool_calls"].as_array().into_iter().flatten().map(|call| call["function"]["name"].as_str().unwrap()).collect()
}

/// `request`, streamed, with its usage.
pub(crate) fn streamed(mut request: Value) -> Value {
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    request
}

/// Settings that ask about `fs.change`.
pub(crate) fn asking(config: &mut Config) {
    config.tools.approvals = vec![Approval { pattern: "fs.change".to_owned(), policy: Policy::Ask }];
}

/// Asks, and wants to know how the answer was reached.
pub(crate) async fn explained(bench: &Bench, request: &Value) -> Answer {
    bench.proxy.ask_with(request, &[("x-toolgate-explain", "1")]).await
}

/// Waits until `is_so`.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
