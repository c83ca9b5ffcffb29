//! The real proxy on a port of its own.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinSet};
use toolgate::{
    app,
    budget::Gate,
    config::{self, Config, budget::Books},
    resilience::tasks::Tasks,
    server,
    tools::{Health, Toolbox},
    trace::Sink,
};

use super::{Answer, Client, PATIENCE, Upstream, client::Streaming};

/// A running proxy. Dropping it ends it at once.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// A client that keeps its connections.
    pub(crate) client: Client,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) tasks: Tasks,
    pub(crate) toolbox: Option<Arc<Toolbox>>,
    pub(crate) gate: Gate,
    serving: JoinSet<usize>,
}

impl Proxy {
    /// A proxy with the default settings in front of `upstream`.
    pub(crate) async fn start(upstream: &Upstream) -> Self {
        Self::start_with(upstream, |_| {}).await
    }

    /// A proxy whose settings `change` adjusts.
    pub(crate) async fn start_with(upstream: &Upstream, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_at(&format!("http://{}", upstream.address), change).await
    }

    /// A proxy in front of whatever is at `url`.
    pub(crate) async fn start_at(url: &str, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_from("", |config| {
            config.backends.backends[0].target.url = url.parse().unwrap();
            change(config);
        })
        .await
    }

    /// A proxy in front of `upstream`, whose settings are those of a TOML `file`.
    pub(crate) async fn start_before(upstream: &Upstream, file: &str) -> Self {
        Self::start_from(file, |config| config.backends.backends[0].target.url = format!("http://{}", upstream.address).parse().unwrap())
            .await
    }

    /// A proxy whose settings are those of a TOML `file`, adjusted by `change`.
    pub(crate) async fn start_from(file: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (mut config, problems) = config::from_text(file, &HashMap::new());
        assert_eq!(problems, []);
        // Tests write into no folder but their own.
        config.trace.sink = Sink::Off;
        if matches!(config.budget.books, Books::File { .. }) {
            config.budget.books = Books::Memory;
        }
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new(app::build(&config, app::books(&config).unwrap()));
        if let Some(toolbox) = &state.toolbox {
            toolbox.start();
        }
        let (tasks, toolbox, gate) = (state.tasks.clone(), state.toolbox.clone(), state.gate.clone());
        let mut serving = JoinSet::new();
        serving.spawn(server::serve(listener, state, async { drop(stopped.await) }));
        Self { address, client: Client::new(address), stop: Some(stop), tasks, toolbox, gate, serving }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.client.get(path).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<bytes::Bytes>) -> Answer {
        self.client.send("POST", path, &[], body).await
    }

    /// Asks for a chat completion.
    pub(crate) async fn ask(&self, request: &Value) -> Answer {
        self.ask_with(request, &[]).await
    }

    /// Asks for a chat completion with these request headers.
    pub(crate) async fn ask_with(&self, request: &Value, headers: &[(&str, &str)]) -> Answer {
        self.client.send("POST", "/v1/chat/completions", headers, request.to_string()).await
    }

    /// Asks for a chat completion and reads no more than the answer's head.
    pub(crate) async fn ask_slowly(&self, request: &Value) -> Streaming {
        self.client.open("POST", "/v1/chat/completions", &[], request.to_string()).await.unwrap()
    }

    /// Tells the proxy to shut down.
    pub(crate) fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// How its MCP servers are.
    pub(crate) fn health(&self) -> Vec<Health> {
        self.toolbox.as_ref().unwrap().health()
    }

    /// Ends what runs beside the requests, as the program does before it leaves; says how much did not end.
    pub(crate) async fn end_tasks(&self) -> usize {
        self.tasks.end(PATIENCE).await
    }

    /// Waits for its end; says how many connections were cut.
    pub(crate) async fn stopped(&mut self) -> usize {
        let ended = tokio::time::timeout(PATIENCE, self.serving.join_next()).await;
        ended.expect("the proxy does not stop").unwrap().unwrap()
    }
}
