//! An Ollama behind the proxy, by its own API.

mod guarded;

mod models;

mod refused;

mod sent;

mod streamed;

use serde_json::{Value, json};

use crate::harness::{Proxy, Recorded, Reply, Upstream};

/// An Ollama that says `replies` to chats, one a call and the last for ever, and has one model, `tiny`; a proxy in front of it with
/// `settings` for its backend.
async fn proxy_with(replies: impl IntoIterator<Item = Reply>, settings: &str) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    upstream.at("/api/tags", Reply::json(200, &json!({"models": [{"name": "tiny", "digest": "d1"}]}).to_string()));
    upstream.at("/api/show", Reply::json(200, &shown(8192).to_string()));
    upstream.at("/api/version", Reply::json(200, r#"{"version":"0.17.4"}"#));
    let proxy = Proxy::start_before(&upstream, &format!("[backend]\nkind = \"ollama\"\n{settings}")).await;
    (proxy, upstream)
}

async fn proxy_before(replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream) {
    proxy_with(replies, "").await
}

/// What `/api/show` says of a model made for so many tokens.
fn shown(context_length: u64) -> Value {
    json!({
        "license": "none",
        "model_info": {"general.architecture": "qwen2", "qwen2.context_length": context_length, "tokenizer.ggml.tokens": null},
        "capabilities": ["completion", "tools"],
    })
}

/// The chats that were asked for.
fn chats(upstream: &Upstream) -> Vec<Recorded> {
    upstream.requests().into_iter().filter(|request| request.path == "/api/chat").collect()
}

fn bodies(upstream: &Upstream) -> Vec<Value> {
    chats(upstream).iter().map(Recorded::json).collect()
}

fn line(message: Value) -> Value {
    let mut line = json!({"model": "tiny", "created_at": "2026-09-17T15:42:59.7420965Z", "message": {"role": "assistant", "content": ""}, "done": false});
    line["message"].as_object_mut().unwrap().extend(message.as_object().unwrap().clone());
    line
}

fn last(reason: &str) -> Value {
    let mut last = line(json!({}));
    let end = json!({
        "done": true, "done_reason": reason, "total_duration": 900, "load_duration": 1, "prompt_eval_count": 10, "eval_count": 5,
    });
    last.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
    last
}

/// The model says `text`, three characters a line.
fn text(text: &str) -> Reply {
    let characters: Vec<char> = text.chars().collect();
    let mut lines: Vec<Value> = characters.chunks(3).map(|piece| line(json!({"content": piece.iter().collect::<String>()}))).collect();
    lines.push(last("stop"));
    Reply::lines(&lines)
}

/// The model makes calls, which Ollama tells as they are, without the reason that OpenAI gives.
fn calls(calls: &[(&str, Value)]) -> Reply {
    let mut lines: Vec<Value> = calls
        .iter()
        .map(|(name, arguments)| line(json!({"tool_calls": [{"function": {"index": 0, "name": name, "arguments": arguments}}]})))
        .collect();
    lines.push(last("stop"));
    Reply::lines(&lines)
}

fn paris() -> Reply {
    calls(&[("get_weather", json!({"city": "Paris"}))])
}

fn refusal(status: u16, said: &str) -> Reply {
    Reply::json(status, &json!({ "error": said }).to_string())
}
