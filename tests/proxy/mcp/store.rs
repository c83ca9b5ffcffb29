//! The store in a Redis: what it keeps, and that one which is slow, gone or no Redis at all does no harm.

use std::{
    collections::HashMap,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use toolgate::{
    secret::{Secret, Template},
    store::{Config, Redis, Store},
    tools::config::{Server, Transport},
};

use crate::harness::{PATIENCE, Proxy, Reply, Upstream, chat, mcp};

const TIMEOUT: Duration = Duration::from_millis(250);
const HOUR: Duration = Duration::from_secs(3600);

/// How a scripted Redis behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Works,
    /// It takes everything and answers nothing.
    Silent,
    /// It answers something else.
    Garbage,
    /// It wants a password that nobody has.
    Refuses,
    /// It closes each connection at once.
    Closes,
}

/// A server of the little of Redis that is used here. Dropping it closes its sockets.
struct Fake {
    address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    kept: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
    _running: JoinSet<()>,
}

impl Fake {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (manner, kept, asked) = (Arc::new(Mutex::new(manner)), Arc::default(), Arc::default());
        let mut running = JoinSet::new();
        let shared = (Arc::clone(&manner), Arc::clone(&kept), Arc::clone(&asked));
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (manner, kept, asked) = shared.clone();
                connections.spawn(async move { serve(stream, &manner, &kept, &asked).await });
            }
        });
        Self { address, manner, kept, asked, _running: running }
    }

    fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    fn store(&self) -> Store {
        Store::new(self.config())
    }

    fn config(&self) -> Config {
        config(&format!("redis://{}", self.address))
    }

    fn keys(&self) -> Vec<String> {
        self.kept.lock().unwrap().keys().cloned().collect()
    }

    /// The commands of that name.
    fn asked(&self, name: &str) -> Vec<Vec<String>> {
        self.asked.lock().unwrap().iter().filter(|command| command[0] == name).cloned().collect()
    }
}

fn config(url: &str) -> Config {
    Config { bytes_max: 1 << 20, redis: Some(Redis::new(Secret::new(url), "toolgate:".to_owned(), TIMEOUT).unwrap()) }
}

