//! Whole exchanges from files: `tests/golden/*.json` hold a request (with its `path`, where that is not the usual one), the backend's replies
//! and the tools of MCP servers by their id (`servers`), the snapshot beside them what went upstream and what came back. Adding a case is adding a file; `INSTA_UPDATE=always` writes its snapshot.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    harness::{Proxy, Recorded, Reply, Upstream, events, frames, mcp},
    mcp::chat_dialect,
    responses,
};

#[tokio::test]
async fn every_case_is_answered_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut cases: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    cases.sort();
    assert!(cases.len() >= 10, "{} cases in {}", cases.len(), folder.display());
    for path in cases {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let outcome = play(&case).await;
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(folder.join("snapshots"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_sort_maps(true);
        settings.set_description(case["about"].as_str().expect("`about` says what the case shows"));
        settings.bind(|| insta::assert_json_snapshot!(path.file_stem().unwrap().to_str().unwrap(), outcome));
    }
}

async fn play(case: &Value) -> Value {
    let upstream = Upstream::saying(case["replies"].as_array().unwrap().iter().map(reply)).await;
    let servers = case["servers"].as_object().into_iter().flatten().map(|(id, tools)| mcp::server(id, tools.clone()));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers(servers)).await;
    let headers: Vec<_> =
        case["headers"].as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    let path = case["path"].as_str().unwrap_or("/v1/chat/completions");
    let answer = proxy.client.send("POST", path, &headers, case["request"].to_string()).await;
    let body = match (answer.header("content-type"), path) {
        ("text/event-stream", "/v1/messages") => Value::from(frames(&answer.body)),
        ("text/event-stream", "/v1/responses") => Value::from(responses::events(&answer.body)),
        ("text/event-stream", "/chat/stream") => Value::from(chat_dialect::events(&answer.body)),
        ("text/event-stream", _) => Value::from(events(&answer.body)),
        _ => answer.json(),
    };
    let sent: Vec<_> = upstream.requests().iter().map(Recorded::json).collect();
    let sent = if case["servers"].is_object() { turns(&sent) } else { attempts(&sent) };
    let ours: Value = answer.headers.iter().filter(|(name, _)| is_ours(name.as_str())).map(header).collect();
    let mut outcome = json!({"upstream": sent, "answer": {"status": answer.status, "headers": ours, "body": body}});
    redact(&mut outcome, &mut Vec::new());
    outcome
}

/// The first attempt whole; of each later one what differs from the one before: messages at the end and the form that is forced, with the
/// names of the tools that it accepts; and nothing else.
fn attempts(sent: &[Value]) -> Value {
    let mut told: Vec<Value> = sent.first().cloned().into_iter().collect();
    for pair in sent.windows(2) {
        let (mut earlier, mut later) = (pair[0].clone(), pair[1].clone());
        let (before, mut after) = (earlier["messages"].take(), later["messages"].take());
        let form = later["response_format"].take();
        for forced_away in ["response_format", "tool_choice", "parallel_tool_calls"] {
            earlier.as_object_mut().unwrap().remove(forced_away);
            later.as_object_mut().unwrap().remove(forced_away);
        }
        let added = after.as_array_mut().unwrap().split_off(before.as_array().unwrap().len());
        assert_eq!((earlier, before), (later, after), "an attempt only adds messages");
        let calls = form["json_schema"]["schema"]["anyOf"].as_array();
        let names = calls.map(|calls| calls.iter().map(|call| &call["properties"]["name"]["const"]).collect::<Vec<_>>());
        told.push(json!({"messages added": added, "forced": names}));
    }
    Value::from(told)
}

/// The first request whole; of each later one the messages, since a new turn leaves out what corrected the one before.
fn turns(sent: &[Value]) -> Value {
    sent.iter().enumerate().map(|(at, sent)| if at == 0 { sent.clone() } else { json!({"messages": sent["messages"]}) }).collect()
}

/// `{"text": …}`, `{"calls": [[name, arguments], …]}` or `{"status": …, "error": …}`, with `thinking`, `saying` and `finish` beside them.
fn reply(script: &Value) -> Reply {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    if let Some(status) = script["status"].as_u64() {
        return Reply::error(u16::try_from(status).unwrap(), &text(&script["error"])).header("retry-after", "3");
    }
    let calls: Vec<_> = script["calls"].as_array().into_iter().flatten().map(|call| (text(&call[0]), text(&call[1]))).collect();
    let calls: Vec<_> = calls.iter().map(|(name, arguments)| (name.as_str(), arguments.as_str())).collect();
    let mut reply = if calls.is_empty() { Reply::text(script["text"].as_str().unwrap_or_default()) } else { Reply::calls(&calls) };
    if let Some(thinking) = script["thinking"].as_str() {
        reply = reply.thinking(thinking);
    }
    if let Some(saying) = script["saying"].as_str() {
        reply = reply.saying(saying);
    }
    if script["finish"] == "length" { reply.finishing("length") } else { reply }
}

fn is_ours(name: &str) -> bool {
    name.starts_with("x-toolgate-") || name == "x-request-id" || name == "request-id" || name == "retry-after" || name == "content-type"
}

fn header((name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)) -> (String, Value) {
    (name.to_string(), Value::from(value.to_str().unwrap()))
}

/// Replaces the time, and each minted id, which ends in 16 hexadecimal digits, by its number in order of appearance.
fn redact(value: &mut Value, seen: &mut Vec<String>) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact(element, seen)),
        Value::Object(fields) => {
            if let Some(at) = fields.get_mut("completed_at").filter(|at| at.is_number()) {
                *at = Value::from("now");
            }
            for (name, now) in [("timestamp", json!("now")), ("latency_ms", json!("some"))] {
                if let Some(at) = fields.get_mut(name) {
                    *at = now;
                }
            }
            fields.values_mut().for_each(|field| redact(field, seen));
        }
        Value::String(text) => {
            let Some((prefix, digits)) = text.rsplit_once(['_', '-']) else { return };
            if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return;
            }
            let number = seen.iter().position(|known| known == text).unwrap_or_else(|| {
                seen.push(text.clone());
                seen.len() - 1
            });
            *text = format!("{prefix}-minted-{}", number + 1);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
