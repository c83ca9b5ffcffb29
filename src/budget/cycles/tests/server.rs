//! A Cycles server of the tests: it keeps a real ledger, takes only the fields of the protocol, and drops, delays, garbles and repeats what a
//! test tells it to.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::question::{Keep, Settle, action_of, id, read, request};
use crate::budget::{
    Store, Unit,
    ledger::{Balance, Caps, Code, Entry, Error, Event, Refusal, Terms},
    store::{memory::Memory, now_ms},
};

/// What goes wrong with one question.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// It is not acted upon, and not answered.
    LoseQuestion,
    /// It is acted upon, and not answered.
    LoseAnswer,
    /// It is not acted upon, and the connection stays open without a word.
    Silence,
    /// It is acted upon, and answered so late.
    Late(Duration),
    /// It is not acted upon, and answered so.
    Say(u16, String),
    /// The same, with this `Retry-After`.
    SayLater(u16, String, u64),
    /// It is acted upon, and answered so.
    Garble(u16, String),
}

/// A question as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The last part of the path.
    pub(super) operation: String,
    pub(super) path: String,
    pub(super) api_key: Option<String>,
    pub(super) body: Value,
    pub(super) at: Instant,
    /// How many records were in the journal then.
    pub(super) journaled: usize,
}

impl Seen {
    pub(super) fn key(&self) -> &str {
        self.body["idempotency_key"].as_str().unwrap()
    }
}

pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// In a runtime of its own, so that those of the tests may die.
    runtime: Option<tokio::runtime::Runtime>,
}

struct Shared {
    store: Store,
    faults: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    seen: Mutex<Vec<Seen>>,
    journal: Mutex<Option<PathBuf>>,
    /// Whose key opens.
    api_key: Mutex<Option<String>>,
    remaining_ttl_ms: Mutex<Option<u64>>,
    caps: Mutex<Option<Value>>,
}

impl Server {
    /// One whose tenant `acme` has `allocated`.
    pub(super) async fn start(allocated: u64) -> Self {
        let store = Store::Memory(Memory::default());
        let terms = Terms { allocated: Some(allocated), ..Terms::default() };
        store.allocate("tenant:acme", Unit::UsdMicrocents, &terms).await.unwrap();
        let shared = Arc::new(Shared {
            store,
            faults: Mutex::default(),
            seen: Mutex::default(),
            journal: Mutex::default(),
            api_key: Mutex::default(),
            remaining_ttl_ms: Mutex::default(),
            caps: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (said, address) = tokio::sync::oneshot::channel();
        let accepting = Arc::clone(&shared);
        drop(runtime.handle().spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            said.send(listener.local_addr().unwrap()).unwrap();
            accept(listener, accepting).await;
        }));
        Self { address: address.await.unwrap(), shared, runtime: Some(runtime) }
    }

    pub(super) fn url(&self) -> hyper::Uri {
        format!("http://{}", self.address).parse().unwrap()
    }

    /// What goes wrong with the next questions of `operation`, in turn.
    pub(super) fn fault(&self, operation: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.shared.faults.lock().unwrap().entry(operation).or_default().extend(faults);
    }

    /// Counts the records of this journal whenever it is asked something.
    pub(super) fn watch(&self, journal: PathBuf) {
        *self.shared.journal.lock().unwrap() = Some(journal);
    }

    /// Answers only who has this key.
    pub(super) fn lock(&self, api_key: &str) {
        *self.shared.api_key.lock().unwrap() = Some(api_key.to_owned());
    }

    /// Says that leases are so short, whatever they are.
    pub(super) fn shorten(&self, remaining_ttl_ms: u64) {
        *self.shared.remaining_ttl_ms.lock().unwrap() = Some(remaining_ttl_ms);
    }

    /// Allows only with these caps.
    pub(super) fn cap(&self, caps: Value) {
        *self.shared.caps.lock().unwrap() = Some(caps);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The questions of one operation.
    pub(super) fn asked(&self, operation: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.operation == operation).collect()
    }

