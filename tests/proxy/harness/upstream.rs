//! A backend on a port of its own that records what it is asked and says what it was told to.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use toolgate::{app, backend::Model, config};

use super::{PATIENCE, Reply, reply::End};

/// A scripted backend. Dropping it closes its sockets.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _running: JoinSet<()>,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Recorded {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// When a kept connection is closed without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Always,
    /// On the arrival of the second request.
    UntilAskedAgain,
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    by_path: Mutex<HashMap<String, Reply>>,
    requests: watch::Sender<Vec<Recorded>>,
    /// Bytes of request bodies so far, those of unfinished ones included.
    received: watch::Sender<usize>,
    /// When exchanges ended before their response did.
    cancelled: watch::Sender<Vec<Instant>>,
    /// Exchanges that came to their end.
    finished: AtomicUsize,
    connections: AtomicUsize,
    open: watch::Sender<usize>,
    keep: Keep,
}

impl Upstream {
    /// Says `replies` in turn, and the last for ever. `/health` is answered with 200 beside them.
    pub(crate) async fn saying(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(replies, Keep::Always).await
    }

    /// Closes a kept connection when the next request arrives on it.
    pub(crate) async fn closing_kept_connections(reply: Reply) -> Self {
        Self::start([reply], Keep::UntilAskedAgain).await
    }

    async fn start(replies: impl IntoIterator<Item = Reply>, keep: Keep) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            by_path: Mutex::new(HashMap::from([("/health".to_owned(), Reply::json(200, r#"{"status":"ok"}"#))])),
            requests: watch::Sender::new(Vec::new()),
            received: watch::Sender::new(0),
            cancelled: watch::Sender::new(Vec::new()),
            finished: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            open: watch::Sender::new(0),
            keep,
        });
        let mut running = JoinSet::new();
        running.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _running: running }
    }

    /// Answers `path` with `reply`, whatever the queue holds.
    pub(crate) fn at(&self, path: &str, reply: Reply) {
        self.shared.by_path.lock().unwrap().insert(path.to_owned(), reply);
    }

    /// The models that a proxy with the settings of a TOML `file` finds here.
    pub(crate) async fn models(&self, file: &str) -> Vec<Model> {
        let (mut config, problems) = config::from_text(file, &HashMap::new());
        assert_eq!(problems, []);
        config.backends.backends[0].target.url = format!("http://{}", self.address).parse().unwrap();
        app::build(&config, toolgate::budget::Gate::default())
            .router
            .models()
            .await
            .unwrap()
            .into_iter()
            .map(|listed| listed.model)
            .collect()
    }

    /// Every request so far, in the order of their bodies' ends.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.shared.requests.borrow().clone()
    }

    /// The one request so far.
    pub(crate) fn only_request(&self) -> Recorded {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "upstream was asked {} times", requests.len());
        requests.remove(0)
    }

    pub(crate) fn calls(&self) -> usize {
        self.shared.requests.borrow().len()
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until `count` requests have arrived.
    pub(crate) async fn arrived(&self, count: usize) {
        reached(&self.shared.requests, |requests| requests.len() >= count).await;
    }

    /// Waits until `bytes` bytes of request bodies have arrived.
    pub(crate) async fn received(&self, bytes: usize) {
        reached(&self.shared.received, |received| *received >= bytes).await;
    }

    /// Waits until an exchange was dropped before its end, and says when that was.
    pub(crate) async fn cancelled(&self) -> Instant {
        reached(&self.shared.cancelled, |times| !times.is_empty()).await;
        self.shared.cancelled.borrow()[0]
    }

    pub(crate) fn cancellations(&self) -> usize {
        self.shared.cancelled.borrow().len()
    }

    /// Exchanges whose response was sent to its end.
    pub(crate) fn finished(&self) -> usize {
        self.shared.finished.load(Ordering::SeqCst)
    }

    /// Waits until no connection is open.
    pub(crate) async fn deserted(&self) {
        reached(&self.shared.open, |open| *open == 0).await;
    }
}

