//! Connections to MCP servers. The only place that knows rmcp: above it there are definitions, outputs and errors of our own.

mod address;
mod answer;
mod child;
mod credentials;
mod error;
mod events;
mod handler;
mod http;
mod lines;
mod link;
mod list;
mod output;
mod status;
mod stdio;

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use rmcp::{
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResponse, ClientRequest, ProtocolVersion, ServerPeerInfo, ServerResult,
        SubscriptionFilter,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService,
    },
    transport::Transport as Wire,
};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};
use tokio_util::task::TaskTracker;

pub use self::error::Error;
pub use self::handler::News;
pub use self::output::{Output, Part};
use self::{
    credentials::Credentials,
    handler::{Handler, Progress},
    link::{Link, Watched},
};
use super::{
    config::{self, Transport, Variables},
    definition::Definition,
};
use crate::resilience::tasks::Tasks;

/// A connection to one server. Cloning it shares the connection.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    server: Arc<str>,
    credentials: Credentials,
    peer: Peer<RoleClient>,
    handler: Handler,
    link: Link,
    progress: Progress,
    /// The calls under way.
    calls: TaskTracker,
    /// Whether it answered a call.
    answered: AtomicBool,
    /// Whether the server says when its list of tools changes.
    announces: AtomicBool,
    /// What the way over HTTP knows.
    http: Option<Arc<status::Status>>,
    /// Taken when the connection is closed.
    running: Mutex<Option<Running>>,
}

type Running = RunningService<RoleClient, Handler>;

impl Connection {
    /// Connects to `server` and greets it, within its time-out. What it says later of its own accord goes to `news`. Dropping the last clone
    /// closes the connection and ends a child process; `tasks` wait for the end of one that was killed.
    pub async fn open(
        server: &config::Server,
        limits: Limits,
        variables: &Variables,
        tasks: &Tasks,
        news: mpsc::Sender<News>,
    ) -> Result<Self, Error> {
        let credentials = Credentials::of(server, variables);
        let hidden = credentials.clone();
        let opening = Self::connect(server, limits, (variables, credentials), tasks, news);
        opening.await.map_err(|error| hidden.hide(error))
    }

    async fn connect(
        server: &config::Server,
        limits: Limits,
        (variables, credentials): (&Variables, Credentials),
        tasks: &Tasks,
        news: mpsc::Sender<News>,
    ) -> Result<Self, Error> {
        let progress = Progress::default();
        let handler = Handler::new(server.id.as_str().into(), credentials.clone(), news, progress.clone());
        let mut http = None;
        let opening = async {
            match &server.transport {
                Transport::Stdio { .. } => {
                    greet_child(&handler, || Link::start(|link| stdio::spawn(server, limits, variables, tasks, link))).await
                }
                Transport::Http { .. } => {
                    let (transport, status) = http::transport(server, limits, variables)?;
                    http = Some(status);
                    let transport = Link::start(|_| Ok(transport))?;
                    greet(&handler, transport, http::lifecycle()).await.map_err(Error::from)
                }
            }
        };
        let (running, link) = tokio::time::timeout(server.timeout, opening).await.map_err(|_| Error::Timeout(server.timeout))??;
        let peer = running.peer().clone();
        let announces = AtomicBool::new(peer.peer_info().is_some_and(|info| announces(&info)));
        let (calls, answered, running) = (TaskTracker::new(), AtomicBool::new(false), Mutex::new(Some(running)));
        let server = server.id.as_str().into();
        Ok(Self(Arc::new(Inner { server, credentials, peer, handler, link, progress, calls, answered, announces, http, running })))
    }

    /// Whether the server says when its list of tools changes, and would be heard now.
    pub fn announces(&self) -> bool {
        // Without sessions there is no stream of the server's own, but a subscription.
        let hears = || self.is_modern() || self.0.http.as_ref().is_none_or(|http| http.is_hearing());
        self.0.announces.load(Ordering::Relaxed) && hears()
    }