    /// The operations in their order.
    pub(super) fn operations(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.operation).collect()
    }

    /// Every cost that was booked.
    pub(super) async fn entries(&self) -> Vec<Entry> {
        self.shared.store.entries(0, u64::MAX).await.unwrap()
    }

    /// What the tenant has.
    pub(super) async fn balance(&self) -> Balance {
        self.shared.store.balances().await.unwrap().remove(0).2
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&shared)));
            // A fresh connection for each question: a kept one that breaks is replaced without a word.
            let serving = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
            // That some break is what the tests are about.
            let _ = serving.await;
        });
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Full<Bytes>>, io::Error> {
    let path = request.uri().path().to_owned();
    let api_key = request.headers().get("x-cycles-api-key").map(|key| key.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let operation = path.rsplit('/').next().unwrap().to_owned();
    let fault = shared.note(&operation, &path, api_key.clone(), &body);
    let lost = || Err(io::Error::other("lost"));
    match fault.clone() {
        Some(Fault::LoseQuestion) => return lost(),
        Some(Fault::Silence) => return std::future::pending().await,
        Some(Fault::Say(status, body)) => return Ok(reply(status, body)),
        Some(Fault::SayLater(status, body, seconds)) => {
            let mut reply = reply(status, body);
            reply.headers_mut().insert("retry-after", seconds.into());
            return Ok(reply);
        }
        _ => {}
    }
    let is_locked = shared.api_key.lock().unwrap().as_ref().is_some_and(|key| api_key.as_ref() != Some(key));
    let (status, said) = if is_locked { (401, error("UNAUTHORIZED")) } else { shared.act(&operation, &path, &body).await };
    match fault {
        Some(Fault::LoseAnswer) => lost(),
        Some(Fault::Garble(status, body)) => Ok(reply(status, body)),
        Some(Fault::Late(delay)) => {
            tokio::time::sleep(delay).await;
            Ok(reply(status, said))
        }
        _ => Ok(reply(status, said)),
    }
}

fn reply(status: u16, body: String) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::from(body)).unwrap()
}

/// A refusal as the protocol has it.
pub(super) fn error(code: &str) -> String {
    json!({"error": code, "message": format!("no: {code}"), "request_id": "r1"}).to_string()
}

impl Shared {
    fn note(&self, operation: &str, path: &str, api_key: Option<String>, body: &Bytes) -> Option<Fault> {
        let is_record = |entry: io::Result<std::fs::DirEntry>| !entry.unwrap().file_name().as_encoded_bytes().starts_with(b".");
        let journal = self.journal.lock().unwrap().clone();
        let journaled = journal.map_or(0, |folder| std::fs::read_dir(folder).unwrap().map(is_record).filter(|is| *is).count());
        let body = serde_json::from_slice(body).unwrap();
        let seen = Seen { operation: operation.to_owned(), path: path.to_owned(), api_key, body, at: Instant::now(), journaled };
        self.seen.lock().unwrap().push(seen);
        self.faults.lock().unwrap().get_mut(operation).and_then(VecDeque::pop_front)
    }

    async fn act(&self, operation: &str, path: &str, body: &Bytes) -> (u16, String) {
        let outcome = match operation {
            "reservations" => self.reserve(body).await,
            "decide" => self.decide(body).await,
            "commit" => self.commit(id(path), body).await,
            "release" => self.release(id(path), body).await,
            "extend" => self.extend(id(path), body).await,
            "events" => self.event(body).await,
            _ => panic!("{operation}"),
        };
        match outcome {
            Ok(said) => (if operation == "events" { 201 } else { 200 }, said.to_string()),
            Err(Error::Refused(Refusal { code, .. })) => {
                let status = match code {
                    Code::InvalidRequest | Code::UnitMismatch => 400,
                    Code::NotFound => 404,
                    Code::ReservationExpired => 410,
                    _ => 409,
                };
                (status, error(serde_json::to_value(code).unwrap().as_str().unwrap()))
            }
            Err(Error::Store(_)) => (500, error("INTERNAL_ERROR")),
        }
    }