async fn reached<T>(watched: &watch::Sender<T>, enough: impl FnMut(&T) -> bool) {
    let mut watching = watched.subscribe();
    let outcome = tokio::time::timeout(PATIENCE, watching.wait_for(enough)).await;
    assert!(outcome.is_ok(), "what the backend was to see did not come");
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        shared.open.send_modify(|open| *open += 1);
        connections.spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let asked = AtomicUsize::new(0);
    let service = service_fn(|request| {
        let again = asked.fetch_add(1, Ordering::SeqCst) > 0;
        let shared = Arc::clone(&shared);
        async move {
            if again && shared.keep == Keep::UntilAskedAgain {
                return Err(io::Error::other("closed without a word"));
            }
            answer(request, shared).await
        }
    });
    // A broken connection is what many tests are about.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    shared.open.send_modify(|open| *open -= 1);
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, io::Error> {
    let mut exchange = Exchange { shared: Arc::clone(&shared), whole: false };
    let (head, incoming) = request.into_parts();
    let body = read(incoming, &shared).await?;
    let path = head.uri.path_and_query().unwrap().to_string();
    let reply = shared.reply(head.uri.path());
    shared.requests.send_modify(|requests| requests.push(Recorded { method: head.method, path, headers: head.headers, body }));
    tokio::time::sleep(reply.head_delay).await;
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let pieces = stream::unfold((reply.frames().into_iter().enumerate(), reply), move |(mut frames, reply)| {
        let next = next_piece(&mut frames, &reply, &mut exchange);
        let (piece, pause) = (next, reply.drip);
        async move {
            // Even the shortest sleep lasts until the next tick.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let piece = match piece {
                Piece::Data(bytes) => Ok(Frame::data(bytes)),
                // What was said before is to reach the wire first.
                Piece::Break => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Err(io::Error::other("cut"))
                }
                Piece::Nothing => std::future::pending().await,
                Piece::End => return None,
            };
            Some((piece, (frames, reply)))
        }
    });
    Ok(response.body(BodyExt::boxed_unsync(StreamBody::new(pieces))).unwrap())
}

enum Piece {
    Data(Bytes),
    Break,
    Nothing,
    End,
}

fn next_piece(frames: &mut impl Iterator<Item = (usize, Bytes)>, reply: &Reply, exchange: &mut Exchange) -> Piece {
    let next = frames.next();
    let at = next.as_ref().map_or(usize::MAX, |(at, _)| *at);
    match reply.end {
        End::Stall(after) if at >= after => return Piece::Nothing,
        End::Cut(after) if at >= after => {
            exchange.whole = true;
            return Piece::Break;
        }
        End::Whole | End::Stall(_) | End::Cut(_) => {}
    }
    match next {
        Some((_, bytes)) => Piece::Data(bytes),
        None => {
            exchange.whole = true;
            Piece::End
        }
    }
}

async fn read(mut incoming: Incoming, shared: &Shared) -> Result<Bytes, io::Error> {
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        let Ok(data) = frame.into_data() else { continue };
        body.extend_from_slice(&data);
        shared.received.send_modify(|received| *received += data.len());
    }
    Ok(body.freeze())
}

impl Shared {
    fn reply(&self, path: &str) -> Reply {
        if let Some(reply) = self.by_path.lock().unwrap().get(path) {
            return reply.clone();
        }
        let mut replies = self.replies.lock().unwrap();
        match replies.len() {
            0 => Reply::error(500, "the script has no reply"),
            1 => replies[0].clone(),
            _ => replies.pop_front().unwrap(),
        }
    }
}

/// One request and its response, wherever that stands; notes when it is dropped too early.
struct Exchange {
    shared: Arc<Shared>,
    whole: bool,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.whole {
            self.shared.finished.fetch_add(1, Ordering::SeqCst);
        } else {
            self.shared.cancelled.send_modify(|times| times.push(Instant::now()));
        }
    }
}
