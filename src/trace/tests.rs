use std::{path::PathBuf, time::Instant};

use serde_json::{Value, json};

use super::*;
use crate::chat::{
    CallRecord, Request, Usage,
    call::Rejected,
    cost::Cost,
    report::{Attempt, Fault},
};

/// A recorder and the file that it writes.
struct Traced {
    recorder: Recorder,
    path: PathBuf,
}

fn traced(name: &str, change: impl FnOnce(&mut Config)) -> Traced {
    let folder = std::env::temp_dir().join(format!("toolgate-trace-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let path = folder.join("traces.jsonl");
    let mut config = Config { sink: Sink::File(path.clone()), is_verbose: false, bytes_max: 1 << 20, kept_max: 1 };
    change(&mut config);
    Traced { recorder: Recorder::new(config, Box::new(|| vec![Secret::new("Bearer server-key-1")])), path }
}

impl Traced {
    fn run(&self) -> Arc<Run> {
        let request = Request {
            id: "req_1".to_owned(),
            model: "tiny".to_owned(),
            credential: Some(Secret::new("Bearer caller-key-1")),
            ..Request::default()
        };
        Arc::new(Run { clients_tools: Some(vec!["own".to_owned()]), ..Run::new(&request, "s", "") })
    }

    fn call(&self, record: &CallRecord) {
        self.recorder.call(&self.run(), record);
    }

    fn turn(&self, number: usize) -> Turn {
        self.recorder.turn(&self.run(), number)
    }

    /// The lines, once all are written. Times and latencies are left out.
    async fn lines(&self) -> Vec<Value> {
        assert!(self.recorder.close(Duration::from_secs(5)).await, "the writer does not end");
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let read = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let fields = line.as_object_mut().unwrap();
            let timestamp = fields.remove("timestamp").unwrap();
            let timestamp = timestamp.as_str().unwrap();
            assert_eq!((timestamp.len(), timestamp.get(19..20), timestamp.get(26..)), (32, Some("."), Some("+00:00")), "{timestamp}");
            assert!(chrono::DateTime::parse_from_rfc3339(timestamp).is_ok(), "{timestamp}");
            assert!(fields.remove("latency_ms").unwrap().is_u64());
            assert!(fields.values().all(|value| !value.is_null()), "nulls are left out: {line}");
            line
        };
        text.lines().map(read).collect()
    }
}

fn record() -> CallRecord {
    CallRecord {
        step: 1,
        server: "filesystem".to_owned(),
        tool: "read_file".to_owned(),
        arguments_hash: "ab".to_owned(),
        arguments: Some(json!({"path": "README.md"})),
        latency_ms: 7,
        success: true,
        executed: true,
        selection_rule: "explicit-mention",
        alternatives: vec!["github".to_owned()],
        attempt: 2,
        retries: 1,
        retry_reason: Some("timeout".to_owned()),
        ..CallRecord::default()
    }
}

#[tokio::test]
async fn a_call_is_one_line_with_every_field_that_is_known() {
    let traced = traced("call", |_| {});
    traced.call(&record());
    let expected = json!({
        "schema_version": "1", "kind": "tool_call", "request_id": "req_1", "session_id": "s", "step": 1, "server": "filesystem",
        "tool": "read_file", "arguments_hash": "ab", "success": true, "executed": true, "dry_run": false,
        "selection_rule": "explicit-mention", "alternatives": ["github"], "attempt": 2, "retries": 1, "retry_reason": "timeout",
        "corrective_retry": false,
    });
    assert_eq!(traced.lines().await, [expected]);
}

#[tokio::test]
async fn an_attempt_tells_its_tokens_and_its_fault() {
    let traced = traced("attempt", |_| {});
    let mut turn = traced.turn(2);
    turn.ask(Cost::default());
    let usage = Usage { prompt_tokens: 10, completion_tokens: 5, ..Usage::default() };
    let wrong = Attempt { fault: Some(Fault::Text), detail: Some("text".to_owned()), usage, ..Attempt::default() };
    turn.end(Some(&wrong), None, true);
    turn.ask(Cost::default());
    turn.undo();
    turn.end(None, Some("backend is gone"), false);
    let first = json!({
        "schema_version": "1", "kind": "model_attempt", "request_id": "req_1", "session_id": "s", "turn": 2, "attempt": 1, "model": "tiny", "executed": true,
        "success": false, "dry_run": false, "tokens_in": 10, "tokens_out": 5, "guardrail": "clean", "fault": "text", "forced": false,
        "error": "text",
    });
    let second = json!({
        "schema_version": "1", "kind": "model_attempt", "request_id": "req_1", "session_id": "s", "turn": 2, "attempt": 2, "model": "tiny", "executed": false,
        "success": false, "dry_run": false, "error": "backend is gone",
    });
    assert_eq!(traced.lines().await, [first, second]);
}

#[tokio::test]
async fn an_attempt_that_is_given_up_is_told_once() {
    let traced = traced("cancelled", |_| {});
    let mut turn = traced.turn(1);
    turn.ask(Cost::default());
    drop(turn);
    drop(traced.turn(1));
    let told: Vec<_> = traced.lines().await.iter().map(|line| (line["kind"].clone(), line["error"].clone())).collect();
    assert_eq!(told, [(json!("model_attempt"), json!("cancelled"))]);
}

#[tokio::test]
async fn a_wrong_call_is_a_line_unless_it_is_the_clients() {
    let traced = traced("rejected", |_| {});
    let call = |tool: &str, is_unknown| Rejected {
        tool: tool.to_owned(),
        arguments: "{\"b\":1,\"a\":2}".to_owned(),
        is_unknown,
        error: "wrong".to_owned(),
    };
    let rejected = vec![call("own", false), call("nobodys", true), call("ours", false)];
    let mut turn = traced.turn(1);
    turn.ask(Cost::default());
    turn.end(Some(&Attempt { fault: Some(Fault::UnknownTool), rejected, ..Attempt::default() }), None, true);
    let lines = traced.lines().await;
    let told: Vec<_> = lines.iter().map(|line| (line["tool"].as_str(), line["selection_rule"].as_str(), line["server"].as_str())).collect();
    assert_eq!(told, [(Some("nobodys"), Some("no-candidate"), Some("-")), (Some("ours"), None, Some("-")), (None, None, None)]);
    assert_eq!((&lines[0]["executed"], &lines[0]["corrective_retry"]), (&json!(false), &json!(true)));
    // printf '{"a":2,"b":1}' | sha256sum
    assert_eq!(lines[0]["arguments_hash"], "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772");
}

#[tokio::test]
async fn what_is_wrong_with_arguments_is_told_with_them_only() {
    let rejected =
        Rejected { tool: "read".to_owned(), arguments: "{}".to_owned(), is_unknown: false, error: "\"hunter2\" is wrong".to_owned() };
    let note =
        Attempt { fault: Some(Fault::Arguments), detail: Some("hunter2".to_owned()), rejected: vec![rejected], ..Attempt::default() };
    for (is_verbose, quoted) in [(false, 0), (true, 2)] {
        let traced = traced("quoted", |config| config.is_verbose = is_verbose);
        let mut turn = traced.turn(1);
        turn.ask(Cost::default());
        turn.end(Some(&note), None, true);
        let lines = traced.lines().await;
        assert_eq!(lines.iter().filter(|line| line["error"].as_str().unwrap().contains("hunter2")).count(), quoted, "{lines:?}");
    }
}

#[tokio::test]
async fn arguments_are_told_by_a_verbose_trace_up_to_a_length() {
    let traced = traced("verbose", |config| config.is_verbose = true);
    traced.call(&record());
    traced.call(&CallRecord { arguments: Some(json!({"text": "x".repeat(20_000)})), ..record() });
    let lines = traced.lines().await;
    assert_eq!(lines[0]["arguments"], json!({"path": "README.md"}));
    assert_eq!((lines[1].get("arguments"), &lines[1]["arguments_bytes"]), (None, &json!(20_011)));
}

#[tokio::test]
async fn no_line_holds_a_credential_or_a_text_without_an_end() {
    let traced = traced("secrets", |config| config.is_verbose = true);
    let quoting = "wrong key caller-key-1 or server-key-1".to_owned();
    traced.call(&CallRecord { error: Some(quoting.clone()), arguments: Some(json!({"key": "server-key-1"})), ..record() });
    let mut turn = traced.turn(1);
    turn.ask(Cost::default());
    turn.end(None, Some(&quoting), false);
    traced.call(&CallRecord { error: Some("ä".repeat(4000)), tool: "t".repeat(4000), ..record() });
    let lines = traced.lines().await;
    let text = std::fs::read_to_string(&traced.path).unwrap();
    assert!(!text.contains("caller-key-1") && !text.contains("server-key-1"), "{text}");
    assert_eq!(lines[0]["error"], "wrong key [secret] or [secret]");
    assert_eq!(lines[1]["error"], "wrong key [secret] or [secret]");
    assert_eq!((lines[2]["error"].as_str().unwrap().len(), lines[2]["tool"].as_str().unwrap().len()), (1024, 256));
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_costs_lines_and_nothing_else() {
    let mut place = PathBuf::new();
    let traced = traced("nowhere", |config| {
        place = std::env::temp_dir().join(format!("toolgate-no-folder-{}", std::process::id()));
        std::fs::write(&place, "a file").unwrap();
        config.sink = Sink::File(place.join("logs/traces.jsonl"));
    });
    traced.call(&record());
    traced.call(&record());
    assert!(traced.recorder.close(Duration::from_secs(5)).await);
    assert_eq!(traced.recorder.dropped(), 2);
    std::fs::remove_file(place).unwrap();
}

/// A sink that takes nothing: a pipe that nobody reads.
fn stuck(name: &str) -> Traced {
    let traced = traced(name, |_| {});
    std::fs::create_dir_all(traced.path.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&traced.path).status().unwrap().success());
    traced
}

#[tokio::test]
async fn a_sink_that_blocks_holds_nobody_up() {
    let traced = stuck("stuck");
    let begun = Instant::now();
    for _ in 0..2 * WAITING_MAX {
        traced.call(&record());
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(traced.recorder.dropped() >= u64::try_from(WAITING_MAX).unwrap() / 2, "{}", traced.recorder.dropped());
    assert!(!traced.recorder.close(Duration::from_millis(100)).await, "its end is not waited for");
    traced.call(&record());
}

#[tokio::test]
async fn what_waits_is_written_at_the_end_and_nothing_after_it() {
    let traced = traced("end", |_| {});
    for _ in 0..1000 {
        traced.call(&record());
    }
    assert_eq!(traced.lines().await.len(), 1000);
    traced.call(&record());
    assert_eq!((traced.recorder.dropped(), traced.lines().await.len()), (1, 1000));
}

#[tokio::test]
async fn without_a_sink_nothing_is_taken() {
    let traced = traced("off", |config| config.sink = Sink::Off);
    traced.call(&record());
    assert!(!traced.recorder.is_on() && traced.lines().await.is_empty() && traced.recorder.dropped() == 0);
}
