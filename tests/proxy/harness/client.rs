//! A plain HTTP client, and a raw socket for what no client would send.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use super::PATIENCE;

/// A client of one address, which keeps its connections.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    inner: legacy::Client<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer whose body is still to come.
pub(crate) struct Streaming {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, inner: legacy::Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        self.open(method, path, headers, body).await.unwrap().whole().await.unwrap()
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Streaming, legacy::Error> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = tokio::time::timeout(PATIENCE, self.inner.request(request)).await.expect("no answer came");
        let (head, body) = response.map(Response::into_parts)?;
        Ok(Streaming { status: head.status.as_u16(), headers: head.headers, body })
    }
}

impl Streaming {
    /// The next piece and when it came; `None` at the end or when the connection breaks.
    pub(crate) async fn next(&mut self) -> Option<(Bytes, Instant)> {
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("no piece came")?.ok()?;
            if let Ok(data) = frame.into_data() {
                return Some((data, Instant::now()));
            }
        }
    }

    /// The rest. Fails when the connection breaks before its end.
    pub(crate) async fn whole(self) -> Result<Answer, hyper::Error> {
        let body = tokio::time::timeout(PATIENCE, self.body.collect()).await.expect("the answer does not end")?;
        Ok(Answer { status: self.status, headers: self.headers, body: body.to_bytes() })
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The header `name`, empty when absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The completion's one message.
    pub(crate) fn message(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()["choices"][0]["message"].clone()
    }

    pub(crate) fn content(&self) -> String {
        self.message()["content"].as_str().unwrap_or_else(|| panic!("no content: {}", self.text())).to_owned()
    }

    /// Names and arguments of the calls.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        let message = self.message();
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        let text = |call: &Value, key: &str| call["function"][key].as_str().unwrap().to_owned();
        calls.iter().map(|call| (text(call, "name"), text(call, "arguments"))).collect()
    }

    pub(crate) fn finish_reason(&self) -> String {
        self.json()["choices"][0]["finish_reason"].as_str().unwrap().to_owned()
    }

    /// The `error` object, which has OpenAI's four keys and no others.
    pub(crate) fn error(&self) -> Value {
        assert!(self.status >= 400, "{} is no error: {}", self.status, self.text());
        assert_eq!(self.header("content-type"), "application/json");
        assert!(!self.header("x-request-id").is_empty());
        let body = self.json();
        assert_eq!(keys(&body), ["error"]);
        assert_eq!(keys(&body["error"]), ["code", "message", "param", "type"]);
        assert!(body["error"]["message"].is_string() && body["error"]["type"].is_string(), "{body}");
        body["error"].clone()
    }

    /// Status, guardrail and attempts, which most tests ask for.
    pub(crate) fn outcome(&self) -> (u16, &str, &str) {
        (self.status, self.header("x-toolgate-guardrail"), self.header("x-toolgate-attempts"))
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// A socket that sends what it is told, byte for byte.
pub(crate) struct Raw {
    address: SocketAddr,
}

impl Raw {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Sends `parts` with `pause` between them and reads until the peer closes or falls silent. What the peer no longer takes is not
    /// an error: an early answer is still read.
    pub(crate) async fn exchange(&self, parts: Vec<Bytes>, pause: Duration) -> String {
        let address = self.address;
        tokio::task::spawn_blocking(move || exchange(address, &parts, pause)).await.unwrap()
    }

    /// Sends `text` in one go.
    pub(crate) async fn say(&self, text: &str) -> String {
        self.exchange(vec![Bytes::copy_from_slice(text.as_bytes())], Duration::ZERO).await
    }
}

fn exchange(address: SocketAddr, parts: &[Bytes], pause: Duration) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    for part in parts {
        if stream.write_all(part).is_err() {
            break;
        }
        std::thread::sleep(pause);
    }
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..count]);
    }
    let _ = stream.shutdown(Shutdown::Both);
    String::from_utf8_lossy(&answer).into_owned()
}
