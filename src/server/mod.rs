//! The edge: sockets, HTTP, and nothing about models. The only place that knows statuses.
//!
//! One task per connection. The response body is the run: dropping it, as hyper does when the client leaves, cancels everything
//! below it.

mod auth;
mod body;
mod connection;
mod error;
mod headers;
mod listener;
mod origin;
mod query;
mod reply;
mod router;
mod routes;
mod watched;

use std::{net::SocketAddr, sync::Arc, time::Duration};

pub use self::listener::serve;
use crate::{
    agent::Agent,
    backend::Router,
    budget::{Gate, Keys},
    resilience::tasks::Tasks,
    tools::Toolbox,
};

/// The settings of the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The largest request body.
    pub body_bytes_max: usize,
    /// How long a client may take to send a request's head, and then its body.
    pub request_timeout: Duration,
    /// Connections served at once; more wait to be accepted.
    pub connections_max: usize,
    /// A comment is sent into a stream that was silent for so long, if at all.
    pub keep_alive: Option<Duration>,
    /// How long the head of a stream waits for something to show.
    pub head_grace: Duration,
    /// The origins of web pages, other than of this machine, that may have tools run.
    pub origins: Vec<String>,
    /// How long running requests may take to finish at shutdown.
    pub shutdown_grace: Duration,
}

/// What every request needs.
pub struct State {
    /// Its settings.
    pub config: Config,
    /// Whom it answers.
    pub keys: Keys,
    /// Runs guarded requests.
    pub agent: Agent,
    /// Takes the requests that are passed on.
    pub router: Router,
    /// The MCP servers, where there are any.
    pub toolbox: Option<Arc<Toolbox>>,
    /// Who is asked before anything costs.
    pub gate: Gate,
    /// What goes on beside the requests.
    pub tasks: Tasks,
}
