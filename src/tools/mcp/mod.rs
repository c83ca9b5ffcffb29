//! Connections to MCP servers. The only place that knows rmcp: above it there are definitions, outputs and errors of our own.

mod address;
mod answer;
mod error;
mod events;
mod handler;
mod http;
mod output;
mod stdio;

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use rmcp::{
    model::{CallToolRequestParams, PaginatedRequestParams, Tool},
    service::{ClientServiceExt, RoleClient, RunningService, ServiceExt},
};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};

pub use self::error::Error;
use self::handler::Handler;
pub use self::handler::News;
pub use self::output::{Output, Part};
use super::{
    config::{self, Transport, Variables},
    definition::{self, Annotations, Definition},
};

/// A connection to one server. Cloning it shares the connection.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    server: Arc<str>,
    peer: rmcp::Peer<RoleClient>,
    /// Whether the server says when its list of tools changes.
    announces: bool,
    /// What the way over HTTP knows.
    http: Option<Arc<http::Status>>,
    /// Taken when the connection is closed.
    running: Mutex<Option<RunningService<RoleClient, Handler>>>,
}

/// More pages than this of one list, or a page that names itself as the next, is a server that does not end.
const PAGES_MAX: usize = 256;

impl Connection {
    /// Connects to `server` and greets it, within its time-out. What it says later of its own accord goes to `news`. Dropping the last clone
    /// closes the connection and ends a child process.
    pub async fn open(server: &config::Server, limits: Limits, variables: &Variables, news: mpsc::Sender<News>) -> Result<Self, Error> {
        let handler = Handler::new(news);
        let mut http = None;
        let opening = async {
            match &server.transport {
                Transport::Stdio { .. } => {
                    let transport = stdio::spawn(server, limits, variables)?;
                    handler.serve(transport).await.map_err(Error::from)
                }
                Transport::Http { .. } => {
                    let (transport, status) = http::transport(server, limits, variables)?;
                    http = Some(status);
                    handler.serve_with_lifecycle(transport, http::lifecycle()).await.map_err(Error::from)
                }
            }
        };
        let running = tokio::time::timeout(server.timeout, opening).await.map_err(|_| Error::Timeout(server.timeout))??;
        let peer = running.peer().clone();
        let announces =
            peer.peer_info().is_some_and(|info| info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true)));
        Ok(Self(Arc::new(Inner { server: server.id.as_str().into(), peer, announces, http, running: Mutex::new(Some(running)) })))
    }

    /// Whether the server says when its list of tools changes, and would be heard now.
    pub fn announces(&self) -> bool {
        self.0.announces && self.0.http.as_ref().is_none_or(|http| http.is_hearing())
    }

    /// Whether the other side is gone.
    pub fn is_closed(&self) -> bool {
        self.0.peer.is_transport_closed() || self.0.http.as_ref().is_some_and(|http| http.is_gone())
    }

    /// All tools of the server, page after page, within `timeout`.
    pub async fn list(&self, timeout: Duration) -> Result<Vec<Definition>, Error> {
        let pages = async {
            let (mut tools, mut cursor) = (Vec::new(), None);
            for _ in 0..PAGES_MAX {
                let page = self.0.peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor.clone()))).await?;
                tools.extend(page.tools.into_iter().map(|tool| definition(&self.0.server, tool)));
                if page.next_cursor.is_none() || page.next_cursor == cursor {
                    return Ok(tools);
                }
                cursor = page.next_cursor;
            }
            Err(Error::Protocol(format!("its list of tools has more than {PAGES_MAX} pages")))
        };
        tokio::time::timeout(timeout, pages).await.map_err(|_| Error::Timeout(timeout))?
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
        let _ = progress;
        let timeout = by.saturating_duration_since(Instant::now());
        let params = CallToolRequestParams::new(Cow::Owned(tool.to_owned())).with_arguments(arguments);
        let answer = tokio::time::timeout(timeout, self.0.peer.call_tool_once(params)).await;
        output::read(answer.map_err(|_| Error::Timeout(timeout))??)
    }

    /// Says goodbye, and waits for the end of a child process, which is killed after a while.
    pub async fn close(&self, grace: Duration) {
        let running = self.0.running.lock().await.take();
        if let Some(mut running) = running {
            // What is left after the grace ends with the process.
            let _ = running.close_with_timeout(grace).await;
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.0.server).finish_non_exhaustive()
    }
}

/// What is read of a server at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest message.
    pub message_bytes_max: usize,
}

fn definition(server: &Arc<str>, tool: Tool) -> Definition {
    let annotations = tool.annotations.as_ref().map_or_else(Annotations::default, |said| Annotations {
        read_only: said.read_only_hint == Some(true),
        idempotent: said.idempotent_hint == Some(true),
    });
    Definition {
        server: Arc::clone(server),
        name: tool.name.into_owned(),
        description: tool.description.or(tool.title.map(Cow::Owned)).unwrap_or_default().into_owned(),
        schema: definition::schema(Arc::unwrap_or_clone(tool.input_schema)),
        annotations,
    }
}
