//! An MCP server over streamable HTTP on a port of its own. It records what it is asked and does what it was told to.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};
use toolgate::{
    secret::Template,
    tools::config::{Server, Transport},
};

use super::PATIENCE;

/// A scripted server. Dropping it closes its sockets.
pub(crate) struct McpServer {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _running: JoinSet<()>,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) verb: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// Null where there was none.
    pub(crate) body: Value,
}

/// What becomes of a call.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// One JSON message.
    Json,
    /// A stream with a notification and the result.
    Events,
    /// The tool is not run: a status with these headers and this body.
    Refuse(u16, &'static [(&'static str, &'static str)], &'static str),
    /// The tool is run, and the connection closed without a word.
    HangUp,
    /// The tool is run, and the stream breaks before its result: behind an event with an id where there is one.
    Cut(Option<&'static str>),
    /// The tool is run, and its result grows without end, as one event or as one JSON body.
    Endless(&'static str),
    /// The tool is run, and the stream is silent for so long before its result.
    Silent(Duration),
}

struct Shared {
    tools: Mutex<Value>,
    acts: Mutex<VecDeque<Act>>,
    asked: Mutex<Vec<Asked>>,
    sessions: Mutex<HashSet<String>>,
    /// Where what the server says unasked goes, and the subscription for which it does.
    listeners: Mutex<Vec<(mpsc::UnboundedSender<Bytes>, Option<Value>)>>,
    /// What a resumed stream begins with.
    resumed: Mutex<Option<Value>>,
    manner: Manner,
    /// A header without which nothing is answered.
    key: Option<(&'static str, &'static str)>,
    run: AtomicUsize,
}

/// What a server is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It has sessions, and a stream of its own.
    Old,
    /// It has sessions.
    Deaf,
    /// It is of the revision of 2026-07-28: no sessions, and subscriptions.
    New,
}

impl McpServer {
    /// A server with `tools` that answers calls with JSON.
    pub(crate) async fn with(tools: Value) -> Self {
        Self::start("127.0.0.1:0".parse().unwrap(), tools, Manner::Old, None).await
    }

    /// A server that has no stream of its own.
    pub(crate) async fn deaf(tools: Value) -> Self {
        Self::start("127.0.0.1:0".parse().unwrap(), tools, Manner::Deaf, None).await
    }

    /// A server that has no sessions.
    pub(crate) async fn new(tools: Value) -> Self {
        Self::start("127.0.0.1:0".parse().unwrap(), tools, Manner::New, None).await
    }

    /// A server that wants `key` with every request.
    pub(crate) async fn locked(tools: Value, key: (&'static str, &'static str)) -> Self {
        Self::start("127.0.0.1:0".parse().unwrap(), tools, Manner::Old, Some(key)).await
    }

    /// A server where another was.
    pub(crate) async fn at(address: SocketAddr, tools: Value) -> Self {
        Self::start(address, tools, Manner::Old, None).await
    }

