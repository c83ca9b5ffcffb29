//! The trace: a line for each attempt of a model and for each tool call, whatever became of it.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolgate::{config::Config, tools::config::Server, trace::Sink};

use crate::harness::{Client, PATIENCE, Proxy, Reply, Upstream, chat, mcp, paris, question, question_with};

/// A file for the trace of one test, not there yet.
fn file(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("toolgate-traced-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder.join("logs/traces.jsonl")
}

/// A proxy before a backend that says `replies`, with a server that reads files, and where it traces.
async fn traced(name: &str, replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream, PathBuf) {
    traced_with(name, replies, |_| {}).await
}

async fn traced_with(name: &str, replies: impl IntoIterator<Item = Reply>, change: impl FnOnce(&mut Config)) -> (Proxy, Upstream, PathBuf) {
    let (upstream, path) = (Upstream::saying(replies).await, file(name));
    let with_servers = mcp::with_servers([filesystem()]);
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers(config);
        config.trace.sink = Sink::File(path.clone());
        change(config);
    });
    (proxy.await, upstream, path)
}

fn filesystem() -> Server {
    mcp::server("filesystem", json!([mcp::tool("read_file", "path")]))
}

fn read() -> Reply {
    Reply::call("read_file", r#"{"path":"README.md"}"#)
}

fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

/// The first `count` lines, once there are so many.
async fn lines(path: &PathBuf, count: usize) -> Vec<Value> {
    let reading = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.lines().count() >= count {
                return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{:?}", std::fs::read_to_string(path)))
}

/// The value of `key` in each line, null where a line has none.
fn each(lines: &[Value], key: &str) -> Vec<Value> {
    lines.iter().map(|line| line[key].clone()).collect()
}

#[tokio::test]
async fn a_run_is_told_attempt_by_attempt_and_call_by_call() {
    let (proxy, _upstream, path) = traced("run", [read().costing([100, 20, 0]), done().costing([130, 7, 0])]).await;
    let answer = proxy.ask_with(&chat(), &[("x-session-id", "s-1"), ("x-request-id", "r-1")]).await;
    let lines = lines(&path, 3).await;
    assert_eq!(each(&lines, "kind"), ["model_attempt", "tool_call", "model_attempt"]);
    assert_eq!(each(&lines, "request_id"), ["r-1"; 3]);
    assert_eq!(each(&lines, "session_id"), ["s-1"; 3]);
    assert_eq!(each(&lines, "turn"), [json!(1), Value::Null, json!(2)]);
    assert_eq!(each(&lines, "attempt"), [1, 1, 1]);
    assert_eq!(each(&lines, "success"), [true; 3]);
    // What the answer says that it cost is what the attempts cost; the calls cost nothing.
    assert_eq!(each(&lines, "tokens_in"), [json!(100), Value::Null, json!(130)]);
    assert_eq!(each(&lines, "tokens_out"), [json!(20), Value::Null, json!(7)]);
    assert_eq!(answer.json()["usage"]["total_tokens"], 100 + 20 + 130 + 7);
    let call = &lines[1];
    assert_eq!((&call["server"], &call["tool"], &call["step"]), (&json!("filesystem"), &json!("read_file"), &json!(1)));
    assert_eq!((&call["executed"], &call["dry_run"], &call["selection_rule"]), (&json!(true), &json!(false), &json!("single-candidate")));
    // printf '{"path":"README.md"}' | sha256sum
    assert_eq!(call["arguments_hash"], "7d6441497d2a000b8143602a7817c90abe7db88e139f89c062a1c36cfe0ad9d6");
    assert!(call.get("arguments").is_none());
}

#[tokio::test]
async fn a_rehearsal_is_told_as_one() {
    let (proxy, _upstream, path) = traced("rehearsal", [read(), done()]).await;
    proxy.ask_with(&chat(), &[("x-toolgate-dry-run", "1")]).await;
    let lines = lines(&path, 3).await;
    assert_eq!(each(&lines, "dry_run"), [true; 3]);
    assert_eq!((&lines[1]["executed"], &lines[1]["success"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn a_call_that_was_wrong_is_a_line_of_its_own() {
    let replies = [Reply::call("delete_file", "{}"), Reply::call("read_file", r#"{"file":1}"#), done()];
    let (proxy, _upstream, path) = traced("wrong", replies).await;
    proxy.ask(&chat()).await;
    let lines = lines(&path, 5).await;
    assert_eq!(each(&lines, "kind"), ["tool_call", "model_attempt", "tool_call", "model_attempt", "model_attempt"]);
    let unknown = &lines[0];
    assert_eq!((&unknown["tool"], &unknown["server"]), (&json!("delete_file"), &json!("-")));
    assert_eq!((&unknown["selection_rule"], &unknown["executed"]), (&json!("no-candidate"), &json!(false)));
    assert_eq!((&unknown["corrective_retry"], &unknown["success"]), (&json!(true), &json!(false)));
    assert_eq!((&lines[2]["tool"], &lines[2]["executed"]), (&json!("read_file"), &json!(false)));
    assert_eq!([&lines[1]["fault"], &lines[3]["fault"], &lines[4]["fault"]], [&json!("unknown_tool"), &json!("arguments"), &Value::Null]);
    assert_eq!(each(&lines, "attempt"), [0, 1, 0, 2, 3]);
}

#[tokio::test]
async fn the_attempt_that_fails_a_run_is_told_too() {
    let (proxy, _upstream, path) = traced("failed", [read(), Reply::error(500, "out of memory")]).await;
    let answer = proxy.ask_with(&chat(), &[("authorization", "Bearer caller-key-1")]).await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    let lines = lines(&path, 3).await;
    assert_eq!(each(&lines, "success"), [true, true, false]);
    assert_eq!((&lines[2]["turn"], lines[2].get("tokens_in")), (&json!(2), None));
    assert!(lines[2]["error"].as_str().unwrap().contains("out of memory"), "{}", lines[2]);
}

#[tokio::test]
async fn no_line_holds_the_callers_key() {
    let (proxy, _upstream, path) = traced("key", [Reply::error(401, "wrong key caller-key-1")]).await;
    proxy.ask_with(&chat(), &[("authorization", "Bearer caller-key-1")]).await;
    let lines = lines(&path, 1).await;
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].to_string().contains("caller-key-1"), "{}", lines[0]);
    assert!(lines[0]["error"].as_str().unwrap().contains("[secret]"), "{}", lines[0]);
}

#[tokio::test]
async fn a_client_that_leaves_leaves_a_line() {
    let (proxy, upstream, path) = traced("left", [paris().after(Duration::from_secs(60))]).await;
    let client = proxy.client.clone();
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.open("POST", "/v1/chat/completions", &[], question().to_string()).await });
    upstream.arrived(1).await;
    drop(asking);
    upstream.cancelled().await;
    assert_eq!(each(&lines(&path, 1).await, "error"), ["cancelled"]);
}

#[tokio::test]
async fn guarded_requests_without_tools_of_ours_are_traced_and_passed_ones_are_not() {
    let without_servers = |config: &mut Config| config.tools.servers.clear();
    let wrong = Reply::call("get_weather", r#"{"town":"Paris"}"#);
    let (proxy, upstream, path) = traced_with("plain", [wrong, paris(), Reply::text("Hello."), paris()], without_servers).await;
    proxy.ask(&question()).await;
    // The client's own tools are its own business: their wrong calls are faults of the attempts and no lines.
    assert_eq!(each(&lines(&path, 2).await, "fault"), [json!("arguments"), Value::Null]);
    proxy.ask(&chat()).await;
    proxy.ask(&question_with(json!({"stream": true}))).await;
    assert_eq!(upstream.calls(), 4);
    let lines = lines(&path, 3).await;
    assert_eq!(each(&lines, "kind"), ["model_attempt"; 3]);
    assert_eq!(each(&lines, "turn"), [1, 1, 1]);
}

#[tokio::test]
async fn the_end_of_the_process_is_the_end_of_the_trace() {
    let upstream = Upstream::saying([paris()]).await;
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(["serve", "--listen", &address.to_string(), "--backend-url", &format!("http://{}", upstream.address)])
        .env("TOOLGATE_TRACE_SINK", "-")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let client = Client::new(address);
    let listening = async { while tokio::net::TcpStream::connect(address).await.is_err() {} };
    tokio::time::timeout(PATIENCE, listening).await.expect("it does not listen");
    let answer = client.send("POST", "/v1/chat/completions", &[], question().to_string()).await;
    assert!(std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await.unwrap().unwrap();
    let lines: Vec<Value> = String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.status.code(), lines.len()), (Some(0), 1), "{lines:?}");
    assert_eq!(lines[0]["request_id"], answer.header("x-request-id"));
}
