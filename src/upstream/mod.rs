//! The HTTP client that reaches one model server: pooled connections, TLS, and a limit on every wait.
//!
//! A connection is driven by whoever uses it, in the same task, not by a task of its own: pieces of a response that arrived together
//! are passed on together, and a response that is dropped closes its connection at once, which is how a model server learns that
//! nobody listens any more. (With hyper-util's pooled client every piece of a stream is a switch between two tasks and a write.)

mod body;
mod connection;
mod error;
mod guard;
mod pool;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{Either, Full, Limited};
use hyper::{
    Request, Response, Uri,
    body::Incoming,
    header::{HOST, HeaderValue},
};
use tokio::time::Instant;

pub use self::body::Body;
use self::connection::{Connection, Connector};
pub use self::error::Error;
pub use self::guard::{Forbidden, Guard};
use self::pool::Pool;

/// What is sent: bytes at hand, or a client's body passed on as it arrives, up to a limit.
pub type Payload = Either<Full<Bytes>, Limited<Incoming>>;

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// For a connection, TLS included.
    pub connect_timeout: Duration,
    /// From the request to the first byte of the response's body; spans the prefill, and without streaming the whole generation.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the response.
    pub idle_timeout: Duration,
    /// From the request to the end of the response.
    pub total_timeout: Duration,
}

/// A server that closes a kept connection does so before it reads the request. What breaks later may have been worked on, and is not
/// sent twice.
const LOST_AT_ONCE: Duration = Duration::from_millis(100);

/// The client of one server. Cloning it shares the connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connector: Connector,
    host: HeaderValue,
    pool: Pool,
    config: Config,
}

impl Client {
    /// A client of the server at `origin`, of which scheme and authority count. Connects when it must.
    pub fn new(origin: &Uri, config: Config) -> Self {
        Self::with_guard(origin, config, None)
    }

    /// A client that connects to no address that `guard` forbids, whatever the name of the server resolves to at the time. A peer that is
    /// silent for long is asked whether it still lives.
    pub fn guarded(origin: &Uri, config: Config, guard: Guard) -> Self {
        Self::with_guard(origin, config, Some(guard))
    }

    fn with_guard(origin: &Uri, config: Config, guard: Option<Guard>) -> Self {
        let host = origin.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(host).unwrap_or(HeaderValue::from_static(""));
        let connector = Connector::new(origin.clone(), config.connect_timeout, guard);
        Self { inner: Arc::new(Inner { connector, host, pool: Pool::default(), config }) }
    }

    /// Sends `request`, whose URI is a path and whose body is at hand. Answers with the response's head, its body still to be read. Where
    /// the server closed a kept connection as the request went out, it is sent again on a fresh one.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        let at_hand = |request: Request<Bytes>| request.map(|body| Either::Left(Full::new(body)));
        let Some(kept) = self.inner.pool.take() else {
            return self.exchange(self.inner.connector.connect().await?, at_hand(request)).await;
        };
        let begun = Instant::now();
        match self.exchange(kept, at_hand(request.clone())).await {
            Err(Error::Broken(cause)) if cause.is_before_response() && begun.elapsed() < LOST_AT_ONCE => {
                self.exchange(self.inner.connector.connect().await?, at_hand(request)).await
            }
            outcome => outcome,
        }
    }

    /// Sends `request`, which its server may act upon: never a second time, unless it certainly did not leave.
    pub async fn send_once(&self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        let at_hand = |request: Request<Bytes>| request.map(|body| Either::Left(Full::new(body)));
        if let Some(kept) = self.inner.pool.take() {
            match self.exchange(kept, at_hand(request.clone())).await {
                Err(Error::Broken(cause)) if cause.is_unsent() => {}
                outcome => return outcome,
            }
        }
        self.exchange(self.inner.connector.connect().await?, at_hand(request)).await
    }

    /// Sends `request` with a body that can be sent only once, therefore on a fresh connection.
    pub async fn pass(&self, request: Request<Limited<Incoming>>) -> Result<Response<Body>, Error> {
        self.exchange(self.inner.connector.connect().await?, request.map(Either::Right)).await
    }

    async fn exchange(&self, mut connection: Connection, mut request: Request<Payload>) -> Result<Response<Body>, Error> {
        let Config { first_byte_timeout: timeout, total_timeout, .. } = self.inner.config;
        request.headers_mut().insert(HOST, self.inner.host.clone());
        let now = Instant::now();
        let (first_byte_by, total_by) = (now + timeout, now + total_timeout);
        let answer = tokio::time::timeout_at(first_byte_by, connection.send(request)).await;
        let response = answer.map_err(|_| Error::FirstByte(timeout))??;
        Ok(response.map(|incoming| {
            Body::new(incoming, connection, Arc::clone(&self.inner), body::Deadlines { first_byte_by: Some(first_byte_by), total_by })
        }))
    }
}
