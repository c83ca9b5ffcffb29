//! What there is nothing to guard in travels untouched, both ways and as it comes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use crate::harness::{Client, Proxy, Reply, Upstream, chat, proxy_before, question_with, weather};

/// Odd spacing, a number that no float holds, keys out of order and one twice, an escape that need not be one.
const ODD: &str =
    "{ \"z\":18446744073709551617 ,\r\n\t\"messages\" : [ ],\"a\":1e2, \"z\":1.0,\"model\":\"t\\u0069ny\", \"n\":1, \"tools\":[ ] }\n";

#[tokio::test]
async fn a_request_without_tools_is_forwarded_with_its_exact_bytes() {
    let (proxy, upstream) = proxy_before([Reply::json(200, "{}")]).await;
    proxy.post("/v1/chat/completions", ODD).await;
    assert_eq!(upstream.only_request().text(), ODD);
}

#[tokio::test]
async fn an_answer_to_it_comes_back_with_its_exact_bytes() {
    let body = "{ \"id\":1e3,\"x\": [18446744073709551617] , \"x\":\"\\u00e9\"}";
    let (proxy, _upstream) = proxy_before([Reply::json(200, body)]).await;
    let answer = proxy.ask(&chat()).await;
    assert_eq!((answer.status, answer.text()), (200, body));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn a_stream_comes_back_with_its_exact_bytes_however_it_is_cut() {
    let reply = Reply::text("Grüße, 世界").thinking("hm").in_pieces_of(7);
    let expected = reply.bytes();
    let (proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&json!({"messages": [], "stream": true})).await;
    assert_eq!(answer.body, expected);
    assert_eq!(answer.header("content-type"), "text/event-stream");
}

#[tokio::test]
async fn a_stream_is_not_held_back() {
    let reply = Reply::events(&["1", "2", "3"]).stalling_after(2);
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut answer = proxy.ask_slowly(&json!({"messages": [], "stream": true})).await;
    let mut seen = Vec::new();
    while seen.len() < "data: 1\n\ndata: 2\n\n".len() {
        seen.extend_from_slice(&answer.next().await.unwrap().0);
    }
    assert_eq!(seen, b"data: 1\n\ndata: 2\n\n");
    assert_eq!(upstream.cancellations(), 0, "the backend is still at it");
}

#[tokio::test]
async fn each_event_of_a_stream_is_passed_on_at_once() {
    let pause = Duration::from_millis(60);
    let (proxy, _upstream) = proxy_before([Reply::events(&["1", "2", "3", "4"]).dripping(pause)]).await;
    let mut answer = proxy.ask_slowly(&json!({"messages": [], "stream": true})).await;
    let mut times: Vec<Instant> = Vec::new();
    while let Some((_, at)) = answer.next().await {
        times.push(at);
    }
    assert_eq!(times.len(), 4, "as many pieces as the backend sent");
    assert!(times[3] - times[0] > pause * 2, "{times:?}");
}

#[tokio::test]
async fn query_strings_are_kept() {
    let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
    proxy.post("/v1/chat/completions?a=1&b=%20x", chat().to_string()).await;
    proxy.post("/chat/completions?", chat().to_string()).await;
    proxy.post("/v1/chat/completions?api-version=2", question_with(json!({"tool_choice": "none"})).to_string()).await;
    proxy.get("/v1/x?x=y").await;
    proxy.get("/v1/files/f-1?x=%2F").await;
    let paths: Vec<_> = upstream.requests().into_iter().map(|request| request.path).collect();
    let expected = [
        "/v1/chat/completions?a=1&b=%20x",
        "/v1/chat/completions?",
        "/v1/chat/completions?api-version=2",
        "/v1/x?x=y",
        "/v1/files/f-1?x=%2F",
    ];
    assert_eq!(paths, expected);
}

#[tokio::test]
async fn paths_lead_where_clients_expect_them() {
    let check = async |method: &str, path: &str, expected: &str| {
        let (proxy, upstream) = proxy_before([Reply::json(207, "[1]")]).await;
        let answer = proxy.client.send(method, path, &[], "").await;
        assert_eq!((answer.status, answer.text()), (207, if method == "HEAD" { "" } else { "[1]" }), "{method} {path}");
        let request = upstream.only_request();
        assert_eq!((request.method.as_str(), request.path.as_str()), (method, expected));
    };
    check("GET", "/props", "/props").await;
    check("GET", "/slots", "/slots").await;
    check("DELETE", "/v1/models/tiny", "/v1/models/tiny").await;
    check("DELETE", "/v1/files/f-1", "/v1/files/f-1").await;
    check("PATCH", "/v1/x//y/../z", "/v1/x//y/../z").await;
    check("OPTIONS", "/v1/embeddings", "/v1/embeddings").await;
}

#[tokio::test]
async fn both_chat_paths_reach_the_backends_one() {
    for path in ["/v1/chat/completions", "/chat/completions"] {
        let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
        assert_eq!(proxy.post(path, chat().to_string()).await.status, 200);
        assert_eq!(upstream.only_request().path, "/v1/chat/completions");
    }
}

#[tokio::test]
async fn a_backend_below_a_path_is_asked_there() {
    let upstream = Upstream::saying([Reply::text("hi")]).await;
    let proxy = Proxy::start_at(&format!("http://{}/api", upstream.address), |_| {}).await;
    proxy.ask(&chat()).await;
    proxy.get("/v1/x?x").await;
    let paths: Vec<_> = upstream.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/api/v1/chat/completions", "/api/v1/x?x"]);
}

#[tokio::test]
async fn other_paths_carry_any_body_with_its_content_type() {
    let (proxy, upstream) = proxy_before([Reply::body(200, "audio/wav", "RIFF")]).await;
    let body = Bytes::from_static(b"\x00\xff not JSON");
    let headers = [("content-type", "application/octet-stream"), ("openai-beta", "assistants=v2")];
    let answer = proxy.client.send("POST", "/v1/audio/speech", &headers, body.clone()).await;
    assert_eq!((answer.header("content-type"), answer.text()), ("audio/wav", "RIFF"));
    let request = upstream.only_request();
    assert_eq!(request.body, body);
    assert_eq!(request.headers["content-type"], "application/octet-stream");
    assert_eq!(request.headers["openai-beta"], "assistants=v2");
}

#[tokio::test]
async fn an_upload_is_passed_on_while_it_arrives() {
    let (proxy, upstream) = proxy_before([Reply::json(200, "{}")]).await;
    let head = "POST /v1/files HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let parts = vec![Bytes::from(head), Bytes::from("5\r\n01234\r\n"), Bytes::from("5\r\n56789\r\n0\r\n\r\n")];
    let raw = crate::harness::Raw::to(proxy.address);
    let mut sending = tokio::task::JoinSet::new();
    sending.spawn(async move { raw.exchange(parts, Duration::from_millis(150)).await });
    upstream.received(5).await;
    assert_eq!(upstream.calls(), 0, "the rest is still on its way");
    let answer = sending.join_next().await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(upstream.only_request().text(), "0123456789");
}

#[tokio::test]
async fn any_status_of_other_paths_comes_back_as_it_is() {
    let reply = Reply::body(404, "text/plain", "no such file").header("retry-after", "7").header("x-custom", "kept");
    let (proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.get("/v1/files/none").await;
    assert_eq!((answer.status, answer.text()), (404, "no such file"));
    assert_eq!((answer.header("retry-after"), answer.header("x-custom")), ("7", "kept"));
}

#[tokio::test]
async fn what_offers_no_function_takes_the_short_cut() {
    let check = async |request: serde_json::Value| {
        let (proxy, upstream) = proxy_before([Reply::json(200, "{\"as\":\"is\"}")]).await;
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.text()), (200, "{\"as\":\"is\"}"), "{request}");
        assert_eq!(upstream.only_request().text(), request.to_string());
    };
    check(json!({"messages": [], "tools": null})).await;
    check(json!({"messages": [], "tools": []})).await;
    check(json!({"messages": [], "tools": [{"type": "web_search"}, {"type": "custom", "custom": {"name": "x"}}]})).await;
    check(json!({"messages": [], "tools": [weather()], "n": 2})).await;
}

