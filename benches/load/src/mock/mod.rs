//! A scripted model server: OpenAI's chat completions and Ollama's `/api/chat`, fast enough never
//! to be the bottleneck. The request's `model` names the script, see [`script`]. Under `/mcp` it is
//! also an MCP server, see [`tools`].
//!
//! Beside the two chat routes it answers the look-ups that clients and proxies make at start
//! (`/health`, `/props`, `/v1/models`, `/api/tags`, `/api/version`, `/api/show`), and for tests
//! `GET /hits`, the number of chat requests so far, `GET /last`, the body of the last one if
//! recording is on, and `GET /turns`, when the last two arrived and how much of their answers went
//! out.

use std::{
    array,
    convert::Infallible,
    io, mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Collected, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep, sleep_until},
};

mod completions;
mod ollama;
pub mod script;
pub mod tools;

/// The body of every answer: whole, or streamed with pauses.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Serves `backend` on `listener` for ever.
pub async fn serve(listener: TcpListener, backend: Arc<Backend>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: give the open connections time to end.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Small events must not wait for one another; if this fails, the figures only get worse.
        stream.set_nodelay(true).ok();
        let backend = Arc::clone(&backend);
        tokio::spawn(async move {
            let service = service_fn(|request| async { Ok::<_, Infallible>(backend.answer(request).await) });
            // A client that goes away in the middle is no concern of the mock's.
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            connection.await.ok();
        });
    }
}

/// What the mock remembers between requests.
#[derive(Debug)]
pub struct Backend {
    start: Instant,
    hits: AtomicU64,
    /// The last two, the older first.
    turns: Mutex<[Arc<Turn>; 2]>,
    /// The last chat request's body; `None` when recording is off.
    last: Option<Mutex<Bytes>>,
}

impl Backend {
    /// A backend that has seen no request, which keeps the last body if `record` is set.
    pub fn new(record: bool) -> Self {
        let start = Instant::now();
        let turns = Mutex::new(array::from_fn(|_| Arc::new(Turn::new(0, start))));
        Self { start, hits: AtomicU64::new(0), turns, last: record.then(Mutex::default) }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            "/v1/chat/completions" | "/chat/completions" => match self.read(request).await {
                Ok((body, turn)) => completions::answer(&body, turn).await,
                Err(_) => whole(StatusCode::BAD_REQUEST, JSON, r#"{"error":{"message":"bad json"}}"#),
            },
            "/api/chat" => match self.read(request).await {
                Ok((body, _)) => ollama::answer(&body),
                Err(_) => whole(StatusCode::BAD_REQUEST, JSON, r#"{"error":"bad json"}"#),
            },
            "/mcp" => mcp(request).await,
            "/hits" => json(&json!({"hits": self.hits.load(Ordering::Relaxed)})),
            "/turns" => json(&self.turns()),
            "/last" => whole(StatusCode::OK, JSON, self.last()),
            path => match look_up(path) {
                Some(found) => json(&found),
                None => whole(StatusCode::NOT_FOUND, JSON, "{}"),
            },
        }
    }

    /// Notes a chat request and parses its body.
    async fn read(&self, request: Request<Incoming>) -> crate::Result<(Value, Arc<Turn>)> {
        let hit = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
        let turn = Arc::new(Turn::new(hit, Instant::now()));
        self.note(&turn);
        let body = request.into_body().collect().await?.to_bytes();
        if let Some(last) = &self.last {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = body.clone();
        }
        Ok((serde_json::from_slice(&body)?, turn))
    }

    fn note(&self, turn: &Arc<Turn>) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let [older, newer] = &mut *turns;
        *older = mem::replace(newer, Arc::clone(turn));
    }

    fn turns(&self) -> Value {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.iter().map(|turn| turn.told_since(self.start)).collect()
    }

