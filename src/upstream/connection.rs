//! One HTTP/1.1 connection, polled by its user.

use std::{
    fmt,
    future::{Future, poll_fn},
    net::IpAddr,
    pin::{Pin, pin},
    task::{Context, Waker},
    time::Duration,
};

use hyper::{Request, Response, Uri, body::Incoming, client::conn::http1};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::net::TcpStream;
use tower_service::Service;

use super::{
    Error, Payload,
    guard::{Guard, Resolver},
};

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Connector {
    origin: Uri,
    tls: HttpsConnector<HttpConnector<Resolver>>,
    guard: Option<Guard>,
    timeout: Duration,
}

/// How often a silent connection is asked whether its peer still lives, where a response may be silent for hours.
const KEEPALIVE: Duration = Duration::from_secs(60);

impl Connector {
    pub(super) fn new(origin: Uri, timeout: Duration, guard: Option<Guard>) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(guard));
        tcp.set_nodelay(true);
        tcp.set_keepalive(guard.map(|_| KEEPALIVE));
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().wrap_connector(tcp);
        Self { origin, tls, guard, timeout }
    }

    /// A fresh connection, within the time-out.
    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        self.check_literal()?;
        let mut tls = self.tls.clone();
        let opening = async {
            poll_fn(|cx| tls.poll_ready(cx)).await?;
            tls.call(self.origin.clone()).await
        };
        let opened = tokio::time::timeout(self.timeout, opening).await;
        let stream = opened.map_err(|_| Error::ConnectTimeout(self.timeout))?.map_err(Error::Connect)?;
        let (sender, driver) = http1::handshake(stream).await.map_err(|error| Error::Connect(error.into()))?;
        Ok(Connection { sender, driver: Some(Box::pin(driver)) })
    }

    /// An address in the place of a name does not come past the resolver.
    fn check_literal(&self) -> Result<(), Error> {
        let host = self.origin.host().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let (Some(guard), Ok(address)) = (self.guard, literal) else { return Ok(()) };
        guard.check(address).map_err(|refused| Error::Connect(refused.into()))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// A connection and the state machine that moves its bytes. Dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Connection {
    sender: http1::SendRequest<Payload>,
    /// Gone once it has ended: a future is not polled after that.
    driver: Option<Pin<Box<http1::Connection<Stream, Payload>>>>,
}

impl Connection {
    /// Sends `request` and waits for the head of the response.
    pub(super) async fn send(&mut self, request: Request<Payload>) -> Result<Response<Incoming>, Error> {
        let mut answer = pin!(self.sender.send_request(request));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            // The driver takes the request up and brings the answer; its own end shows in the answer as an error.
            drive(driver, cx);
            answer.as_mut().poll(cx)
        })
        .await
        .map_err(Error::from)
    }

    /// Moves bytes as far as possible. What came of it shows in the response's body.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    /// Whether another request may be sent on it, as far as is known: the server's own closing may be under way.
    pub(super) fn is_reusable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

fn drive(driver: &mut Option<Pin<Box<http1::Connection<Stream, Payload>>>>, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|running| running.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}
