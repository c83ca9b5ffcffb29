//! MCP servers that do what a test tells them to.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolgate::{
    config::Config,
    secret::Template,
    tools::{
        Health, Toolbox,
        config::{Server, Transport},
        server::State,
    },
};

use super::{Proxy, Reply, Upstream};

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

/// What a scripted server did, see `mcp_server.py`: its script names the file as `log`. Dropping it removes the file.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("toolgate-mcp-{}-{number}.log", std::process::id())))
    }

    /// The file's path.
    pub(crate) fn path(&self) -> String {
        self.0.display().to_string()
    }

    /// What follows `word` in the lines that begin with it.
    pub(crate) fn lines(&self, word: &str) -> Vec<String> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(|line| Some(line.strip_prefix(word)?.trim().to_owned())).collect()
    }

    /// How many lines begin with `word`.
    pub(crate) fn count(&self, word: &str) -> usize {
        self.lines(word).len()
    }

    /// The processes that it was.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.lines("start ").iter().map(|id| id.parse().unwrap()).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // There is none when the server never started.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether there is such a process, even one that has ended and that nobody has reaped.
pub(crate) fn exists(process: u32) -> bool {
    PathBuf::from(format!("/proc/{process}")).exists()
}

/// Waits until `is_so`. It fails the test where that takes longer than anything may.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < 4 * super::PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A tool without arguments, and what `mcp_server.py` does when it is called.
pub(crate) fn scripted_tool(name: &str, script: Value) -> Value {
    let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
    let Value::Object(script) = script else { panic!("a script is an object") };
    tool.as_object_mut().unwrap().extend(script);
    tool
}

/// A proxy with MCP servers, before a backend whose model calls a tool whenever it is asked something, and answers when it has the result.
pub(crate) struct Bench {
    pub(crate) proxy: Proxy,
    pub(crate) upstream: Upstream,
}

impl Bench {
    /// The model calls `tool`, in each of the next runs, with these servers and settings.
    pub(crate) async fn calling(tool: &str, servers: impl IntoIterator<Item = Server>, change: impl FnOnce(&mut Config)) -> Self {
        let turn = [Reply::call(tool, "{}"), Reply::call("respond", r#"{"message":"Done."}"#)];
        let replies: Vec<Reply> = std::iter::repeat_n(turn, RUNS_MAX).flatten().collect();
        let upstream = Upstream::saying(replies).await;
        let with = with_servers(servers);
        let proxy = Proxy::start_with(&upstream, |config| {
            with(config);
            config.server.keep_alive = Some(KEEP_ALIVE);
            change(config);
        })
        .await;
        Self { proxy, upstream }
    }

    /// Lets the model call its tool once. Returns what it reads of the call.
    pub(crate) async fn run(&self) -> String {
        let before = self.upstream.requests().len();
        assert_eq!(answer_of(&self.proxy).await, "Done.");
        let messages = self.upstream.requests()[before + 1].json()["messages"].clone();
        messages.as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
    }

    /// The names of the tools that the model was offered last.
    pub(crate) fn offered(&self) -> Vec<String> {
        let tools = self.upstream.requests().last().unwrap().json()["tools"].clone();
        let names = tools.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != "respond").collect()
    }

    /// How the only server is.
    pub(crate) fn health(&self) -> Health {
        self.toolbox().health().remove(0)
    }

    pub(crate) fn toolbox(&self) -> &Toolbox {
        self.proxy.toolbox.as_ref().unwrap()
    }

    /// Waits until the only server is in `state`.
    pub(crate) async fn becomes(&self, state: State) {
        eventually(&format!("{state:?}"), || self.health().state == state).await;
    }
}

/// What the model says when it is asked something, however long its tools take: the answer is kept alive.
pub(crate) async fn answer_of(proxy: &Proxy) -> String {
    let mut request = super::chat();
    request["stream"] = json!(true);
    let mut answer = proxy.ask_slowly(&request).await;
    let mut text = Vec::new();
    while let Some((piece, _)) = answer.next().await {
        text.extend_from_slice(&piece);
    }
    super::text_so_far(std::str::from_utf8(&text).unwrap())
}

/// How often a run with slow tools gives a sign of life.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// More runs than any test makes of one proxy.
const RUNS_MAX: usize = 300;

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