    fn last(&self) -> Bytes {
        let Some(last) = &self.last else {
            return Bytes::new();
        };
        last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Streamable HTTP without what a client may do without: streams of the server's own, and the end of a session.
async fn mcp(request: Request<Incoming>) -> Response<Body> {
    if request.method() != Method::POST {
        return whole(StatusCode::METHOD_NOT_ALLOWED, JSON, "");
    }
    let body = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    match serde_json::from_slice(&body) {
        Ok(message) => match tools::answer(&message) {
            Some(answer) => json(&answer),
            None => whole(StatusCode::ACCEPTED, JSON, ""),
        },
        Err(_) => whole(StatusCode::BAD_REQUEST, JSON, ""),
    }
}

/// One chat request and how far its answer has come.
#[derive(Debug)]
struct Turn {
    hit: u64,
    arrived: Instant,
    /// Those that waited for a pause, as a model's tokens do.
    pieces: AtomicUsize,
}

impl Turn {
    fn new(hit: u64, arrived: Instant) -> Self {
        Self { hit, arrived, pieces: AtomicUsize::new(0) }
    }

    fn told_since(&self, start: Instant) -> Value {
        let arrived_us = (self.arrived - start).as_micros() as u64;
        json!({"hit": self.hit, "arrived_us": arrived_us, "pieces": self.pieces.load(Ordering::Relaxed)})
    }
}

/// One piece of a streamed answer: what to wait before it, and its bytes, or an error that makes
/// hyper close the connection there.
struct Step {
    pause: Duration,
    bytes: io::Result<Bytes>,
}

impl Step {
    fn now(bytes: impl Into<Bytes>) -> Self {
        Self::after(Duration::ZERO, bytes)
    }

    fn after(pause: Duration, bytes: impl Into<Bytes>) -> Self {
        Self { pause, bytes: Ok(bytes.into()) }
    }

    fn cut() -> Self {
        // Without a pause hyper would drop the head and the earlier pieces unsent.
        Self { pause: Duration::from_millis(5), bytes: Err(io::Error::other("cut by the script")) }
    }

    async fn frame(self, due: Instant, turn: Option<Arc<Turn>>) -> io::Result<Frame<Bytes>> {
        // The timer would round a sleep of zero up to a millisecond.
        if !self.pause.is_zero() {
            sleep_until(due).await;
            if let Some(turn) = turn {
                turn.pieces.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.bytes.map(Frame::data)
    }
}

fn look_up(path: &str) -> Option<Value> {
    Some(match path {
        "/health" | "/v1/health" => json!({"status": "ok"}),
        "/props" => json!({
            "default_generation_settings": {"n_ctx": 8192},
            "total_slots": 4,
            "chat_template": "",
            "build_info": "mock",
        }),
        "/models" | "/v1/models" => json!({
            "object": "list",
            "data": [{"id": "mock", "object": "model", "created": 1, "owned_by": "mock"}],
        }),
        "/api/tags" => json!({"models": [{"name": "mock", "model": "mock"}]}),
        "/api/version" => json!({"version": "0.13.0"}),
        "/api/show" => json!({
            "capabilities": ["completion", "tools"],
            "model_info": {"general.architecture": "llama", "llama.context_length": 8192},
        }),
        _ => return None,
    })
}

fn json(value: &Value) -> Response<Body> {
    whole(StatusCode::OK, JSON, value.to_string())
}

fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    with_head(status, content_type, body)
}

fn stream(content_type: &'static str, steps: Vec<Step>, turn: Option<Arc<Turn>>) -> Response<Body> {
    // Each piece has its time from the start on, so that what one is late by does not add to the next.
    let mut due = Instant::now();
    let frames = futures_util::StreamExt::then(futures_util::stream::iter(steps), move |step| {
        due += step.pause;
        step.frame(due, turn.clone())
    });
    with_head(StatusCode::OK, content_type, StreamBody::new(frames).boxed_unsync())
}

fn with_head(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

const JSON: &str = "application/json";
