//! The one pooled HTTP client that reaches model servers, with TLS and a limit on every wait.
//!
//! Dropping a response body closes its connection, which is how a model server learns that nobody listens any more.

mod body;
mod error;

pub use body::Body;
pub use error::Error;

use bytes::Bytes;
use http_body_util::{Either, Full, Limited};
use hyper::{Request, Response, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use std::{sync::Arc, time::Duration};

/// What is sent: bytes at hand, or a client's body passed on as it arrives, up to a limit.
pub type Payload = Either<Full<Bytes>, Limited<Incoming>>;

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// For a TCP connection.
    pub connect_timeout: Duration,
    /// From the request to the head of the response; spans the prefill, and without streaming the whole generation.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the response.
    pub idle_timeout: Duration,
}

/// The client. Cloning it shares the pool.
#[derive(Debug, Clone)]
pub struct Client {
    pool: legacy::Client<HttpsConnector<HttpConnector>, Payload>,
    config: Arc<Config>,
}

/// llama-server closes an idle connection after 5 s; a request sent into that moment is lost, so ours goes first.
const POOL_IDLE: Duration = Duration::from_secs(4);

impl Client {
    /// A client with an empty pool. It spawns its connections on the current runtime.
    pub fn new(config: Config) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(config.connect_timeout));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().wrap_connector(tcp);
        let pool =
            legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE).build(connector);
        Self { pool, config: Arc::new(config) }
    }

    /// Sends `request`, whose body is at hand, and answers with the response's head, its body still to be read. A connection that
    /// the peer closed as the request went out is replaced once: nothing of a response was seen, so nothing is said twice.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        let (head, payload) = request.into_parts();
        let build = || Request::from_parts(head.clone(), Either::Left(Full::new(payload.clone())));
        match self.send_once(build()).await {
            Err(Error::Broken(cause)) if cause.lost_before_response() => self.send_once(build()).await,
            outcome => outcome,
        }
    }

    /// Sends `request` with a body that can be sent only once.
    pub async fn pass(&self, request: Request<Limited<Incoming>>) -> Result<Response<Body>, Error> {
        self.send_once(request.map(Either::Right)).await
    }

    async fn send_once(&self, request: Request<Payload>) -> Result<Response<Body>, Error> {
        let answer = tokio::time::timeout(self.config.first_byte_timeout, self.pool.request(request)).await;
        let response = answer.map_err(|_| Error::FirstByte(self.config.first_byte_timeout))?.map_err(Error::from)?;
        Ok(response.map(|incoming| Body::new(incoming, self.config.idle_timeout)))
    }
}
