//! Ollama's `/api/chat`: one JSON object a line, whole calls with object arguments, no ids.

use std::time::Duration;

use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    Body, JSON, Step,
    script::{self, Call, Message, Reply},
};

pub(super) fn answer(request: &Value) -> Response<Body> {
    let (reply, pause) = script::reply(request);
    let model = request["model"].as_str().unwrap_or("mock");
    match reply {
        Reply::Message(message) if request["stream"] == false => {
            let content = message.content.iter().flatten().map(String::as_str).collect();
            super::whole(StatusCode::OK, JSON, last_line(model, said(content, &message.calls)))
        }
        Reply::Message(message) => super::stream(LINES, lines(model, &message, pause), None),
        Reply::Status { .. } | Reply::Cut => super::whole(StatusCode::INTERNAL_SERVER_ERROR, JSON, r#"{"error":"boom"}"#),
    }
}

fn lines(model: &str, message: &Message, pause: Duration) -> Vec<Step> {
    let content = message.content.iter().flatten();
    let mut steps: Vec<Step> = content.map(|piece| Step::after(pause, line(model, said(piece.clone(), &[])))).collect();
    if !message.calls.is_empty() {
        steps.push(Step::now(line(model, said(String::new(), &message.calls))));
    }
    steps.push(Step::now(last_line(model, said(String::new(), &[]))));
    steps
}

fn said(content: String, calls: &[Call]) -> Value {
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.iter().map(function).collect();
    }
    message
}

fn function(call: &Call) -> Value {
    let arguments = call.arguments.concat();
    let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
    json!({"function": {"name": call.name, "arguments": arguments}})
}

fn line(model: &str, message: Value) -> String {
    let created_at = CREATED_AT;
    let line = json!({"model": model, "created_at": created_at, "message": message, "done": false});
    format!("{line}\n")
}

fn last_line(model: &str, message: Value) -> String {
    let line = json!({
        "model": model,
        "created_at": CREATED_AT,
        "message": message,
        "done": true,
        "done_reason": "stop",
        "prompt_eval_count": 20,
        "eval_count": 10,
        "total_duration": 1,
    });
    format!("{line}\n")
}

const LINES: &str = "application/x-ndjson";

const CREATED_AT: &str = "2026-01-01T00:00:00Z";