    async fn start(address: SocketAddr, tools: Value, manner: Manner, key: Option<(&'static str, &'static str)>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            tools: Mutex::new(tools),
            acts: Mutex::default(),
            asked: Mutex::default(),
            sessions: Mutex::default(),
            listeners: Mutex::default(),
            resumed: Mutex::default(),
            manner,
            key,
            run: AtomicUsize::new(0),
        });
        let mut running = JoinSet::new();
        running.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _running: running }
    }

    /// What the next calls become, one each; those after them are answered with JSON.
    pub(crate) fn script(self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.shared.acts.lock().unwrap().extend(acts);
        self
    }

    /// It as a server of the configuration, sent these headers.
    pub(crate) fn config(&self, id: &str, headers: &[(&str, &str)]) -> Server {
        let headers: BTreeMap<_, _> = headers.iter().map(|(name, value)| ((*name).to_owned(), Template::new(value))).collect();
        let url = Template::new(&format!("http://{}/mcp?team=a", self.address));
        let transport = Transport::Http { url, headers, allow_link_local: false };
        Server { id: id.to_owned(), transport, tags: Vec::new(), concurrent_max: 10, timeout: Duration::from_secs(30) }
    }

    /// Forgets all sessions, as after a restart.
    pub(crate) fn forget(&self) {
        self.shared.sessions.lock().unwrap().clear();
    }

    pub(crate) fn sessions(&self) -> usize {
        self.shared.sessions.lock().unwrap().len()
    }

    /// Has other tools from now on and says so.
    pub(crate) fn change(&self, tools: Value) {
        *self.shared.tools.lock().unwrap() = tools;
        self.shared.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    }

    /// What a resumed stream begins with: the result for `id`.
    pub(crate) fn resume_with(&self, text: &str) {
        *self.shared.resumed.lock().unwrap() = Some(result(text));
    }

    /// How often a tool was run.
    pub(crate) fn run(&self) -> usize {
        self.shared.run.load(Ordering::SeqCst)
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The messages of a JSON-RPC method so far.
    pub(crate) fn asked_for(&self, method: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.body["method"] == method).collect()
    }

    /// Waits until `enough`.
    pub(crate) async fn until(&self, enough: impl Fn(&Self) -> bool) {
        let seen = async {
            while !enough(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, seen).await.is_ok(), "what the server was to see did not come: {:#?}", self.asked());
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&shared)));
            // A broken connection is what many tests are about.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> io::Result<Response<Body>> {
    let (head, incoming) = request.into_parts();
    let Ok(whole) = incoming.collect().await else { return Ok(status(400, "")) };
    let body: Value = serde_json::from_slice(&whole.to_bytes()).unwrap_or_default();
    let path = head.uri.path_and_query().unwrap().to_string();
    let asked = Asked { verb: head.method.clone(), path, headers: head.headers.clone(), body: body.clone() };
    shared.asked.lock().unwrap().push(asked);
    if shared.key.is_some_and(|(name, value)| head.headers.get(name).is_none_or(|sent| sent != value)) {
        return Ok(status(401, r#"{"error":"unauthorized"}"#));
    }
    let session = head.headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let method = body["method"].as_str().unwrap_or_default();
    if shared.manner == Manner::New {
        return shared.serve_without_session(&head.method, method, &body);
    }
    let Some(session) = session else {
        return Ok(if method == "initialize" { shared.initialize(&body) } else { status(400, NO_SESSION) });
    };
    if !shared.sessions.lock().unwrap().contains(&session) {
        return Ok(status(404, r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#));
    }
    Ok(match (head.method.as_str(), method) {
        ("DELETE", _) => {
            shared.sessions.lock().unwrap().remove(&session);
            status(200, "")
        }
        ("GET", _) => shared.listen(&head.headers),
        (_, "tools/list") => message(&body["id"], &json!({"tools": *shared.tools.lock().unwrap()})),
        (_, "tools/call") => return shared.call(&body),
        (_, "ping") => message(&body["id"], &json!({})),
        _ => status(202, ""),
    })
}

/// What an older server says to whom it does not know; the id of the message was not read.
const NO_SESSION: &str = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: no session"},"id":null}"#;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Shared {
    fn initialize(&self, body: &Value) -> Response<Body> {
        let mut sessions = self.sessions.lock().unwrap();
        let id = format!("session-{}-{}", sessions.len(), self.asked.lock().unwrap().len());
        let mut answer = message(
            &body["id"],
            &json!({
                "protocolVersion": body["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }),
        );
        answer.headers_mut().insert("mcp-session-id", id.parse().unwrap());
        sessions.insert(id);
        answer
    }

    fn serve_without_session(&self, verb: &Method, method: &str, body: &Value) -> io::Result<Response<Body>> {
        let id = &body["id"];
        let list = |mut fields: Value| {
            fields["resultType"] = json!("complete");
            fields["ttlMs"] = json!(0);
            fields["cacheScope"] = json!("private");
            message(id, &fields)
        };
        Ok(match (verb, method) {
            (&Method::POST, "server/discover") => {
                list(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}}))
            }
            (&Method::POST, "tools/list") => list(json!({"tools": *self.tools.lock().unwrap()})),
            (&Method::POST, "tools/call") => return self.call(body),
            (&Method::POST, "subscriptions/listen") => {
                let (pieces, answer) = streaming("text/event-stream");
                let accepted = json!({"_meta": {SUBSCRIPTION: id}, "notifications": {"toolsListChanged": true}});
                let told = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": accepted});
                pieces.send(event(None, &told)).unwrap();
                self.listeners.lock().unwrap().push((pieces, Some(id.clone())));
                answer
            }
            _ => status(405, ""),
        })
    }

    fn call(&self, body: &Value) -> io::Result<Response<Body>> {
        let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Json);
        if let Act::Refuse(code, headers, text) = act {
            let mut answer = status(code, text);
            for (name, value) in headers {
                answer.headers_mut().insert(*name, value.parse().unwrap());
            }
            return Ok(answer);
        }
        self.run.fetch_add(1, Ordering::SeqCst);
        let text = format!("{} {}", body["params"]["name"].as_str().unwrap(), body["params"]["arguments"]);
        let (pieces, answer) = streaming("text/event-stream");
        let whole = event(None, &envelope(&body["id"], &result(&text)));
        if let Some(resumed) = &mut *self.resumed.lock().unwrap() {
            *resumed = envelope(&body["id"], resumed);
        }
        match act {
            Act::Refuse(..) | Act::Json => return Ok(message(&body["id"], &result(&text))),
            Act::HangUp => return Err(io::Error::other("closed without a word")),
            Act::Events => {
                let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
                pieces.send(event(None, &log)).unwrap();
                pieces.send(whole).unwrap();
            }
            Act::Cut(id) => {
                if let Some(id) = id {
                    pieces.send(format!("id: {id}\nretry: 10\ndata:\n\n").into()).unwrap();
                }
            }
            Act::Endless(kind) => return Ok(endless(kind)),
            Act::Silent(pause) => {
                let late = stream::once(async move {
                    tokio::time::sleep(pause).await;
                    Ok(Frame::data(whole))
                });
                let body = BodyExt::boxed_unsync(StreamBody::new(late));
                return Ok(Response::builder().header("content-type", "text/event-stream").body(body).unwrap());
            }
        }
        Ok(answer)
    }

    fn listen(&self, headers: &HeaderMap) -> Response<Body> {
        if self.manner == Manner::Deaf {
            return status(405, "");
        }
        let (pieces, answer) = streaming("text/event-stream");
        let resumes = headers.contains_key("last-event-id");
        if let Some(resumed) = resumes.then(|| self.resumed.lock().unwrap().take()).flatten() {
            pieces.send(event(None, &resumed)).unwrap();
        }
        self.listeners.lock().unwrap().push((pieces, None));
        answer
    }

    fn say(&self, message: &Value) {
        let tell = |(listener, subscription): &(mpsc::UnboundedSender<Bytes>, Option<Value>)| {
            let mut message = message.clone();
            if let Some(id) = subscription {
                message["params"]["_meta"][SUBSCRIPTION] = id.clone();
            }
            listener.send(event(None, &message)).is_ok()
        };
        self.listeners.lock().unwrap().retain(tell);
    }
}

fn result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn envelope(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn message(id: &Value, result: &Value) -> Response<Body> {
    status(200, &envelope(id, result).to_string())
}

fn event(id: Option<&str>, message: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}data: {message}\n\n").into()
}

fn status(code: u16, body: &str) -> Response<Body> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes())).map_err(|never| match never {});
    Response::builder().status(code).header("content-type", "application/json").body(body.boxed_unsync()).unwrap()
}

fn streaming(kind: &str) -> (mpsc::UnboundedSender<Bytes>, Response<Body>) {
    let (pieces, coming) = mpsc::unbounded_channel::<Bytes>();
    let frames = stream::unfold(coming, async |mut coming| Some((Ok(Frame::data(coming.recv().await?)), coming)));
    let body = BodyExt::boxed_unsync(StreamBody::new(frames));
    (pieces, Response::builder().header("content-type", kind).body(body).unwrap())
}

fn endless(kind: &'static str) -> Response<Body> {
    let first = if kind == "text/event-stream" { "data: {" } else { "{" };
    let pieces = stream::unfold(first, |piece| async move { Some((Ok(Frame::data(piece.into())), FILLING)) });
    let body = BodyExt::boxed_unsync(StreamBody::new(pieces));
    Response::builder().header("content-type", kind).body(body).unwrap()
}

const FILLING: &str = r#""a fairly long filling of an object that has no end": "and another one to go with it","#;
