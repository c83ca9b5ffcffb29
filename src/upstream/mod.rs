//! The HTTP client that reaches one model server: pooled connections, TLS, and a limit on every wait.
//!
//! A connection is driven by whoever uses it, in the same task, not by a task of its own: pieces of a response that arrived together
//! are passed on together, and a response that is dropped closes its connection at once, which is how a model server learns that
//! nobody listens any more. (With hyper-util's pooled client every piece of a stream is a switch between two tasks and a write.)

mod body;
mod connection;
mod error;
mod pool;

pub use body::Body;
pub use error::Error;

use bytes::Bytes;
use connection::{Connection, Connector};
use http_body_util::{Either, Full, Limited};
use hyper::{
    Request, Response, Uri,
    body::Incoming,
    header::{HOST, HeaderValue},
};
use pool::Pool;
use std::{sync::Arc, time::Duration};

/// What is sent: bytes at hand, or a client's body passed on as it arrives, up to a limit.
pub type Payload = Either<Full<Bytes>, Limited<Incoming>>;

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// For a connection, TLS included.
    pub connect_timeout: Duration,
    /// From the request to the head of the response; spans the prefill, and without streaming the whole generation.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the response.
    pub idle_timeout: Duration,
}

/// The client of one server. Cloning it shares the connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connector: Connector,
    host: HeaderValue,
    pool: Arc<Pool>,
    config: Config,
}

impl Client {
    /// A client of the server at `origin`, of which scheme and authority count. Connects when it must.
    pub fn new(origin: &Uri, config: Config) -> Self {
        let host = origin.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(host).unwrap_or(HeaderValue::from_static(""));
        let connector = Connector::new(origin.clone(), config.connect_timeout);
        Self { inner: Arc::new(Inner { connector, host, pool: Arc::default(), config }) }
    }

    /// Sends `request`, whose URI is a path and whose body is at hand. Answers with the response's head, its body still to be read. A
    /// kept connection that the server closed as the request went out is replaced: nothing of a response was seen, so nothing is said
    /// twice.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        let (head, payload) = request.into_parts();
        let build = || Request::from_parts(head.clone(), Either::Left(Full::new(payload.clone())));
        if let Some(kept) = self.inner.pool.take() {
            match self.exchange(kept, build()).await {
                Err(Error::Broken(cause)) if cause.lost_before_response() => {}
                outcome => return outcome,
            }
        }
        self.exchange(self.inner.connector.connect().await?, build()).await
    }

    /// Sends `request` with a body that can be sent only once, therefore on a fresh connection.
    pub async fn pass(&self, request: Request<Limited<Incoming>>) -> Result<Response<Body>, Error> {
        self.exchange(self.inner.connector.connect().await?, request.map(Either::Right)).await
    }

    async fn exchange(&self, mut connection: Connection, mut request: Request<Payload>) -> Result<Response<Body>, Error> {
        let config = &self.inner.config;
        request.headers_mut().insert(HOST, self.inner.host.clone());
        let answer = tokio::time::timeout(config.first_byte_timeout, connection.send(request)).await;
        let response = answer.map_err(|_| Error::FirstByte(config.first_byte_timeout))??;
        let pool = Arc::clone(&self.inner.pool);
        Ok(response.map(|incoming| Body::new(incoming, connection, pool, config.idle_timeout)))
    }
}
