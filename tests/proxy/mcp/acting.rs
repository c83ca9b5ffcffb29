//! Servers that act call after call as a test says, see `acting_server.py`, and what was seen of them.

use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolgate::{
    secret::Template,
    tools::config::{Server, Transport},
};

use crate::harness::{PATIENCE, Proxy, Upstream};

/// One server and its directory, which goes with it.
pub(super) struct Acting {
    dir: PathBuf,
    pub(super) server: Server,
}

impl Acting {
    /// A server called `id` that has `tools`.
    pub(super) fn new(id: &str, tools: Value) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("toolgate-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxy/mcp/acting_server.py");
        let args = [program, &json!({"dir": dir, "tools": tools}).to_string()].map(Template::new).into();
        let transport = Transport::Stdio { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None };
        let server = Server { id: id.to_owned(), transport, tags: Vec::new(), concurrent_max: 10, timeout: Duration::from_secs(30) };
        Self { dir, server }
    }

    /// What it noted.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("calls.log")).unwrap_or_default()
    }

    /// How often it was called.
    pub(super) fn calls(&self) -> usize {
        self.log().lines().filter(|line| line.starts_with("call ")).count()
    }

    /// Waits until it noted something that begins with `start`.
    pub(super) async fn noted(&self, start: &str) {
        let begun = Instant::now();
        while !self.log().lines().any(|line| line.starts_with(start)) {
            assert!(begun.elapsed() < PATIENCE, "no {start:?} in {:?}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A tool without arguments that acts so.
pub(super) fn acting(name: &str, acts: Value) -> Value {
    json!({"name": name, "description": "Acts.", "inputSchema": {"type": "object"}, "acts": acts})
}

/// The same, which says that it changes nothing.
pub(super) fn reading(name: &str, acts: Value) -> Value {
    let mut tool = acting(name, acts);
    tool["annotations"] = json!({"readOnlyHint": true});
    tool
}

/// A question in these words.
pub(super) fn asking(words: &str) -> Value {
    json!({"model": "tiny", "messages": [{"role": "user", "content": words}]})
}

/// What the answer to `request` tells of its calls.
pub(super) async fn explained(proxy: &Proxy, request: &Value, headers: &[(&str, &str)]) -> Vec<Value> {
    let headers: Vec<(&str, &str)> = [("x-toolgate-explain", "1")].into_iter().chain(headers.iter().copied()).collect();
    let answer = proxy.ask_with(request, &headers).await;
    let answer = answer.json();
    answer["toolgate"]["calls"].as_array().unwrap_or_else(|| panic!("no calls in {answer}")).clone()
}

/// The tool messages that the model read last.
pub(super) fn read_by_model(upstream: &Upstream) -> Vec<String> {
    let last = upstream.requests().last().unwrap().json();
    let is_result = |message: &&Value| message["role"] == "tool";
    let text = |message: &Value| message["content"].as_str().map_or_else(|| message["content"].to_string(), str::to_owned);
    last["messages"].as_array().unwrap().iter().filter(is_result).map(text).collect()
}
