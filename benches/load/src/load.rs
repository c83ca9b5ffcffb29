//! Closed-loop load: each connection asks, reads the answer to its end, and asks again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Uri,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

use crate::{
    Result,
    sample::{Sample, Timing},
};

/// Where to send requests.
#[derive(Debug, Clone)]
pub struct Target {
    authority: String,
    path: String,
}

/// What to ask.
#[derive(Debug, Clone)]
pub struct Question {
    /// The model, which names the mock's script.
    pub model: String,
    /// Whether to offer one tool, `get_weather`.
    pub with_tools: bool,
    /// Whether the answer streams.
    pub stream: bool,
    /// The length of the system message.
    pub system_bytes: usize,
}

/// When to stop: at the first bound that is reached.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// How many requests are sent in all.
    pub requests: usize,
    /// For how long new requests are sent.
    pub time: Duration,
}

/// Sends the same request over `connections` connections until `limit`, and waits for the answers.
///
/// Nothing fails it: a refused connection, a status other than success and a body that breaks off
/// each count as one error, and the connection is opened anew.
pub async fn run(target: &Target, body: &Bytes, connections: usize, limit: Limit) -> Sample {
    let start = Instant::now();
    let budget = Budget { left: AtomicUsize::new(limit.requests), until: start + limit.time };
    let worker = Arc::new(Worker { target: target.clone(), body: body.clone(), budget });
    let mut workers: JoinSet<Sample> = (0..connections).map(|_| Arc::clone(&worker).run()).collect();
    let mut all = Sample::default();
    while let Some(finished) = workers.join_next().await {
        match finished {
            Ok(sample) => all.extend(sample),
            Err(_) => all.errors += 1,
        }
    }
    all.elapsed = start.elapsed();
    all
}

/// Asks once, on a connection of its own, and returns the answer's body.
pub async fn ask_once(target: &Target, body: &Bytes) -> Result<Bytes> {
    let mut sender = connect(target).await?;
    let response = sender.send_request(request(target, body)?).await?;
    let status = response.status();
    let answer = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("status {status}: {}", String::from_utf8_lossy(&answer)).into());
    }
    Ok(answer)
}

/// Requests that one client sends one after another, each when the last one was answered.
pub struct Conversation<'a> {
    target: &'a Target,
    bodies: &'a [Bytes],
    sender: Option<Sender>,
}

// === impl Conversation ===

impl<'a> Conversation<'a> {
    /// A conversation over one connection, which it keeps.
    pub fn new(target: &'a Target, bodies: &'a [Bytes]) -> Self {
        Self { target, bodies, sender: None }
    }

    /// Holds it once, and returns what the answers took together.
    pub async fn hold(&mut self) -> Result<Duration> {
        let mut sender = match usable(self.sender.take()).await {
            Some(sender) => sender,
            None => connect(self.target).await?,
        };
        let start = Instant::now();
        for body in self.bodies {
            let response = sender.send_request(request(self.target, body)?).await?;
            let status = response.status();
            let answer = response.into_body().collect().await?.to_bytes();
            if !status.is_success() {
                return Err(format!("status {status}: {}", String::from_utf8_lossy(&answer)).into());
            }
            sender.ready().await?;
        }
        let took = start.elapsed();
        self.sender = Some(sender);
        Ok(took)
    }
}

// === impl Target ===

impl Target {
    /// Parses `http://HOST:PORT/PATH`.
    pub fn parse(url: &str) -> Result<Self> {
        let uri: Uri = url.parse()?;
        match (uri.authority(), uri.path_and_query()) {
            (Some(authority), Some(path)) if authority.port().is_some() => {
                Ok(Self { authority: authority.to_string(), path: path.to_string() })
            }
            _ => Err(format!("`{url}` is not of the form http://HOST:PORT/PATH").into()),
        }
    }
}

// === impl Limit ===

impl Limit {
    /// As many requests as fit into `time`.
    pub fn after(time: Duration) -> Self {
        Self { requests: usize::MAX, time }
    }
}

// === impl Question ===

