//! The composition root: every part built in order, and the order in which they stop.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use hyper::Uri;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    agent::{Agent, Parts},
    backend::{Router, Slot, Target, target},
    budget::{
        self, Gate,
        cycles::Cycles,
        journal::Journal,
        store::{
            file::{File, Sync},
            memory::Memory,
            redis::Redis,
        },
    },
    config::{Config, budget::Books},
    glob,
    inference::Engine,
    resilience::tasks::Tasks,
    secret::Secret,
    server::{self, State},
    store::Store,
    tools::{Toolbox, catalog::pins},
    trace::{self, Recorder},
};

/// What a shell reports for a process ended by SIGINT; a second signal ends this one as abruptly.
const EXIT_INTERRUPTED: u8 = 130;

/// Serves until SIGTERM or SIGINT, then lets running requests finish. Fails when the address cannot be bound.
pub async fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("listen for signals")?;
    raise_descriptor_limit(config.server.connections_max);
    let listener = TcpListener::bind(config.server.listen).await.with_context(|| format!("listen on {}", config.server.listen))?;
    let address = listener.local_addr().context("read the listener's address")?;
    let state = build(&config, gate(&config)?);
    let backends: Vec<&str> = config.backends.backends.iter().map(|backend| backend.name.as_str()).collect();
    tracing::info!(%address, ?backends, "listening");
    let router = state.router.clone();

    if let Some(toolbox) = &state.toolbox {
        toolbox.start();
    }
    state.gate.start();
    let (tasks, trace) = (state.tasks.clone(), state.agent.trace().clone());

    // 1 stop accepting → 2 let connections finish their request, within the grace → 3 close the connections to MCP servers, end their
    // processes, finish the calls that were sent → 4 write the rest of the trace → 5 cut the rest by leaving. A second signal, whenever it
    // comes, leaves 3 and 4 a moment only.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server::serve(listener, Arc::new(state), async { drop(stopped.await) });
    let signalled = async {
        signals.next().await;
        drop(stop);
        signals.next().await;
    };
    let mut is_hurried = false;
    let code = tokio::select! {
        () = router.watch() => ExitCode::FAILURE,
        open = serving => {
            if open > 0 {
                tracing::warn!(open, "grace period is over, connections are cut");
            }
            ExitCode::SUCCESS
        }
        () = signalled => {
            tracing::warn!(SECOND_SIGNAL);
            is_hurried = true;
            ExitCode::SUCCESS
        }
    };
    let mut hurry = Hurry { signals, is_due: is_hurried };
    end(&tasks, &trace, &mut hurry).await;
    Ok(if hurry.is_due { ExitCode::from(EXIT_INTERRUPTED) } else { code })
}

/// What comes once requests have ended: the tasks, then the trace, which tells of them.
async fn end(tasks: &Tasks, trace: &Recorder, hurry: &mut Hurry) {
    let left = tokio::select! {
        left = tasks.end(TASKS_GRACE) => left,
        () = hurry.over() => tasks.end(Duration::ZERO).await,
    };
    if left > 0 {
        tracing::warn!(left, "tasks are cut");
    }
    let is_written = tokio::select! {
        is_written = trace.close(TRACE_GRACE) => is_written,
        () = hurry.over() => false,
    };
    if !is_written {
        tracing::warn!("the end of the trace is lost: it could not be written in time");
    }
}

/// How long tasks get to end once requests have.
const TASKS_GRACE: Duration = Duration::from_secs(10);

/// How long the writing of what is left of the trace may take: a slow disk, not a pipe that nobody reads.
const TRACE_GRACE: Duration = Duration::from_secs(2);

/// What the log says of it.
const SECOND_SIGNAL: &str = "second signal, leaving at once";

/// How long each of the two gets after a second signal: enough to end processes that end when they are told, and to write a few lines.
const HURRIED_GRACE: Duration = Duration::from_millis(500);

/// Two descriptors a connection, one to the client and one to the backend, and some for the rest.
fn raise_descriptor_limit(connections_max: usize) {
    let wanted = u64::try_from(connections_max).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(64);
    match rlimit::increase_nofile_limit(wanted) {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => tracing::warn!(limit, wanted, "too few file descriptors for server.max_connections"),
        Err(error) => tracing::warn!(%error, "raise the limit of file descriptors"),
    }
}

/// The parts of one server that asks `gate` before anything costs.
pub fn build(config: &Config, gate: Gate) -> State {
    let router = Router::new(config.backends.clone(), &config.upstream);
    let engine = Arc::new(Engine::new(Arc::new(router.clone()), config.inference.clone()));
    let tasks = gate.tasks().clone();
    let store = Arc::new(Store::new(config.store.clone()));
    let toolbox = (!config.tools.servers.is_empty()).then(|| Toolbox::new(config.tools.clone(), tasks.clone(), Arc::clone(&store)));
    // The one place where what anybody may use meets what each key may: whoever asks, asks on an account of these.
    let keys = config.keys.clone().within(&config.budget.policy.access);
    let trace = recorder(config);
    let agent = Agent::new(Parts { engine, toolbox: toolbox.clone(), store, trace, gate: gate.clone(), config: config.agent });
    State { config: config.server.clone(), keys, agent, router, toolbox, gate, tasks }
}