async fn serve(stream: TcpStream, manner: &Mutex<Manner>, kept: &Mutex<HashMap<String, Vec<u8>>>, asked: &Mutex<Vec<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(command) = read(&mut stream).await {
        asked.lock().unwrap().push(command.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect());
        let manner = *manner.lock().unwrap();
        let answer = match manner {
            Manner::Works => answer(&command, kept),
            Manner::Silent => continue,
            Manner::Garbage => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            Manner::Refuses => b"-NOAUTH Authentication required.\r\n".to_vec(),
            Manner::Closes => return,
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// The next command: an array of strings.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Vec<Vec<u8>>> {
    let mut command = Vec::new();
    for _ in 0..length(stream, '*').await? {
        let mut part = vec![0; length(stream, '$').await? + 2];
        stream.read_exact(&mut part).await.ok()?;
        part.truncate(part.len() - 2);
        command.push(part);
    }
    Some(command)
}

async fn length(stream: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

fn answer(command: &[Vec<u8>], kept: &Mutex<HashMap<String, Vec<u8>>>) -> Vec<u8> {
    let key = || String::from_utf8(command[1].clone()).unwrap();
    let mut kept = kept.lock().unwrap();
    let found = match &command[0][..] {
        b"GET" => kept.get(&key()).cloned(),
        b"GETDEL" => kept.remove(&key()),
        b"SET" => {
            kept.insert(key(), command[2].clone());
            return b"+OK\r\n".to_vec();
        }
        _ => return b"+OK\r\n".to_vec(),
    };
    match found {
        Some(value) => [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat(),
        None => b"$-1\r\n".to_vec(),
    }
}

#[tokio::test]
async fn values_are_kept_with_their_time_and_taken_once() {
    let redis = Fake::start(Manner::Works).await;
    let store = redis.store();
    let value = Bytes::from_static(b"\0\r\n\xff");
    store.put("a", value.clone(), Duration::from_millis(1500)).await;
    assert_eq!(redis.asked("SET")[0][1..], ["toolgate:a", &String::from_utf8_lossy(&value), "PX", "1500"]);
    assert_eq!(store.get("a").await, Some(value.clone()));
    assert_eq!(redis.store().get("a").await, Some(value.clone()), "others have it too");
    assert_eq!((store.take("a").await, store.take("a").await, store.get("a").await), (Some(value), None, None));
    store.put("b", "1".into(), Duration::ZERO).await;
    assert_eq!(redis.asked("SET")[1][4], "1", "Redis knows no time of zero");
}

#[tokio::test]
async fn what_does_not_answer_is_as_if_empty_and_costs_one_wait() {
    for manner in [Manner::Silent, Manner::Garbage, Manner::Refuses, Manner::Closes] {
        let redis = Fake::start(manner).await;
        let store = redis.store();
        let begun = Instant::now();
        store.put("a", "1".into(), HOUR).await;
        for _ in 0..10 {
            assert_eq!((store.get("a").await, store.take("a").await), (None, None), "{manner:?}");
        }
        // One wait and what a busy machine adds, not twenty.
        assert!(begun.elapsed() < 4 * TIMEOUT, "{manner:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn nobody_there_is_as_if_empty() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let store = Store::new(config(&format!("redis://{address}")));
    store.put("a", "1".into(), HOUR).await;
    assert_eq!(store.get("a").await, None);
}

#[tokio::test]
async fn a_redis_that_comes_back_is_used_again() {
    for outage in [Manner::Silent, Manner::Garbage, Manner::Refuses, Manner::Closes] {
        let redis = Fake::start(Manner::Works).await;
        let store = redis.store();
        store.put("a", "1".into(), HOUR).await;
        redis.behave(outage);
        assert_eq!(store.get("a").await, None, "{outage:?}");
        redis.behave(Manner::Works);
        let begun = Instant::now();
        while store.get("a").await.is_none() {
            assert!(begun.elapsed() < PATIENCE, "{outage:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

#[tokio::test]
async fn a_request_does_not_fail_for_its_store() {
    for manner in [Manner::Silent, Manner::Garbage, Manner::Closes] {
        let redis = Fake::start(manner).await;
        let upstream = Upstream::saying([Reply::call("read", r#"{"path":"a"}"#), done()]).await;
        let server = mcp::server("files", json!([mcp::tool("read", "path")]));
        let proxy = Proxy::start_with(&upstream, |config| {
            mcp::with_servers([server])(config);
            config.store = redis.config();
        })
        .await;
        assert_eq!(proxy.ask(&chat()).await.content(), "Done.", "{manner:?}");
    }
}

#[tokio::test]
async fn conversations_are_kept_for_all_who_share_the_redis() {
    let redis = Fake::start(Manner::Works).await;
    let upstream = Upstream::saying([done()]).await;
    let with = |tools: [&str; 2]| {
        let server = mcp::server("files", tools.iter().map(|name| mcp::tool(name, "path")).collect());
        let config = redis.config();
        Proxy::start_with(&upstream, move |settings| {
            mcp::with_servers([server])(settings);
            settings.store = config;
        })
    };
    with(["read", "list"]).await.ask(&chat()).await;
    with(["list", "read"]).await.ask(&chat()).await;
    let requests = upstream.requests();
    assert_eq!(requests[0].json()["tools"], requests[1].json()["tools"]);
    assert!(redis.keys().iter().all(|key| key.starts_with("toolgate:")), "{:?}", redis.keys());
}

/// A server that is well the first time and hangs when `file` is there.
fn hanging_once_there_is(file: &std::path::Path) -> Server {
    let well = mcp::server("files", json!([mcp::tool("read", "path")]));
    let Transport::Stdio { args, .. } = &well.transport else { panic!("a child process") };
    let script = args[1].text().to_owned();
    let start = format!("if [ -e {} ]; then exec sleep 60; fi; exec python3 \"$0\" \"$1\"", file.display());
    let args = ["-c", &start, args[0].text(), &script].map(Template::new).into();
    let env = [("TOKEN".to_owned(), Template::new("a literal secret"))].into();
    Server { transport: Transport::Stdio { command: "sh".to_owned(), args, env, cwd: None }, ..well }
}

#[tokio::test]
async fn a_start_needs_no_server_to_know_its_tools() {
    let redis = Fake::start(Manner::Works).await;
    let file = std::env::temp_dir().join(format!("toolgate-hangs-{}", std::process::id()));
    let upstream = Upstream::saying([done()]).await;
    let start = || {
        let (server, config) = (hanging_once_there_is(&file), redis.config());
        Proxy::start_with(&upstream, move |settings| {
            mcp::with_servers([server])(settings);
            settings.store = config;
        })
    };
    let first = start().await;
    first.ask(&chat()).await;
    let begun = Instant::now();
    while !redis.keys().iter().any(|key| key.starts_with("toolgate:tools:files:")) {
        assert!(begun.elapsed() < PATIENCE, "the list is not kept: {:?}", redis.keys());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(first);
    std::fs::write(&file, "").unwrap();
    let second = start().await;
    let begun = Instant::now();
    second.ask(&chat()).await;
    assert!(begun.elapsed() < PATIENCE, "nobody waits for the server");
    std::fs::remove_file(&file).unwrap();
    let requests = upstream.requests();
    assert_eq!(requests[0].json()["tools"], requests[1].json()["tools"]);
    let health = second.get("/health").await.json();
    assert_eq!((&health["mcp"][0]["state"], &health["mcp"][0]["tools"]), (&json!("stale"), &json!(1)), "{health}");
    let kept = redis.kept.lock().unwrap();
    assert!(!kept.values().any(|value| String::from_utf8_lossy(value).contains("a literal secret")));
}

/// A redis-server of our own, ended when dropped.
struct Real(Child, SocketAddr);

impl Real {
    fn start(address: SocketAddr) -> Self {
        #[expect(clippy::disallowed_methods, reason = "a test is no part of the program")]
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let port = address.port().to_string();
        let options = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--requirepass", "p@ss"];
        let child = Command::new(program).args(options).stdout(Stdio::null()).spawn().unwrap();
        Self(child, address)
    }

    async fn ready(self) -> Self {
        let begun = Instant::now();
        while TcpStream::connect(self.1).await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "redis-server does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_keeps_takes_forgets_and_comes_back() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let redis = Real::start(address).ready().await;
    let url = format!("redis://:p%40ss@{address}");
    let (store, other) = (Store::new(config(&url)), Store::new(config(&url)));
    let value = Bytes::from(vec![0xff; 300_000]);
    store.put("a", value.clone(), HOUR).await;
    assert_eq!(other.get("a").await, Some(value.clone()));
    let taken = tokio::join!(store.take("a"), other.take("a"), store.take("a"), other.take("a"));
    let taken = [taken.0, taken.1, taken.2, taken.3];
    assert_eq!(taken.iter().flatten().count(), 1, "one gets it");
    store.put("b", "1".into(), Duration::from_millis(100)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(store.get("b").await, None, "its time is over");
    let wrong = Store::new(config(&format!("redis://:wrong@{address}")));
    store.put("c", "1".into(), HOUR).await;
    assert_eq!(wrong.get("c").await, None);
    drop(redis);
    assert_eq!(store.get("c").await, None);
    let _redis = Real::start(address).ready().await;
    let begun = Instant::now();
    while store.get("d").await.is_none() {
        assert!(begun.elapsed() < PATIENCE, "it is not used again");
        store.put("d", "1".into(), HOUR).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
