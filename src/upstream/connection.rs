//! One HTTP/1.1 connection, polled by its user.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Waker},
    time::Duration,
};

use hyper::{Request, Response, Uri, body::Incoming, client::conn::http1};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::net::TcpStream;
use tower_service::Service;

use super::{Error, Payload};

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Connector {
    origin: Uri,
    tls: HttpsConnector<HttpConnector>,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(origin: Uri, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().wrap_connector(tcp);
        Self { origin, tls, timeout }
    }

    /// A fresh connection, within the time-out.
    pub(super) async fn connect(&self) -> Result<Connection, Error> {
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