    /// Whether it is of a revision without sessions.
    fn is_modern(&self) -> bool {
        self.0.peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Whether the other side is gone.
    pub fn is_closed(&self) -> bool {
        self.0.link.is_gone() || self.0.peer.is_transport_closed() || self.0.http.as_ref().is_some_and(|http| http.is_gone())
    }

    /// Whether it was of use: it answered a call.
    pub fn has_answered(&self) -> bool {
        self.0.answered.load(Ordering::Relaxed)
    }

    /// Waits for the end of the connection, and says why it came. Meanwhile it listens for news where the server wants to be asked for them.
    pub async fn ended(&self) -> Error {
        let why = tokio::select! {
            () = self.0.link.gone() => self.0.link.why(),
            why = self.lost() => why,
            () = self.listen() => self.0.link.why(),
        };
        self.0.credentials.hide(Error::Unreachable(why))
    }

    /// Waits until HTTP says that a new connection is needed. Requests under way may still be answered.
    async fn lost(&self) -> String {
        match &self.0.http {
            Some(http) => {
                http.gone().await;
                http.why()
            }
            None => std::future::pending().await,
        }
    }

    /// Since 2026-07-28 servers announce changes only to those who subscribe. It ends never.
    async fn listen(&self) {
        if !self.is_modern() || !self.announces() {
            return std::future::pending().await;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match self.0.peer.listen(filter).await {
            Ok(mut changes) => {
                while let Ok(Some(_)) = changes.next().await {
                    self.0.handler.tools_changed();
                }
                tracing::debug!(server = &*self.0.server, "MCP server announces no more");
            }
            Err(error) => {
                let error = self.0.credentials.hide(error.into());
                tracing::debug!(server = &*self.0.server, %error, "MCP server takes no subscription");
            }
        }
        // The list is renewed from time to time instead, and at once for what was missed.
        self.0.announces.store(false, Ordering::Relaxed);
        self.0.handler.tools_changed();
        std::future::pending().await
    }

    /// All tools of the server, page after page, within `timeout`.
    pub async fn list(&self, timeout: Duration) -> Result<Vec<Definition>, Error> {
        let listed = tokio::time::timeout(timeout, list::all(self)).await.map_err(|_| Error::Timeout(timeout))?;
        listed.map_err(|error| self.0.credentials.hide(error))
    }

    /// Calls `tool` and waits for its result until `by`. How far it is goes to `progress`. Dropping the future tells the server that nobody
    /// waits any more.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        by: Instant,
        progress: mpsc::Sender<String>,
    ) -> Result<Output, Error> {
        let _under_way = self.0.calls.token();
        let params = CallToolRequestParams::new(Cow::Owned(tool.to_owned())).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let timeout = by.saturating_duration_since(Instant::now());
        let answer = tokio::time::timeout(timeout, self.ask(request, Some(progress))).await.map_err(|_| Error::Timeout(timeout))?;
        self.0.answered.fetch_or(answer.is_ok(), Ordering::Relaxed);
        match answer.map_err(|error| self.0.credentials.hide(error))? {
            ServerResult::CallToolResult(result) => output::read(CallToolResponse::Complete(result)),
            ServerResult::InputRequiredResult(result) => output::read(CallToolResponse::InputRequired(result)),
            ServerResult::CreateTaskResult(result) => output::read(CallToolResponse::Task(result)),
            _ => Err(Error::Protocol("what it answered is no result of a tool".to_owned())),
        }
    }

    /// Sends `request` and waits for the answer. Fails as soon as the connection is gone, and says whether anything was sent before.
    async fn ask(&self, request: ClientRequest, progress: Option<mpsc::Sender<String>>) -> Result<ServerResult, Error> {
        let unsent = || Error::Unreachable(self.0.link.why());
        if self.is_closed() {
            return Err(unsent());
        }
        // It fails only when nobody is there to send it.
        let handle = self.0.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(|_| unsent())?;
        let id = handle.id.clone();
        let _following = progress.map(|to| self.0.progress.follow(handle.progress_token.clone(), to));
        let mut asked = Asked(Some(handle));
        let answer = tokio::select! {
            biased;
            answer = asked.answer() => answer,
            () = self.0.link.gone() => None,
        };
        match answer {
            Some(answer) => Ok(answer?),
            None if !self.0.link.may_have_left(&id) => Err(unsent()),
            None if self.0.link.is_gone() => Err(Error::Gone(self.0.link.why())),
            None => Err(Error::Lost),
        }
    }

    /// Lets the calls under way finish, says goodbye, and waits for the end of a child process, which is killed after a while. Each may take
    /// half of `grace`.
    pub async fn close(&self, grace: Duration) {
        self.0.calls.close();
        // What is left after the grace fails with the connection.
        let _ = tokio::time::timeout(grace / 2, self.0.calls.wait()).await;
        let running = self.0.running.lock().await.take();
        if let Some(mut running) = running {
            // What is left after the grace ends with the process.
            let _ = running.close_with_timeout(grace / 2).await;
        }
    }
}

impl Link {
    /// A transport and the link that knows of its end.
    fn start<T>(start: impl FnOnce(Self) -> Result<T, Error>) -> Result<(Watched<T>, Self), Error> {
        let link = Self::default();
        let transport = start(link.clone())?;
        Ok((Watched::new(transport, link.clone()), link))
    }
}

/// A request that waits for its answer. Dropping it before tells the server that nobody waits any more.
struct Asked(Option<RequestHandle<RoleClient>>);

impl Asked {
    /// The answer; `None` when there will be none.
    async fn answer(&mut self) -> Option<Result<ServerResult, Error>> {
        let answer = (&mut self.0.as_mut()?.rx).await;
        self.0 = None;
        answer.ok().map(|answer| answer.map_err(Error::from))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // The first poll puts the word into the queue; whether it was sent need not be known. A full queue is a server that does not
            // read.
            let _ = tokio::task::unconstrained(handle.cancel(Some("nobody waits any more".to_owned()))).now_or_never();
        }
    }
}

