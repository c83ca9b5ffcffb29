//! MCP servers and their tools: connected, listed, chosen and called.
//!
//! `supervise` keeps a server connected, `catalog` makes one list of all tools, `selector` says which server serves a call, `execute` makes
//! it. rmcp stays in `mcp`.

mod attempt;
mod canonical;
pub mod catalog;
pub mod config;
pub mod definition;
pub mod execute;
mod lru;
pub mod mcp;
pub mod output;
pub mod schema;
pub mod selector;
pub mod server;
mod supervise;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::Notify;

pub use self::catalog::{Ask, Entry, Offer, Snapshot};
pub use self::config::Config;
pub use self::execute::{Chosen, Outcome, Proposal};
use self::{
    config::Policy,
    definition::Definition,
    selector::Selector,
    server::{Server, State},
};
use crate::{chat::Servers, resilience::tasks::Tasks};

/// All servers and their tools.
#[derive(Debug)]
pub struct Toolbox {
    config: Arc<Config>,
    servers: Vec<Arc<Server>>,
    catalog: ArcSwap<Snapshot>,
    selector: Selector,
    tasks: Tasks,
    begun: Instant,
    /// Told when the catalog changed.
    changed: Notify,
}

/// How one server is, for people and programs that ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Its id.
    pub server: String,
    /// How it is.
    pub state: State,
    /// How many tools it has.
    pub tools: usize,
    /// The phase of its breaker.
    pub breaker: &'static str,
    /// Why it is not better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How long the connections get to close at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

impl Toolbox {
    /// A toolbox whose servers are not connected before [`Self::start`].
    pub fn new(config: Config, tasks: Tasks) -> Arc<Self> {
        let servers = config.servers.iter().map(|server| Arc::new(Server::new(server.clone(), config.breaker))).collect();
        let selector = Selector::new(config.embedder.clone());
        let config = Arc::new(config);
        Arc::new(Self { config, servers, catalog: ArcSwap::default(), selector, tasks, begun: Instant::now(), changed: Notify::new() })
    }

    /// Begins to connect to the servers, one task each. They end when the tasks do.
    pub fn start(self: &Arc<Self>) {
        for server in &self.servers {
            let (own, server) = (Arc::clone(self), Arc::clone(server));
            let tasks = self.tasks.clone();
            self.tasks.spawn(async move {
                let renew = || own.renew();
                tokio::select! {
                    () = supervise::supervise(Arc::clone(&server), Arc::clone(&own.config), renew) => {}
                    () = tasks.ending() => {
                        if let Some(connection) = &server.view().connection {
                            connection.close(CLOSE_GRACE).await;
                        }
                    }
                }
            });
        }
    }

    /// Whether a request is offered tools.
    pub fn attaches(&self, servers: &Servers) -> bool {
        match servers {
            Servers::Attached => self.config.attach,
            Servers::Off => false,
            Servers::Only(_) => true,
        }
    }

    /// The id among `servers` that is none, if there is one.
    pub fn unknown<'a>(&self, servers: &'a Servers) -> Option<&'a str> {
        let Servers::Only(ids) = servers else { return None };
        ids.iter().map(String::as_str).find(|id| self.server(id).is_none())
    }

    /// The catalog as it is now. Waits a while at the start, as long as there are servers that were not reached yet.
    pub async fn catalog(&self) -> Arc<Snapshot> {
        let until = self.begun + self.config.start_timeout;
        let is_starting = || self.servers.iter().any(|server| server.view().state == State::Starting);
        while is_starting() && Instant::now() < until {
            let changed = self.changed.notified();
            if !is_starting() {
                break;
            }
            // After it, whatever there is.
            let _ = tokio::time::timeout_at(until.into(), changed).await;
        }
        self.catalog.load_full()
    }

    /// How the servers are.
    pub fn health(&self) -> Vec<Health> {
        let health = |server: &Arc<Server>| {
            let view = server.view();
            Health {
                server: server.config.id.clone(),
                state: view.state,
                tools: view.tools.len(),
                breaker: server.phase().as_str(),
                reason: view.reason.clone(),
            }
        };
        self.servers.iter().map(health).collect()
    }

    fn server(&self, id: &str) -> Option<Arc<Server>> {
        self.servers.iter().find(|server| server.config.id == id).cloned()
    }

    /// Who decides about a tool.
    fn policy(&self, definition: &Definition) -> Policy {
        let name = format!("{}.{}", definition.server, definition.name);
        let rule = self.config.approvals.iter().find(|approval| matches(&approval.pattern, &name));
        rule.map_or(Policy::Allow, |approval| approval.policy)
    }

    /// Makes a new catalog of what the servers have now.
    fn renew(&self) {
        let views = self.servers.iter().map(|server| server.view());
        let tools = views.flat_map(|view| view.tools.iter().map(|tool| (Arc::new(tool.clone()), self.policy(tool))).collect::<Vec<_>>());
        self.catalog.store(Arc::new(Snapshot::new(tools.collect(), self.config.overlaps.clone())));
        self.changed.notify_waiters();
    }
}

/// Whether `text` is what `pattern` says, where `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| rest.get(at..).is_some_and(|rest| matches(after, rest)))
}