/// The gate, as the configuration says. Fails when the books or the journal cannot be opened.
pub fn gate(config: &Config) -> anyhow::Result<Gate> {
    let budget = &config.budget;
    let tasks = Tasks::default();
    let books = books(config)?;
    let is_remote = books.as_ref().is_some_and(|books| !books.is_local());
    let mut gate = Gate::new(budget.policy.clone(), books, tasks.clone());
    if is_remote {
        let folder = budget.journal.join("redis");
        gate = gate.with_journal(Journal::open(folder).with_context(|| format!("open the journal {}", budget.journal.display()))?);
    }
    if let Some(cycles) = &budget.cycles {
        gate = gate.with_cycles(Cycles::new(cycles.clone(), tasks).context("ask the Cycles server")?);
    }
    Ok(gate)
}

/// The books, as the configuration says, if there are any. Fails when they cannot be opened.
pub fn books(config: &Config) -> anyhow::Result<Option<Arc<budget::Store>>> {
    let store = match &config.budget.books {
        Books::Off => return Ok(None),
        Books::Memory => budget::Store::Memory(Memory::default()),
        Books::File { path, sync_every } => {
            let sync = sync_every.map_or(Sync::Always, Sync::Every);
            let file = File::open(path, sync).with_context(|| format!("open the ledger {}", path.display()))?;
            budget::Store::File(file)
        }
        Books::Redis(redis) => budget::Store::Redis(Box::new(Redis::new(redis.clone()))),
    };
    Ok(Some(Arc::new(store)))
}

/// The trace, as the configuration says, without the credentials that toolgate itself was given.
fn recorder(config: &Config) -> Recorder {
    let sink = config.trace_sink();
    let keys: Vec<Secret> = config.backends.backends.iter().filter_map(|backend| backend.target.api_key.clone()).collect();
    let tools = config.tools.clone();
    let servers = move || tools.servers.iter().flat_map(|server| server.credentials(&tools.variables)).collect::<Vec<_>>();
    let cycles = config.budget.cycles.as_ref().and_then(|cycles| cycles.api_key.clone());
    let credentials = move || keys.iter().chain(&cycles).cloned().chain(servers()).collect();
    Recorder::new(trace::Config { sink, ..config.trace.clone() }, Box::new(credentials))
}

/// Accepts the changed definitions of the tools that match `pattern`, a `server.tool` in which `*` stands for any characters. Returns which
/// they are.
pub fn accept(config: &Config, pattern: &str) -> anyhow::Result<Vec<String>> {
    let Some(file) = &config.tools.pins else {
        bail!("mcp.pins is not set: without a file a change is accepted by starting anew");
    };
    pins::accept(file, |name| glob::matches(pattern, name)).with_context(|| format!("accept in {}", file.display()))
}

/// What is wrong with the backends, one sentence each.
pub async fn check(config: Config) -> Vec<String> {
    build(&config, Gate::default()).router.check().await
}

/// Asks the toolgate that listens at the configured address whether it lives.
pub async fn health(config: Config) -> anyhow::Result<()> {
    let address = reachable(config.server.listen);
    let url: Uri = format!("http://{address}").parse().context("make the address a URL")?;
    let own = Target::new(target::Config { url, api_key: None, slot: Slot::Authorization }, config.upstream);
    if !own.answers("/health/live").await {
        bail!("nothing healthy at {address}");
    }
    Ok(())
}

/// `listen` as an address to connect to: one that stands for all addresses is reached at loopback.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let mut address = listen;
    match listen {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        SocketAddr::V4(_) | SocketAddr::V6(_) => {}
    }
    address
}

/// Whether what is left to do at the end is to be cut short.
struct Hurry {
    signals: Signals,
    /// Whether a second signal came.
    is_due: bool,
}

impl Hurry {
    /// Ready a moment after a second signal, whether it came before or comes now.
    async fn over(&mut self) {
        if !self.is_due {
            self.signals.next().await;
            tracing::warn!(SECOND_SIGNAL);
            self.is_due = true;
        }
        tokio::time::sleep(HURRIED_GRACE).await;
    }
}

/// The signals that ask for an end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_waits_for_nobody() {
        let tasks = Tasks::default();
        tasks.spawn(std::future::pending::<()>());
        let ended = async |is_due: bool| {
            let begun = tokio::time::Instant::now();
            end(&tasks, &Recorder::default(), &mut Hurry { signals: Signals::new().unwrap(), is_due }).await;
            begun.elapsed()
        };
        assert!(ended(true).await < 2 * HURRIED_GRACE);
        assert!(ended(false).await >= TASKS_GRACE);
    }
}