impl Question {
    /// The JSON to send.
    pub fn body(&self) -> Bytes {
        let mut body = json!({
            "model": self.model,
            "stream": self.stream,
            "messages": [
                {"role": "system", "content": "x".repeat(self.system_bytes)},
                {"role": "user", "content": "What is the weather in Paris?"},
            ],
        });
        if self.with_tools {
            body["tools"] = json!([{
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Weather of a city",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
            }]);
        }
        body.to_string().into()
    }
}

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// How many requests are still to be sent, shared by all connections.
struct Budget {
    left: AtomicUsize,
    until: Instant,
}

impl Budget {
    fn take(&self) -> bool {
        let take_one = |left: usize| left.checked_sub(1);
        Instant::now() < self.until && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok()
    }
}

/// What the connections have in common.
struct Worker {
    target: Target,
    body: Bytes,
    budget: Budget,
}

impl Worker {
    async fn run(self: Arc<Self>) -> Sample {
        let mut sample = Sample::default();
        let mut idle = None;
        while self.budget.take() {
            match self.ask(idle.take()).await {
                Ok((timing, sender)) => {
                    sample.timings.push(timing);
                    idle = Some(sender);
                }
                Err(_) => {
                    sample.errors += 1;
                    // A server that is down must not be hammered, nor spin this loop.
                    sleep(Duration::from_millis(5)).await;
                }
            }
        }
        sample
    }

    /// Asks over `idle`, or over a new connection if there is none or the server has closed it,
    /// which a server may do between two requests.
    async fn ask(&self, idle: Option<Sender>) -> Result<(Timing, Sender)> {
        let mut sender = match usable(idle).await {
            Some(sender) => sender,
            None => connect(&self.target).await?,
        };
        let request = request(&self.target, &self.body)?;
        let start = Instant::now();
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status()).into());
        }
        let mut watch = Watch::new(start);
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame?.data_ref() {
                watch.saw(data);
            }
        }
        Ok((watch.stop(), sender))
    }
}

/// Follows one answer as its chunks arrive.
struct Watch {
    start: Instant,
    first: Option<Instant>,
    last: Instant,
    gap: Duration,
    /// What came until the first useful byte.
    head: Vec<u8>,
}

impl Watch {
    fn new(start: Instant) -> Self {
        Self { start, first: None, last: start, gap: Duration::ZERO, head: Vec::new() }
    }

    fn saw(&mut self, data: &[u8]) {
        let now = Instant::now();
        self.gap = self.gap.max(now - self.last);
        self.last = now;
        if self.first.is_none() {
            self.head.extend_from_slice(data);
            if is_useful(&String::from_utf8_lossy(&self.head)) {
                self.first = Some(now);
            }
        }
    }

    fn stop(self) -> Timing {
        let end = Instant::now();
        Timing { first: self.first.unwrap_or(end) - self.start, total: end - self.start, gap: self.gap }
    }
}

/// Whether an answer's beginning holds what a caller could use: text, or a named call.
fn is_useful(head: &str) -> bool {
    let has_text = |key: &str| {
        head.match_indices(key).any(|(at, key)| head.get(at + key.len()..).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('"')))
    };
    ["\"content\":\"", "\"content\": \"", "\"name\":\"", "\"name\": \""].into_iter().any(has_text)
}

pub(crate) async fn usable(idle: Option<Sender>) -> Option<Sender> {
    let mut sender = idle?;
    sender.ready().await.ok()?;
    Some(sender)
}

pub(crate) async fn connect(target: &Target) -> Result<Sender> {
    let stream = TcpStream::connect(&target.authority).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender; its error also shows where the response is awaited.
    tokio::spawn(connection);
    Ok(sender)
}

pub(crate) fn request(target: &Target, body: &Bytes) -> Result<Request<Full<Bytes>>> {
    let request = Request::post(&target.path)
        .header(HOST, &target.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, "Bearer sk-x")
        .body(Full::new(body.clone()))?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_named_calls_are_useful() {
        let check = |head: &str, expected: bool| assert_eq!(is_useful(head), expected, "{head}");
        check(r#"{"content":null}"#, false);
        check(r#"{"content":""}"#, false);
        check(r#"{"content":""#, false);
        check(r#"{"content":"Sure"#, true);
        check(r#"{"content": "Sure"#, true);
        check(r#"{"content":""} {"content":"Sure"}"#, true);
        check(r#"{"name":"get_weather"#, true);
    }
}