/// Greets a child process as servers have been greeted since 2024; one that refuses that is started again and greeted as of 2026-07-28.
/// In this order no server is ever waited for in vain: some of the old ones do not answer what they do not know, while a new one has to.
async fn greet_child<T: Wire<RoleClient> + 'static>(
    handler: &Handler,
    start: impl Fn() -> Result<(Watched<T>, Link), Error>,
) -> Result<(Running, Link), Error> {
    match greet(handler, start()?, ClientLifecycleMode::Initialize).await {
        Err(Greeting::Refused(refused)) => {
            let refused = handler.credentials().redact(&refused);
            tracing::debug!(server = %handler.server(), refused, "MCP server does not know initialize");
            let modern = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
            greet(handler, start()?, modern).await.map_err(Error::from)
        }
        greeted => greeted.map_err(Error::from),
    }
}

/// How a greeting fails.
enum Greeting {
    /// The server answered with an error.
    Refused(String),
    Failed(Error),
}

impl From<Greeting> for Error {
    fn from(greeting: Greeting) -> Self {
        match greeting {
            Greeting::Refused(why) => Self::Protocol(format!("it refuses to be greeted: {why}")),
            Greeting::Failed(error) => error,
        }
    }
}

async fn greet<T: Wire<RoleClient> + 'static>(
    handler: &Handler,
    (transport, link): (Watched<T>, Link),
    lifecycle: ClientLifecycleMode,
) -> Result<(Running, Link), Greeting> {
    match handler.clone().serve_with_lifecycle(transport, lifecycle).await {
        Ok(running) => Ok((running, link)),
        Err(ClientInitializeError::JsonRpcError(error)) => Err(Greeting::Refused(error.message.into_owned())),
        // The link knows better why.
        Err(ClientInitializeError::ConnectionClosed(_)) => Err(Greeting::Failed(Error::Unreachable(link.why()))),
        Err(error) => Err(Greeting::Failed(error.into())),
    }
}

fn announces(info: &ServerPeerInfo) -> bool {
    info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.0.server).finish_non_exhaustive()
    }
}

/// Headers that the protocol or HTTP itself fills in, whatever a configuration says. In lower case.
pub const RESERVED_HEADERS: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// What is read of a server at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest message.
    pub message_bytes_max: usize,
}
