//! OpenAI's chat completions as llama-server writes them: one JSON object, or server-sent events
//! that end in `[DONE]`.

use std::{sync::Arc, time::Duration};

use hyper::{
    Response, StatusCode,
    header::{HeaderValue, RETRY_AFTER},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Body, JSON, Step, Turn,
    script::{self, Call, Message, Reply},
};

pub(super) async fn answer(request: &Value, turn: Arc<Turn>) -> Response<Body> {
    let (reply, pause) = script::reply(request);
    let envelope = Envelope::new(request["model"].as_str().unwrap_or("mock"), turn.hit);
    if request["stream"] == true {
        let with_usage = request["stream_options"]["include_usage"] == true;
        return match reply {
            Reply::Message(message) => super::stream(EVENTS, envelope.events(&message, pause, with_usage), Some(turn)),
            Reply::Status { code, body } => failure(code, &body),
            Reply::Cut => super::stream(EVENTS, envelope.half(), Some(turn)),
        };
    }
    let message = match reply {
        Reply::Message(message) => message,
        Reply::Status { code, body } => return failure(code, &body),
        Reply::Cut => Message { content: Some(Vec::new()), ..Message::default() },
    };
    let generation = pause * u32::try_from(message.pieces()).unwrap_or(u32::MAX);
    if !generation.is_zero() {
        sleep(generation).await;
    }
    super::json(&envelope.completion(&message))
}

/// What is the same in every object of one answer.
struct Envelope {
    id: String,
    model: String,
    /// The end of every event. It is rendered once, because a benchmark of streams would otherwise
    /// measure the mock's JSON.
    chunk_tail: String,
}

impl Envelope {
    fn new(model: &str, hit: u64) -> Self {
        let id = format!("chatcmpl-{hit}");
        let tail = json!({
            "created": 1,
            "id": id,
            "model": model,
            "object": "chat.completion.chunk",
            "system_fingerprint": "mock",
        });
        // Without its opening brace it continues an object.
        let chunk_tail = tail.to_string().split_off(1);
        Self { id, model: model.to_owned(), chunk_tail }
    }

    fn completion(&self, message: &Message) -> Value {
        json!({
            "choices": [{
                "finish_reason": message.finish_reason(),
                "index": 0,
                "message": whole_message(message),
            }],
            "created": 1,
            "id": self.id,
            "model": self.model,
            "object": "chat.completion",
            "usage": usage(),
        })
    }

    fn events(&self, message: &Message, pause: Duration, with_usage: bool) -> Vec<Step> {
        let mut steps = vec![self.role()];
        let texts = [("reasoning_content", &message.reasoning), ("content", &message.content)];
        for (key, pieces) in texts {
            for piece in pieces.iter().flatten() {
                steps.push(Step::after(pause, self.chunk(&json!({key: piece}), None)));
            }
        }
        for (index, call) in message.calls.iter().enumerate() {
            let mut head = whole_call(index, call, "");
            head["index"] = json!(index);
            steps.push(Step::now(self.chunk(&json!({"tool_calls": [head]}), None)));
            for piece in &call.arguments {
                let delta = json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]});
                steps.push(Step::after(pause, self.chunk(&delta, None)));
            }
        }
        steps.push(Step::now(self.chunk(&json!({}), Some(message.finish_reason()))));
        if with_usage {
            steps.push(Step::now(self.usage_chunk()));
        }
        steps.push(Step::now("data: [DONE]\n\n"));
        steps
    }

    /// An answer that ends in the middle of its first sentence.
    fn half(&self) -> Vec<Step> {
        let half = self.chunk(&json!({"content": "half"}), None);
        vec![self.role(), Step::now(half), Step::cut()]
    }

    fn role(&self) -> Step {
        Step::now(self.chunk(&json!({"role": "assistant", "content": null}), None))
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> String {
        let finish_reason = json!(finish_reason);
        let tail = &self.chunk_tail;
        format!("data: {{\"choices\":[{{\"delta\":{delta},\"finish_reason\":{finish_reason},\"index\":0}}],{tail}\n\n")
    }

    fn usage_chunk(&self) -> String {
        event(&json!({
            "choices": [],
            "created": 1,
            "id": self.id,
            "model": self.model,
            "object": "chat.completion.chunk",
            "usage": usage(),
        }))
    }
}

fn whole_message(message: &Message) -> Value {
    let content = message.content.as_ref().map(|pieces| pieces.concat());
    let mut whole = json!({"role": "assistant", "content": content});
    if let Some(reasoning) = &message.reasoning {
        whole["reasoning_content"] = json!(reasoning.concat());
    }
    if !message.calls.is_empty() {
        whole["tool_calls"] =
            message.calls.iter().enumerate().map(|(index, call)| whole_call(index, call, &call.arguments.concat())).collect();
    }
    whole
}

fn whole_call(index: usize, call: &Call, arguments: &str) -> Value {
    json!({
        "id": format!("c{index}"),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    })
}

fn usage() -> Value {
    json!({"completion_tokens": 10, "prompt_tokens": 20, "total_tokens": 30})
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn failure(code: u16, body: &Value) -> Response<Body> {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = super::whole(status, JSON, body.to_string());
    if matches!(code, 429 | 503) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

const EVENTS: &str = "text/event-stream";