#[tokio::test]
async fn a_required_call_of_another_kind_of_tool_is_the_backends_business() {
    let (proxy, upstream) = proxy_before([Reply::json(200, "{}")]).await;
    let request = json!({"messages": [], "tools": [{"type": "custom", "custom": {"name": "x"}}], "tool_choice": "required"});
    let answer = proxy.ask(&request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.only_request().text(), request.to_string());
}

/// The answer, passed on by either way, of a backend that sends `headers`.
async fn with_headers(headers: &[(&str, &str)]) -> [crate::harness::Answer; 2] {
    let reply = headers.iter().fold(Reply::json(200, "{}"), |reply, (name, value)| reply.header(name, value));
    let (proxy, _upstream) = proxy_before([reply]).await;
    [proxy.ask(&chat()).await, proxy.get("/v1/files").await]
}

#[tokio::test]
async fn hop_by_hop_headers_of_the_backend_end_at_the_proxy() {
    let hop = [("keep-alive", "timeout=5"), ("proxy-authenticate", "Basic"), ("upgrade", "h2c"), ("te", "trailers"), ("trailer", "x-sum")];
    for answer in with_headers(&[&hop[..], &[("x-public", "for all"), ("set-cookie", "a=b")]].concat()).await {
        assert_eq!((answer.header("x-public"), answer.header("set-cookie")), ("for all", "a=b"));
        for (name, _) in hop {
            assert_eq!(answer.header(name), "", "{name}");
        }
    }
}

/// RFC 9110, section 7.6.1.
#[tokio::test]
async fn what_connection_names_ends_there_too() {
    for answer in with_headers(&[("connection", "x-private, keep-alive"), ("x-private", "for the next hop only")]).await {
        assert_eq!((answer.header("x-private"), answer.header("connection")), ("", ""));
    }
}

#[tokio::test]
async fn an_answer_without_a_body_is_one() {
    let (proxy, _upstream) = proxy_before([Reply::body(204, "text/plain", "")]).await;
    let answer = proxy.client.send("DELETE", "/v1/files/f-1", &[], "").await;
    assert_eq!((answer.status, answer.text()), (204, ""));
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let (proxy, _upstream) = proxy_before([Reply::text("hi")]).await;
    let client: &Client = &proxy.client;
    for (method, path) in [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/nothing"), ("GET", "/health/live")] {
        let own = client.send(method, path, &[], chat().to_string()).await;
        assert!(own.header("x-request-id").starts_with("req_"), "{path}");
        let given = client.send(method, path, &[("x-request-id", "mine-1")], chat().to_string()).await;
        assert_eq!(given.header("x-request-id"), "mine-1", "{path}");
    }
}
