//! Connections: shutting down, clients that leave, backends that close, many at once.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{net::TcpStream, task::JoinSet};

use crate::harness::{Answer, Proxy, Reply, Upstream, chat, paris, proxy_before, question, question_with};

/// How soon the backend learns that nobody listens any more.
const CANCELLED_WITHIN: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_shutdown_finishes_what_runs_and_accepts_nothing_more() {
    for request in [chat(), question(), question_with(json!({"stream": true}))] {
        let (mut proxy, upstream) = proxy_before([paris().after(Duration::from_millis(200))]).await;
        let client = proxy.client.clone();
        let mut asking = JoinSet::new();
        asking.spawn(async move { client.send("POST", "/v1/chat/completions", &[], request.to_string()).await });
        upstream.arrived(1).await;
        proxy.begin_stop();
        let answer: Answer = asking.join_next().await.unwrap().unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(proxy.stopped().await, 0, "nothing was cut");
        assert!(TcpStream::connect(proxy.address).await.is_err(), "the port is closed");
    }
}

#[tokio::test]
async fn a_shutdown_lets_a_stream_run_to_its_end() {
    let reply = Reply::events(&["1", "2", "3", "4", "5"]).dripping(Duration::from_millis(40));
    let expected = reply.bytes();
    let (mut proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.ask_slowly(&json!({"messages": [], "stream": true})).await;
    proxy.begin_stop();
    assert_eq!(answer.whole().await.unwrap().body, expected);
    assert_eq!(proxy.stopped().await, 0);
}

#[tokio::test]
async fn a_shutdown_refuses_new_connections_while_it_waits() {
    let (mut proxy, upstream) = proxy_before([paris().after(Duration::from_millis(300))]).await;
    let running = proxy.client.clone();
    let mut asking = JoinSet::new();
    asking.spawn(async move { running.send("POST", "/v1/chat/completions", &[], question().to_string()).await });
    upstream.arrived(1).await;
    proxy.begin_stop();
    let refused = async { while TcpStream::connect(proxy.address).await.is_ok() {} };
    tokio::time::timeout(Duration::from_millis(150), refused).await.expect("connections are still accepted");
    assert_eq!(asking.join_next().await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_a_shutdown() {
    let (mut proxy, _upstream) = proxy_before([paris()]).await;
    proxy.ask(&question()).await;
    let _never_used = TcpStream::connect(proxy.address).await.unwrap();
    let begun = Instant::now();
    proxy.begin_stop();
    assert_eq!(proxy.stopped().await, 0);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_shutdown_waits_no_longer_than_its_grace() {
    let upstream = Upstream::saying([paris().after(Duration::from_secs(60))]).await;
    let mut proxy = Proxy::start_with(&upstream, |config| config.server.shutdown_grace = Duration::from_millis(100)).await;
    let client = proxy.client.clone();
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.open("POST", "/v1/chat/completions", &[], question().to_string()).await });
    upstream.arrived(1).await;
    proxy.begin_stop();
    assert_eq!(proxy.stopped().await, 1, "one connection was cut");
}

/// Leaves as soon as the backend has begun, and checks that it learns so.
async fn leaves(request: &serde_json::Value, reply: Reply) {
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut asking = JoinSet::new();
    let (client, body) = (crate::harness::Client::new(proxy.address), request.to_string());
    asking.spawn(async move {
        let answer = client.open("POST", "/v1/chat/completions", &[], body).await;
        std::future::pending::<()>().await;
        drop(answer);
    });
    upstream.arrived(1).await;
    // The reply is under way, as far as it goes.
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(upstream.cancellations(), 0);
    let left = Instant::now();
    asking.shutdown().await;
    let cancelled = upstream.cancelled().await;
    assert!(cancelled - left < CANCELLED_WITHIN, "{:?}: {request}", cancelled - left);
    assert_eq!(upstream.calls(), 1);
    upstream.deserted().await;
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_backend() {
    let mut streamed = chat();
    streamed["stream"] = json!(true);
    for request in [chat(), streamed, question(), question_with(json!({"stream": true}))] {
        leaves(&request, paris().after(Duration::from_secs(60))).await;
        leaves(&request, paris().stalling_after(2)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_during_a_correction_stops_the_backend() {
    let (proxy, upstream) = proxy_before([Reply::text("words"), paris().stalling_after(1)]).await;
    let mut asking = JoinSet::new();
    let client = crate::harness::Client::new(proxy.address);
    asking.spawn(async move { client.open("POST", "/v1/chat/completions", &[], question().to_string()).await.is_ok() });
    upstream.arrived(2).await;
    let left = Instant::now();
    asking.shutdown().await;
    assert!(upstream.cancelled().await - left < CANCELLED_WITHIN);
    assert_eq!(upstream.calls(), 2, "nothing more is asked");
}

#[tokio::test]
async fn an_upload_that_is_broken_off_never_looks_whole() {
    for (framing, part) in [("transfer-encoding: chunked", "4\r\nhalf\r\n"), ("content-length: 2000000", "half")] {
        let (proxy, upstream) = proxy_before([Reply::json(200, "{}")]).await;
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.writable().await.unwrap();
        let request = format!("POST /v1/files HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n{part}");
        assert_eq!(stream.try_write(request.as_bytes()).unwrap(), request.len());
        upstream.received(4).await;
        drop(stream);
        upstream.cancelled().await;
        assert_eq!(upstream.calls(), 0, "{framing}");
    }
}

#[tokio::test]
async fn corrections_use_the_same_connection() {
    let (proxy, upstream) = proxy_before([Reply::text("no"), Reply::call("add", "{}"), Reply::text("no"), paris()]).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "4"));
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn connections_to_the_backend_are_kept() {
    let check = async |request: serde_json::Value, reply: Reply| {
        let (proxy, upstream) = proxy_before([reply]).await;
        for _ in 0..20 {
            assert_eq!(proxy.ask(&request).await.status, 200);
        }
        assert!(upstream.connections() <= 2, "{} connections for 20 requests: {request}", upstream.connections());
    };
    check(chat(), Reply::json(200, "{}")).await;
    check(chat(), Reply::text("hi")).await;
    check(question(), paris()).await;
    check(question(), paris().dripping(Duration::from_millis(1))).await;
    check(question_with(json!({"stream": true})), paris()).await;
}

#[tokio::test]
async fn a_refused_request_does_not_cost_the_connection() {
    let (proxy, upstream) = proxy_before([Reply::error(429, "later")]).await;
    for _ in 0..10 {
        assert_eq!(proxy.ask(&question()).await.status, 429);
        assert_eq!(proxy.ask(&chat()).await.status, 429);
    }
    assert!(upstream.connections() <= 2, "{} connections", upstream.connections());
}

#[tokio::test]
async fn a_kept_connection_that_the_backend_closes_is_replaced() {
    for request in [chat(), question()] {
        let upstream = Upstream::closing_kept_connections(paris()).await;
        let proxy = Proxy::start(&upstream).await;
        for _ in 0..5 {
            assert_eq!(proxy.ask(&request).await.status, 200);
        }
        assert_eq!(proxy.get("/v1/files").await.status, 200);
        assert_eq!(upstream.calls(), 6, "nothing is said twice");
    }
}

#[tokio::test]
async fn a_connection_that_the_backend_closed_while_idle_is_replaced() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // One short answer a connection, as if it would be kept.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
        }
    });
    let proxy = Proxy::start_at(&format!("http://{address}"), |_| {}).await;
    for _ in 0..20 {
        assert_eq!(proxy.ask(&chat()).await.status, 200);
    }
}

#[tokio::test]
async fn many_clients_at_once_get_each_their_own_answer() {
    let (proxy, upstream) = proxy_before([paris().dripping(Duration::from_millis(2))]).await;
    let mut asking = JoinSet::new();
    for number in 0..64_u32 {
        let client = crate::harness::Client::new(proxy.address);
        asking.spawn(async move {
            let id = format!("client-{number}");
            let request = question_with(json!({"stream": number % 2 == 0, "user": id}));
            let answer = client.send("POST", "/v1/chat/completions", &[("x-request-id", &id)], request.to_string()).await;
            assert_eq!((answer.status, answer.header("x-request-id")), (200, id.as_str()));
        });
    }
    while let Some(outcome) = asking.join_next().await {
        outcome.unwrap();
    }
    assert_eq!(upstream.calls(), 64);
}

#[tokio::test]
async fn no_more_connections_are_served_than_configured() {
    let upstream = Upstream::saying([paris().after(Duration::from_millis(150))]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.server.connections_max = 2).await;
    let mut asking = JoinSet::new();
    for _ in 0..3 {
        let client = crate::harness::Client::new(proxy.address);
        asking.spawn(
            async move { client.send("POST", "/chat/completions", &[("connection", "close")], question().to_string()).await.status },
        );
    }
    upstream.arrived(2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(upstream.calls(), 2, "the third waits");
    assert_eq!(asking.join_all().await, [200, 200, 200]);
}
