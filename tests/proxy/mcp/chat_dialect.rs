//! `/chat` and `/chat/stream`: one message in, tools run here, one answer out.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::config::Config;

use crate::harness::{Answer, PATIENCE, Proxy, Reply, Upstream, mcp};

/// The events of a whole stream, `[name, data]` each. Comments are left out.
pub(crate) fn events(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    assert!(text.ends_with("\n\n"), "{text}");
    let event = |frame: &str| {
        let (name, data) = frame.split_once("\ndata: ").unwrap_or_else(|| panic!("no event: {frame}"));
        let data: Value = serde_json::from_str(data).unwrap();
        json!([name.strip_prefix("event: ").unwrap(), data])
    };
    text.split_terminator("\n\n").filter(|frame| !frame.starts_with(':')).map(event).collect()
}

async fn proxy(replies: impl IntoIterator<Item = Reply>, change: impl FnOnce(&mut Config)) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    let with_servers = mcp::with_servers([mcp::server("filesystem", json!([mcp::tool("read_file", "path")]))]);
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers(config);
        change(config);
    });
    (proxy.await, upstream)
}

fn read() -> Reply {
    Reply::call("read_file", r#"{"path":"README.md"}"#)
}

fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

async fn say(proxy: &Proxy, path: &str, body: Value) -> Answer {
    proxy.client.send("POST", path, &[], body.to_string()).await
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event[0].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_message_is_answered_with_what_the_tools_said() {
    let (proxy, upstream) = proxy([read().costing([100, 20, 0]), done().costing([130, 7, 0])], |_| {}).await;
    let earlier = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]);
    let body = json!({"message": "Read README.md.", "session_id": "s-1", "messages": earlier, "model": "tiny", "temperature": 0.5});
    let answer = say(&proxy, "/chat", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let expected = json!({
        "session_id": "s-1", "response": "Done.", "steps": 1, "cost_usd": null, "dry_run": false, "halted": false, "halt_reason": null,
        "usage": {"prompt_tokens": 230, "completion_tokens": 27, "total_tokens": 257},
    });
    assert_eq!(answer.json(), expected);
    assert_eq!((answer.header("content-type"), answer.header("x-toolgate-attempts")), ("application/json", "2"));
    let sent = upstream.requests()[1].json();
    let said: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect();
    assert_eq!(said[..3], [json!("Hi"), json!("Hello."), json!("Read README.md.")]);
    assert_eq!(said[4], r#"read_file {"path": "README.md"}"#);
    assert_eq!((&sent["temperature"], &sent["model"]), (&json!(0.5), &json!("tiny")));
    for ours in ["message", "session_id", "dry_run"] {
        assert!(sent.get(ours).is_none(), "{ours} is not for the model server");
    }
}

#[tokio::test]
async fn a_stream_tells_of_each_call_and_ends_in_the_same_answer() {
    let script = || [Reply::calls(&[("read_file", r#"{"path":"a"}"#), ("read_file", r#"{"path":"b"}"#)]), done()];
    let body = json!({"message": "Read both.", "session_id": "s-2"});
    let (whole, _upstream) = proxy(script(), |_| {}).await;
    let whole = say(&whole, "/chat", body.clone()).await.json();
    let (proxy, _upstream) = proxy(script(), |_| {}).await;
    let answer = say(&proxy, "/chat/stream", body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"));
    let events = events(&answer.body);
    assert_eq!(names(&events), ["session.start", "tool.result", "tool.result", "final.response"]);
    assert_eq!(events[0][1], json!({"session_id": "s-2", "dry_run": false}));
    for (at, event) in events[1..3].iter().enumerate() {
        let result = &event[1];
        assert_eq!((&result["step"], &result["tool"], &result["server"]), (&json!(at + 1), &json!("read_file"), &json!("filesystem")));
        assert_eq!((&result["schema_version"], &result["session_id"]), (&json!("1"), &json!("s-2")));
        assert_eq!((&result["success"], &result["executed"]), (&json!(true), &json!(true)));
        assert_eq!(result["request_id"], answer.header("x-request-id"));
        assert!(result.get("arguments").is_none() && result["arguments_hash"].as_str().unwrap().len() == 64, "{result}");
    }
    assert_eq!(events[3][1], whole);
    assert_eq!(whole["steps"], 2);
}

#[tokio::test]
async fn a_rehearsal_tells_its_plan() {
    for (body, headers) in
        [(json!({"message": "Read it.", "dry_run": true}), &[][..]), (json!({"message": "Read it."}), &[("x-toolgate-dry-run", "1")][..])]
    {
        let (proxy, _upstream) = proxy([read(), done()], |_| {}).await;
        let answer = proxy.client.send("POST", "/chat/stream", headers, body.to_string()).await;
        let events = events(&answer.body);
        assert_eq!(names(&events), ["session.start", "tool.result", "final.response"]);
        assert_eq!(events[0][1]["dry_run"], true);
        let plan = &events[1][1];
        assert_eq!((&plan["executed"], &plan["dry_run"], &plan["arguments"]), (&json!(false), &json!(true), &json!({"path": "README.md"})));
        assert_eq!((&events[2][1]["dry_run"], &events[2][1]["steps"]), (&json!(true), &json!(1)));
        assert_eq!(events[2][1]["session_id"], events[0][1]["session_id"]);
        assert!(events[0][1]["session_id"].as_str().unwrap().starts_with("session_"));
    }
}

#[tokio::test]
async fn a_limit_is_told_before_the_answer() {
    let (proxy, _upstream) = proxy([read(), read(), Reply::text("That is all.")], |config| config.agent.turns_max = 2).await;
    let events = events(&say(&proxy, "/chat/stream", json!({"message": "Read for ever."})).await.body);
    assert_eq!(names(&events), ["session.start", "tool.result", "tool.result", "halt", "final.response"]);
    assert_eq!(events[3][1], json!({"reason": "turns"}));
    let last = &events[4][1];
    assert_eq!((&last["halted"], &last["halt_reason"], &last["response"]), (&json!(true), &json!("turns"), &json!("That is all.")));
}

#[tokio::test]
async fn a_stream_that_fails_ends_in_an_error() {
    let (proxy, _upstream) =
        proxy([read(), Reply::error(503, "out of slots").after(Duration::from_millis(50)).header("retry-after", "3")], |config| {
            config.server.head_grace = Duration::from_millis(1);
        })
        .await;
    let answer = say(&proxy, "/chat/stream", json!({"message": "Read it."})).await;
    let events = events(&answer.body);
    assert_eq!(names(&events), ["session.start", "tool.result", "error"], "nothing follows: {}", answer.text());
    assert!(events[2][1]["message"].as_str().unwrap().contains("out of slots"), "{}", events[2]);
    assert_eq!(events[2][1]["retry_after"], "3");
}

#[tokio::test]
async fn a_request_that_is_wrong_is_refused_in_openais_form() {
    let (proxy, upstream) = proxy([done()], |_| {}).await;
    for path in ["/chat", "/chat/stream"] {
        for (body, param) in [
            (json!({"messages": []}), "message"),
            (json!({"message": "a", "tools": []}), "tools"),
            (json!({"message": "a", "stream": true}), "stream"),
        ] {
            let answer = say(&proxy, path, body).await;
            assert_eq!((answer.status, &answer.error()["param"]), (400, &json!(param)));
        }
        let answer = proxy.get(path).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
        assert_eq!(answer.error()["code"], "method_not_allowed");
    }
    assert_eq!(proxy.post("/chat/other", "{}").await.status, 404);
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn a_failure_keeps_its_status() {
    let (proxy, _upstream) = proxy([Reply::error(429, "too many").header("retry-after", "7")], |_| {}).await;
    let answer = say(&proxy, "/chat", json!({"message": "Hi"})).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "7"));
    assert!(answer.error()["message"].as_str().unwrap().contains("too many"));
}

#[tokio::test]
async fn a_stream_lives_while_nothing_is_said() {
    let (proxy, _upstream) = proxy([done().after(Duration::from_millis(300))], |config| {
        config.server.head_grace = Duration::from_millis(1);
        config.server.keep_alive = Some(Duration::from_millis(20));
    })
    .await;
    let begun = tokio::time::Instant::now();
    let mut answer = proxy.client.open("POST", "/chat/stream", &[], json!({"message": "Hi"}).to_string()).await.unwrap();
    let (first, _) = answer.next().await.unwrap();
    assert!(first.starts_with(b"event: session.start\n"), "{first:?}");
    assert!(begun.elapsed() < PATIENCE);
    let rest = answer.whole().await.unwrap();
    assert!(rest.text().matches(": toolgate\n\n").count() >= 2, "{}", rest.text());
    assert_eq!(names(&events(&rest.body)), ["final.response"]);
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_model() {
    let (proxy, upstream) = proxy([Reply::text("a b c d e f g h").dripping(Duration::from_millis(200))], |config| {
        config.server.head_grace = Duration::from_millis(1);
    })
    .await;
    let mut answer = proxy.client.open("POST", "/chat/stream", &[], json!({"message": "Hi"}).to_string()).await.unwrap();
    answer.next().await.unwrap();
    drop(answer);
    upstream.cancelled().await;
}

#[tokio::test]
async fn without_servers_it_is_a_plain_conversation() {
    let upstream = Upstream::saying([Reply::text("Hello.")]).await;
    let proxy = Proxy::start(&upstream).await;
    let answer = say(&proxy, "/chat", json!({"message": "Hi"})).await.json();
    assert_eq!((&answer["response"], &answer["steps"]), (&json!("Hello."), &json!(0)));
}
