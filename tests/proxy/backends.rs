//! Several backends behind one proxy: who is asked, who stands in, who waits.

use std::{
    fmt::Write as _,
    net::{SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{Proxy, Reply, Upstream, chat, paris, question, question_with};

/// The ways of a request through the proxy: passed on or guarded, whole or streamed.
fn ways() -> [Value; 4] {
    let mut streamed = chat();
    streamed["stream"] = json!(true);
    [chat(), streamed, question(), question_with(json!({"stream": true}))]
}

/// A configuration of backends called `b0`, `b1`, … with `settings` in each, and a model `tiny` that all of them have.
fn in_order(addresses: &[SocketAddr], settings: &str) -> String {
    let mut file = String::new();
    for (index, address) in addresses.iter().enumerate() {
        writeln!(file, "[[backend]]\nname = \"b{index}\"\nurl = \"http://{address}\"\n{settings}").unwrap();
    }
    let names: Vec<String> = (0..addresses.len()).map(|index| format!("\"b{index}\"")).collect();
    write!(file, "[[model]]\nname = \"tiny\"\nbackends = [{}]\n", names.join(", ")).unwrap();
    file
}

async fn before(upstreams: &[&Upstream]) -> Proxy {
    let addresses: Vec<_> = upstreams.iter().map(|upstream| upstream.address).collect();
    Proxy::start_from(&in_order(&addresses, ""), |_| {}).await
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn the_next_one_answers_when_the_first_cannot_be_reached() {
    for request in ways() {
        let spare = Upstream::saying([paris()]).await;
        let proxy = Proxy::start_from(&in_order(&[nobody(), spare.address], ""), |_| {}).await;
        let answer = proxy.ask(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains("Paris"), "{}", answer.text());
        assert_eq!(spare.calls(), 1);
    }
}

#[tokio::test]
async fn the_next_one_answers_for_a_failure_but_not_for_a_mistake() {
    for (status, fails_over) in [(500, true), (502, true), (503, true), (529, true), (429, true), (404, true), (400, false), (401, false)] {
        for request in ways() {
            let first = Upstream::saying([Reply::error(status, "no")]).await;
            let spare = Upstream::saying([paris()]).await;
            let answer = before(&[&first, &spare]).await.ask(&request).await;
            let expected = if fails_over { (200, 1) } else { (status, 0) };
            assert_eq!((answer.status, spare.calls()), expected, "{status} {request}");
        }
    }
}

#[tokio::test]
async fn the_last_failure_is_told_when_nobody_is_left() {
    let first = Upstream::saying([Reply::error(503, "one")]).await;
    let second = Upstream::saying([Reply::error(500, "two")]).await;
    let answer = before(&[&first, &second]).await.ask(&question()).await;
    assert_eq!((answer.status, answer.error()["message"].as_str()), (500, Some("two")));
}

#[tokio::test]
async fn nobody_else_is_asked_once_a_reply_has_begun() {
    let first = Upstream::saying([Reply::text("It is sunny").in_tokens_of(3).cut_after(3)]).await;
    let spare = Upstream::saying([paris()]).await;
    let proxy = before(&[&first, &spare]).await;
    for request in [question(), question_with(json!({"stream": true}))] {
        let answer = proxy.ask(&request).await;
        assert!(answer.status == 502 || answer.text().contains("backend_protocol_error"), "{}", answer.text());
    }
    assert_eq!(spare.calls(), 0);
}

#[tokio::test]
async fn who_answered_is_asked_again_when_the_reply_is_corrected() {
    let first = Upstream::saying([Reply::error(503, "busy"), paris()]).await;
    let spare = Upstream::saying([Reply::text("words"), paris()]).await;
    let answer = before(&[&first, &spare]).await.ask(&question()).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    assert_eq!((first.calls(), spare.calls()), (1, 2));
}

#[tokio::test]
async fn a_backend_that_fails_is_stepped_away_from() {
    let first = Upstream::saying([Reply::error(503, "down")]).await;
    let spare = Upstream::saying([paris()]).await;
    let proxy = before(&[&first, &spare]).await;
    for _ in 0..8 {
        assert_eq!(proxy.ask(&question()).await.status, 200);
    }
    assert_eq!((first.calls(), spare.calls()), (5, 8), "five failures in a row open the breaker");
    let health = proxy.get("/health").await.json();
    assert_eq!((&health["backends"][0]["breaker"], &health["backends"][1]["breaker"]), (&json!("open"), &json!("closed")));
}

#[tokio::test]
async fn the_only_backend_is_always_asked() {
    let upstream = Upstream::saying([Reply::error(503, "down")]).await;
    let proxy = Proxy::start(&upstream).await;
    for _ in 0..8 {
        assert_eq!(proxy.ask(&question()).await.status, 503);
    }
    assert_eq!(upstream.calls(), 8);
}

#[tokio::test]
async fn one_at_a_time_in_the_order_of_arrival() {
    let upstream = Upstream::saying([paris().after(Duration::from_millis(50))]).await;
    let proxy = Proxy::start_before(&upstream, "[backend]\nmax_concurrent = 1").await;
    for request in ways() {
        let begun = Instant::now();
        let asked = upstream.calls();
        let ask = async |text: &str| {
            let mut request = request.clone();
            request["user"] = json!(text);
            proxy.ask(&request).await.status
        };
        let wait = |ms| tokio::time::sleep(Duration::from_millis(ms));
        let second = async {
            wait(10).await;
            ask("second").await
        };
        let third = async {
            wait(20).await;
            ask("third").await
        };
        let (first, second, third) = tokio::join!(ask("first"), second, third);
        assert_eq!((first, second, third), (200, 200, 200));
        assert!(begun.elapsed() >= Duration::from_millis(150), "they were served beside each other");
        let order: Vec<Value> = upstream.requests().iter().skip(asked).map(|request| request.json()["user"].clone()).collect();
        assert_eq!(order, ["first", "second", "third"]);
    }
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_again() {
    let upstream = Upstream::saying([Reply::text("Hello").stalling_after(1)]).await;
    let proxy = Proxy::start_before(&upstream, "[backend]\nmax_concurrent = 1\nmax_queue = 0").await;
    let running = proxy.ask_slowly(&question_with(json!({"stream": true}))).await;
    for request in ways() {
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (503, Some("queue_full")));
        let seconds: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&seconds));
    }
    drop(running);
}

#[tokio::test]
async fn who_leaves_makes_room() {
    for request in ways() {
        let upstream = Upstream::saying([Reply::text("Hello").stalling_after(1)]).await;
        let proxy = Proxy::start_before(&upstream, "[backend]\nmax_concurrent = 1\nmax_queue = 0").await;
        let client = proxy.client.clone();
        let body = request.to_string();
        let mut running = Box::pin(async move { client.open("POST", "/v1/chat/completions", &[], body).await.map(|_| ()) });
        let until_it_runs = async {
            upstream.arrived(1).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        tokio::select! {
            // The head of a stream comes; what is behind it does not.
            _ = &mut running => {}
            () = until_it_runs => {}
        }
        drop(running);
        upstream.deserted().await;
        let active = proxy.get("/health").await.json()["backends"][0]["active"].clone();
        assert_eq!(active, 0, "{request}");
    }
}

#[tokio::test]
async fn a_queue_elsewhere_is_shorter() {
    let first = Upstream::saying([Reply::text("Hello").stalling_after(1)]).await;
    let spare = Upstream::saying([paris()]).await;
    let file = in_order(&[first.address, spare.address], "max_concurrent = 1\nmax_queue = 0");
    let proxy = Proxy::start_from(&file, |_| {}).await;
    let running = proxy.ask_slowly(&question_with(json!({"stream": true}))).await;
    assert_eq!(proxy.ask(&question()).await.status, 200);
    assert_eq!((first.calls(), spare.calls()), (1, 1));
    drop(running);
}

#[tokio::test]
async fn a_model_has_another_name_and_sampling_at_its_backend() {
    let upstream = Upstream::saying([paris()]).await;
    let file = r#"
        [[model]]
        name = "small"
        aliases = ["gpt-4o"]
        backends = [{ backend = "llama_server", model = "qwen.gguf" }]
        sampling = { temperature = 0.5, top_k = 20 }
    "#;
    let proxy = Proxy::start_before(&upstream, file).await;
    for (number, name) in ["small", "gpt-4o"].into_iter().enumerate() {
        for (second, mut request) in ways().into_iter().enumerate() {
            request["model"] = json!(name);
            request["temperature"] = json!(0.1);
            request["top_k"] = Value::Null;
            assert_eq!(proxy.ask(&request).await.status, 200);
            let sent = upstream.requests()[number * 4 + second].json();
            assert_eq!((&sent["model"], &sent["temperature"], &sent["top_k"]), (&json!("qwen.gguf"), &json!(0.1), &json!(20)));
        }
    }
}

#[tokio::test]
async fn a_wrong_model_name_is_told_with_the_right_ones() {
    let upstream = Upstream::saying([paris()]).await;
    let proxy = before(&[&upstream, &upstream]).await;
    for mut request in ways() {
        request["model"] = json!("large");
        let answer = proxy.ask(&request).await;
        let error = answer.error();
        assert_eq!((answer.status, &error["code"], &error["param"]), (404, &json!("model_not_found"), &json!("model")));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("large") && message.contains("tiny"), "{message}");
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn each_backend_gets_its_own_key_and_no_other() {
    let first = Upstream::saying([Reply::error(503, "down")]).await;
    let second = Upstream::saying([Reply::error(503, "down")]).await;
    let third = Upstream::saying([paris()]).await;
    let addresses = [first.address, second.address, third.address];
    let file = in_order(&addresses, "");
    let file = file.replacen("name = \"b0\"", "name = \"b0\"\napi_key = \"key-of-b0\"", 1);
    let file = file.replacen("name = \"b1\"", "name = \"b1\"\napi_key = \"key-of-b1\"", 1);
    for request in ways() {
        let proxy = Proxy::start_from(&file, |_| {}).await;
        assert_eq!(proxy.ask_with(&request, &[("authorization", "Bearer key-of-caller")]).await.status, 200);
        let sent = |upstream: &Upstream| upstream.requests().last().unwrap().headers["authorization"].to_str().unwrap().to_owned();
        let keys = [&first, &second, &third].map(sent);
        assert_eq!(keys, ["Bearer key-of-b0", "Bearer key-of-b1", "Bearer key-of-caller"]);
    }
}

#[tokio::test]
async fn a_share_of_the_conversations_goes_to_each() {
    let (first, second) = (Upstream::saying([paris()]).await, Upstream::saying([paris()]).await);
    let file = in_order(&[first.address, second.address], "");
    let file = file.replace("\"b0\", \"b1\"", "{ backend = \"b0\", weight = 1 }, { backend = \"b1\", weight = 3 }");
    let proxy = Proxy::start_from(&file, |_| {}).await;
    for number in 0..80 {
        let mut request = question();
        request["messages"][0]["content"] = json!(format!("Question {}", number / 2));
        let before = first.calls();
        proxy.ask(&request).await;
        if number % 2 == 1 {
            assert!((first.calls() - before == 1) == (first.calls() % 2 == 0 && first.calls() > before), "a conversation moved");
        }
    }
    assert_eq!(first.calls() % 2, 0, "a conversation was split");
    assert!((4..=40).contains(&first.calls()) && first.calls() + second.calls() == 80, "{} of 80", first.calls());
}

#[tokio::test]
async fn each_time_out_has_a_code_of_its_own() {
    const SHORT: Duration = Duration::from_millis(60);
    for request in ways() {
        let check = async |reply: Reply, change: fn(&mut toolgate::config::Config), code: &str| {
            let upstream = Upstream::saying([reply]).await;
            let proxy = Proxy::start_with(&upstream, change).await;
            let outcome = proxy.client.open("POST", "/v1/chat/completions", &[], request.to_string()).await.unwrap().whole().await;
            // What was passed on can only be cut.
            let Ok(answer) = outcome else { return };
            assert!(answer.text().contains(code), "{code}: {} {}", answer.status, answer.text());
        };
        check(Reply::text("x").after(Duration::from_secs(1)), |config| config.upstream.first_byte_timeout = SHORT, "first_byte_timeout")
            .await;
        check(Reply::text("x").stalling_after(1), |config| config.upstream.idle_timeout = SHORT, "idle_timeout").await;
        let slow = || Reply::text("one two three four five six").in_tokens_of(1).dripping(Duration::from_millis(20));
        check(slow(), |config| config.upstream.total_timeout = SHORT, "total_timeout").await;
    }
}

#[tokio::test]
async fn a_connection_that_does_not_come_has_a_code_too() {
    // The kernel answers nobody who comes when the listener's queue is full.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || tokio::time::timeout(Duration::from_millis(50), tokio::net::TcpStream::connect(address));
    let mut queue = Vec::new();
    while let Ok(Ok(stream)) = connect().await {
        queue.push(stream);
    }
    let change = |config: &mut toolgate::config::Config| config.upstream.connect_timeout = Duration::from_millis(60);
    let proxy = Proxy::start_at(&format!("http://{address}"), change).await;
    for request in ways() {
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (504, Some("connect_timeout")));
    }
    let spare = Upstream::saying([paris()]).await;
    let proxy = Proxy::start_from(&in_order(&[address, spare.address], ""), change).await;
    assert_eq!(proxy.ask(&question()).await.status, 200);
}

#[tokio::test]
async fn nobody_waits_while_another_is_idle() {
    let first = Upstream::saying([Reply::text("Hello").stalling_after(1)]).await;
    let spare = Upstream::saying([paris()]).await;
    let proxy = Proxy::start_from(&in_order(&[first.address, spare.address], "max_concurrent = 1"), |_| {}).await;
    let running = proxy.ask_slowly(&question_with(json!({"stream": true}))).await;
    assert_eq!(proxy.ask(&question()).await.status, 200);
    assert_eq!((first.calls(), spare.calls()), (1, 1));
    drop(running);
}

#[tokio::test]
async fn a_backend_that_breaks_off_each_time_is_stepped_away_from() {
    let first = Upstream::saying([Reply::text("It is sunny").in_tokens_of(3).cut_after(3)]).await;
    let spare = Upstream::saying([paris()]).await;
    let proxy = before(&[&first, &spare]).await;
    for _ in 0..5 {
        assert_eq!(proxy.ask(&question()).await.status, 502);
    }
    assert_eq!(proxy.ask(&question()).await.status, 200);
    assert_eq!((first.calls(), spare.calls()), (5, 1));
}

#[tokio::test]
async fn other_requests_go_where_the_model_is_too() {
    let spare = Upstream::saying([Reply::json(200, "{}")]).await;
    let file =
        in_order(&[nobody(), spare.address], "") + "[[model]]\nname = \"emb\"\nbackends = [{ backend = \"b1\", model = \"nomic\" }]\n";
    let proxy = Proxy::start_from(&file, |_| {}).await;
    let embed = async |model: &str| proxy.post("/v1/embeddings", json!({"model": model, "input": "x"}).to_string()).await;
    assert_eq!(embed("emb").await.status, 200);
    assert_eq!(spare.requests()[0].json(), json!({"model": "nomic", "input": "x"}));
    // Nothing was sent to the first one.
    assert_eq!(embed("tiny").await.status, 200);
    let answer = embed("large").await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("model_not_found")));
    assert_eq!(spare.calls(), 2);
}

#[tokio::test]
async fn a_key_that_a_backend_quotes_back_is_not_shown() {
    let upstream = Upstream::saying([Reply::error(401, "wrong key sk-of-the-house")]).await;
    let proxy = Proxy::start_before(&upstream, "[backend]\napi_key = \"sk-of-the-house\"").await;
    for path in ["/v1/embeddings", "/v1/chat/completions"] {
        let answer = proxy.post(path, chat().to_string()).await;
        assert_eq!(answer.status, 401);
        assert!(!answer.text().contains("sk-of-the-house"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_model_that_loads_is_waited_for_unless_another_backend_has_it() {
    for request in ways() {
        let loading = || Reply::error(503, "Loading model");
        let alone = Upstream::saying([loading(), loading(), paris()]).await;
        let answer = Proxy::start(&alone).await.ask(&request).await;
        assert_eq!((answer.status, alone.calls()), (200, 3), "{request}");

        let (first, spare) = (Upstream::saying([loading()]).await, Upstream::saying([paris()]).await);
        let answer = before(&[&first, &spare]).await.ask(&request).await;
        assert_eq!((answer.status, first.calls(), spare.calls()), (200, 1, 1), "{request}");
    }
}
