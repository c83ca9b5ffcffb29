//! MCP servers and their tools: connected, listed, chosen and called.
//!
//! `supervise` keeps a server connected, `catalog` makes one list of all tools, `selector` says which server serves a call, `execute` makes
//! it. rmcp stays in `mcp`.

mod attempt;
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
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::Notify;

pub use self::catalog::{Ask, Entry, Offer, Snapshot};
pub use self::config::Config;
pub use self::execute::{Chosen, Outcome, Proposal};
use self::{
    catalog::{cached::Cache, lists::Lists, pins::Pins},
    config::Policy,
    definition::Definition,
    selector::Selector,
    server::{Server, State, View},
};
use crate::{chat::Servers, glob, resilience::tasks::Tasks, store::Store};

/// All servers and their tools.
#[derive(Debug)]
pub struct Toolbox {
    config: Arc<Config>,
    servers: Vec<Arc<Server>>,
    catalog: ArcSwap<Snapshot>,
    /// What the catalog is made of. Held while it is made, so that the last list counts.
    lists: Mutex<Lists>,
    pins: Arc<Pins>,
    cache: Cache,
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
    /// How many of them are not what they were when they were first seen.
    #[serde(skip_serializing_if = "is_zero")]
    pub changed: usize,
    /// The phase of its breaker.
    pub breaker: &'static str,
    /// Why it is not better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Toolbox {
    /// A toolbox whose servers are not connected before [`Self::start`]. Their lists are kept in `store`.
    pub fn new(config: Config, tasks: Tasks, store: Arc<Store>) -> Arc<Self> {
        let servers = config.servers.iter().map(|server| Arc::new(Server::new(server.clone(), config.breaker))).collect();
        Arc::new(Self {
            servers,
            catalog: ArcSwap::default(),
            lists: Mutex::new(Lists::new(config.changed)),
            pins: Arc::new(Pins::load(config.pins.clone())),
            cache: Cache::new(store),
            selector: Selector::new(config.embedder.clone()),
            config: Arc::new(config),
            tasks,
            begun: Instant::now(),
            changed: Notify::new(),
        })
    }

    /// Begins to connect to the servers, one task each. They end when the tasks do.
    pub fn start(self: &Arc<Self>) {
        if self.pins.has_file() {
            self.tasks.spawn(Arc::clone(self).keep_pins());
        }
        for server in &self.servers {
            let (own, server, config, tasks) = (Arc::clone(self), Arc::clone(server), Arc::clone(&self.config), self.tasks.clone());
            self.tasks.spawn(async move {
                own.recall(&server).await;
                let saved = Mutex::new(None);
                let renew = || {
                    own.renew();
                    own.save(&server, &saved);
                };
                supervise::supervise(Arc::clone(&server), config, tasks, renew).await;
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
        // What is known answers at once; what is more is learned behind it.
        self.servers.iter().filter(|server| server.view().state == State::Stale).for_each(|server| server.refresh());
        self.catalog.load_full()
    }

    /// The catalog as it is now, without waiting for anybody.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.catalog.load_full()
    }

    /// The servers, the first ones preferred.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// How the servers are.
    pub fn health(&self) -> Vec<Health> {
        let catalog = self.catalog.load();
        let health = |server: &Arc<Server>| {
            let view = server.view();
            let changed = catalog.tools().iter().filter(|tool| tool.changed && *tool.definition.server == *server.config.id);
            Health {
                server: server.config.id.clone(),
                state: view.state,
                tools: view.tools.len(),
                changed: changed.count(),
                breaker: server.phase().as_str(),
                reason: view.reason.clone(),
            }
        };
        self.servers.iter().map(health).collect()
    }

    /// The servers that have no tools to offer.
    pub fn without_tools(&self) -> Vec<Health> {
        if self.servers.iter().all(|server| !server.view().tools.is_empty()) {
            return Vec::new();
        }
        self.health().into_iter().filter(|health| health.tools == 0).collect()
    }

    /// The tasks that outlive who began them.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn server(&self, id: &str) -> Option<Arc<Server>> {
        self.servers.iter().find(|server| server.config.id == id).cloned()
    }

    /// Who decides about a tool.
    fn policy(&self, definition: &Definition) -> Policy {
        let name = format!("{}.{}", definition.server, definition.name);
        let rule = self.config.approvals.iter().find(|approval| glob::matches(&approval.pattern, &name));
        rule.map_or(Policy::Allow, |approval| approval.policy)
    }

    /// Makes a new catalog of what the servers have now, where that is something else than before.
    fn renew(&self) {
        // Whole after any panic: a list that was not looked at is looked at next time.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let views = self.servers.iter().map(|server| Arc::clone(&server.view().tools));
        if let Some(tools) = lists.take(views, &self.pins, |tool| self.policy(tool)) {
            self.catalog.store(Arc::new(Snapshot::new(tools, self.config.overlaps.clone())));
        }
        drop(lists);
        self.changed.notify_waiters();
    }

    /// The connection to `server`. Waits a while at the start, where its tools are known and it is not reached yet, until `deadline` at most.
    async fn connection(&self, server: &Server, deadline: Instant) -> Option<mcp::Connection> {
        let until = deadline.min(self.begun + self.config.start_timeout);
        loop {
            let changed = self.changed.notified();
            let view = server.view();
            let is_awaited = view.connection.is_none() && matches!(view.state, State::Starting | State::Stale);
            if !is_awaited || Instant::now() >= until {
                return view.connection.clone();
            }
            // After it, whatever there is.
            let _ = tokio::time::timeout_at(until.into(), changed).await;
        }
    }

    /// Offers the tools that `server` had when it was last listed, until it is reached.
    async fn recall(&self, server: &Server) {
        let Some(cached) = self.cache.load(&server.config).await else { return };
        let listed = Instant::now().checked_sub(cached.age);
        let reason = Some(format!("not reached yet; its tools were listed {} s ago", cached.age.as_secs()));
        server.publish(View { state: State::Stale, reason, tools: cached.tools.into(), listed, connection: None });
        self.renew();
    }

    /// Keeps the list of `server` where it is newer than what was `saved`.
    fn save(&self, server: &Arc<Server>, saved: &Mutex<Option<Instant>>) {
        let view = server.view();
        let mut saved = saved.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that was not listed yet has the list of before.
        let is_fresh = view.connection.is_some() && matches!(view.state, State::Ready | State::Empty);
        if !is_fresh || view.listed == *saved {
            return;
        }
        *saved = view.listed;
        let (cache, server) = (self.cache.clone(), Arc::clone(server));
        self.tasks.spawn(async move { cache.save(&server.config, &view.tools).await });
    }

    /// Keeps the file of the pins and this process of one mind, until the end.
    async fn keep_pins(self: Arc<Self>) {
        loop {
            let is_last = tokio::select! {
                () = self.pins.unsaved() => false,
                () = tokio::time::sleep(PINS_EVERY) => false,
                () = self.tasks.ending() => true,
            };
            let pins = Arc::clone(&self.pins);
            // Fails when the process ends.
            let is_other = tokio::task::spawn_blocking(move || pins.sync()).await.unwrap_or_default();
            if is_other {
                self.lists.lock().unwrap_or_else(PoisonError::into_inner).forget();
                self.renew();
            }
            if is_last {
                break;
            }
        }
    }
}

/// How often the file of the pins is looked at: whoever accepted a change waits for it.
const PINS_EVERY: Duration = Duration::from_secs(2);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