    fn allowed(&self, mut said: Value) -> Value {
        let caps = self.caps.lock().unwrap().clone();
        said["decision"] = if caps.is_some() { "ALLOW_WITH_CAPS" } else { "ALLOW" }.into();
        if let Some(caps) = caps {
            said["caps"] = caps;
        }
        said
    }

    async fn reserve(&self, body: &Bytes) -> Result<Value, Error> {
        let request = request(read(body)?);
        let reserved = self.store.reserve(&request).await?;
        let is_active = self.balance_reserved().await;
        let remaining = if is_active { reserved.expires_at_ms.saturating_sub(now_ms()) } else { 0 };
        let remaining = self.remaining_ttl_ms.lock().unwrap().unwrap_or(remaining);
        Ok(self.allowed(json!({
            "reservation_id": reserved.reservation_id,
            "affected_scopes": reserved.affected_scopes,
            "reserved": reserved.reserved[0],
            "expires_at_ms": reserved.expires_at_ms,
            "remaining_ttl_ms": remaining,
            "a_field_of_later": {"x": 1},
        })))
    }

    /// Whether anything is put aside at all: the tests have one reservation each.
    async fn balance_reserved(&self) -> bool {
        self.store.balances().await.unwrap()[0].2.reserved > 0
    }

    async fn decide(&self, body: &Bytes) -> Result<Value, Error> {
        match self.store.decide(&request(read(body)?)).await {
            Ok(_) => Ok(self.allowed(json!({}))),
            Err(Error::Refused(Refusal { code, .. })) => Ok(json!({"decision": "DENY", "reason_code": code})),
            Err(error) => Err(error),
        }
    }

    async fn commit(&self, id: &str, body: &Bytes) -> Result<Value, Error> {
        let Settle { idempotency_key, actual, .. } = read(body)?;
        let committed = self.store.commit(id, &idempotency_key, &[actual]).await?;
        Ok(json!({"status": "COMMITTED", "charged": committed.charged[0], "balances": []}))
    }

    async fn release(&self, id: &str, body: &Bytes) -> Result<Value, Error> {
        let Keep { idempotency_key, reason, .. } = read(body)?;
        assert!(reason.unwrap().len() <= 256);
        let released = self.store.release(id, &idempotency_key).await?;
        Ok(json!({"status": "RELEASED", "released": released.released[0]}))
    }

    async fn extend(&self, id: &str, body: &Bytes) -> Result<Value, Error> {
        let Keep { idempotency_key, extend_by_ms, .. } = read(body)?;
        let extended = self.store.extend(id, &idempotency_key, extend_by_ms.unwrap()).await?;
        let remaining = extended.expires_at_ms.saturating_sub(now_ms());
        let remaining = self.remaining_ttl_ms.lock().unwrap().unwrap_or(remaining);
        Ok(json!({"status": "ACTIVE", "expires_at_ms": extended.expires_at_ms, "remaining_ttl_ms": remaining}))
    }

    async fn event(&self, body: &Bytes) -> Result<Value, Error> {
        let Settle { idempotency_key, actual, subject, action, overage_policy, .. } = read(body)?;
        let event = Event {
            idempotency_key,
            subject: subject.unwrap(),
            action: action_of(action.unwrap()),
            actuals: vec![actual],
            quotas: Vec::new(),
            opens: false,
            overage_policy: overage_policy.unwrap(),
        };
        self.store.event(&event).await?;
        Ok(json!({"status": "APPLIED", "event_id": "e1"}))
    }
}

/// The caps of an answer, for those who compare them.
pub(super) fn caps(max_tokens: u64) -> Caps {
    Caps { max_tokens: Some(max_tokens), ..Caps::default() }
}
