//! What the scripted backend says to one request, and how it is paced, cut up and broken off.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

/// One scripted reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    content: Content,
    pub(super) head_delay: Duration,
    pub(super) drip: Duration,
    pub(super) end: End,
    piece: Option<usize>,
}

/// What happens after the pieces that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The body ends by the book.
    Whole,
    /// After so many pieces nothing more comes.
    Stall(usize),
    /// After so many pieces the connection breaks.
    Cut(usize),
}

#[derive(Debug, Clone)]
enum Content {
    Chat(Box<Chat>),
    Pieces(Vec<Bytes>),
}

/// The parts of a streamed completion.
#[derive(Debug, Clone)]
struct Chat {
    id: String,
    reasoning: String,
    text: String,
    calls: Vec<(String, String)>,
    finish: &'static str,
    usage: [u64; 3],
    logprobs: bool,
    error: Option<Value>,
    /// How many characters a delta has; each text comes in two halves without it.
    token: Option<usize>,
}

impl Reply {
    /// The model says `text`.
    pub(crate) fn text(text: &str) -> Self {
        Self::chat(text, &[], "stop")
    }

    /// The model calls `name` with the JSON text `arguments`.
    pub(crate) fn call(name: &str, arguments: &str) -> Self {
        Self::calls(&[(name, arguments)])
    }

    /// The model makes several calls.
    pub(crate) fn calls(calls: &[(&str, &str)]) -> Self {
        Self::chat("", calls, "tool_calls")
    }

    /// The model reasons and says nothing.
    pub(crate) fn reasoning(text: &str) -> Self {
        Self::text("").thinking(text)
    }

    /// Server-sent events with these payloads; `[DONE]` is not added.
    pub(crate) fn events(payloads: &[&str]) -> Self {
        let frames = payloads.iter().map(|payload| Bytes::from(format!("data: {payload}\n\n"))).collect();
        Self::pieces(200, "text/event-stream", frames)
    }

    /// Lines of JSON, each a piece.
    pub(crate) fn lines(lines: &[Value]) -> Self {
        Self::pieces(200, "application/x-ndjson", lines.iter().map(|line| Bytes::from(format!("{line}\n"))).collect())
    }

    /// Server-sent events, each a piece as it stands.
    pub(super) fn streaming(frames: Vec<Bytes>) -> Self {
        Self::pieces(200, "text/event-stream", frames)
    }

    /// A JSON body.
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::body(status, "application/json", body)
    }

    /// Any body.
    pub(crate) fn body(status: u16, kind: &str, body: &str) -> Self {
        Self::pieces(status, kind, vec![Bytes::copy_from_slice(body.as_bytes())])
    }

    /// OpenAI's error object.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Self::json(status, &json!({"error": {"message": message, "type": "some_error", "param": null, "code": null}}).to_string())
    }

    fn chat(text: &str, calls: &[(&str, &str)], finish: &'static str) -> Self {
        let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect();
        let chat = Chat {
            id: "chatcmpl-up".to_owned(),
            reasoning: String::new(),
            text: text.to_owned(),
            calls,
            finish,
            usage: [10, 5, 4],
            logprobs: false,
            error: None,
            token: None,
        };
        Self { content: Content::Chat(Box::new(chat)), ..Self::pieces(200, "text/event-stream", Vec::new()) }
    }

    fn pieces(status: u16, kind: &str, pieces: Vec<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            content: Content::Pieces(pieces),
            head_delay: Duration::ZERO,
            drip: Duration::ZERO,
            end: End::Whole,
            piece: None,
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Text before the calls.
    pub(crate) fn saying(self, text: &str) -> Self {
        self.edit(|chat| text.clone_into(&mut chat.text))
    }

    pub(crate) fn thinking(self, text: &str) -> Self {
        self.edit(|chat| text.clone_into(&mut chat.reasoning))
    }

    /// The finish reason.
    pub(crate) fn finishing(self, reason: &'static str) -> Self {
        self.edit(|chat| chat.finish = reason)
    }

    /// Prompt, completion and cached tokens.
    pub(crate) fn costing(self, usage: [u64; 3]) -> Self {
        self.edit(|chat| chat.usage = usage)
    }

    pub(crate) fn with_id(self, id: &str) -> Self {
        self.edit(|chat| id.clone_into(&mut chat.id))
    }

    pub(crate) fn with_logprobs(self) -> Self {
        self.edit(|chat| chat.logprobs = true)
    }

    /// An error event in place of the end.
    pub(crate) fn failing_with(self, error: Value) -> Self {
        self.edit(|chat| chat.error = Some(error))
    }

    /// A wait before the head.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.head_delay = delay;
        self
    }

    /// A wait before each piece.
    pub(crate) fn dripping(mut self, pause: Duration) -> Self {
        self.drip = pause;
        self
    }

    pub(crate) fn stalling_after(mut self, pieces: usize) -> Self {
        self.end = End::Stall(pieces);
        self
    }

    pub(crate) fn cut_after(mut self, pieces: usize) -> Self {
        self.end = End::Cut(pieces);
        self
    }

    /// The body cut every `bytes` bytes, wherever that falls.
    pub(crate) fn in_pieces_of(mut self, bytes: usize) -> Self {
        self.piece = Some(bytes);
        self
    }

    /// Each text in deltas of so many characters.
    pub(crate) fn in_tokens_of(self, characters: usize) -> Self {
        self.edit(|chat| chat.token = Some(characters))
    }

    /// The whole body.
    pub(crate) fn bytes(&self) -> Bytes {
        self.frames().concat().into()
    }

    /// The body as it is sent.
    pub(super) fn frames(&self) -> Vec<Bytes> {
        let frames = match &self.content {
            Content::Chat(chat) => chat.frames(),
            Content::Pieces(pieces) => pieces.clone(),
        };
        match self.piece {
            None => frames,
            Some(size) => frames.concat().chunks(size).map(Bytes::copy_from_slice).collect(),
        }
    }

    fn edit(mut self, change: impl FnOnce(&mut Chat)) -> Self {
        let Content::Chat(chat) = &mut self.content else { panic!("this reply is no completion") };
        change(chat);
        self
    }
}

impl Chat {
    /// The events of llama-server: the role, what is said in pieces, the finish reason, usage, `[DONE]`.
    fn frames(&self) -> Vec<Bytes> {
        let mut frames = vec![self.delta(json!({"role": "assistant", "content": null}))];
        frames.extend(self.tokens(&self.reasoning).map(|half| self.delta(json!({"reasoning_content": half}))));
        frames.extend(self.tokens(&self.text).map(|half| self.delta(json!({"content": half}))));
        for (index, (name, arguments)) in self.calls.iter().enumerate() {
            let id = format!("call_{}", index + 1);
            let first = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            frames.push(self.delta(json!({"tool_calls": [first]})));
            let piece = |half: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": half}}]});
            frames.extend(self.tokens(arguments).map(|half| self.delta(piece(half))));
        }
        if let Some(error) = &self.error {
            frames.push(event(&json!({"error": error})));
            return frames;
        }
        frames.push(self.chunk(json!([{"index": 0, "delta": {}, "finish_reason": self.finish}])));
        frames.push(self.usage());
        frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
        frames
    }

    fn tokens<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
        let characters = text.chars().count();
        let size = self.token.unwrap_or(characters.div_ceil(2)).max(1);
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(size).chain([text.len()]).collect();
        (1..starts.len()).map(move |next| &text[starts[next - 1]..starts[next]])
    }

    fn delta(&self, delta: Value) -> Bytes {
        let content = delta.get("content").and_then(Value::as_str);
        let logprobs = match content.filter(|_| self.logprobs) {
            Some(token) => json!({"content": [{"token": token, "logprob": -0.25, "bytes": null, "top_logprobs": []}]}),
            None => Value::Null,
        };
        self.chunk(json!([{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": null}]))
    }

    fn usage(&self) -> Bytes {
        let [prompt, completion, cached] = self.usage;
        let mut chunk = self.head(json!([]));
        chunk["usage"] = json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        });
        event(&chunk)
    }

    fn chunk(&self, choices: Value) -> Bytes {
        event(&self.head(choices))
    }

    fn head(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "tiny-upstream",
            "system_fingerprint": "b11434-test",
            "choices": choices,
        })
    }
}

fn event(payload: &Value) -> Bytes {
    Bytes::from(format!("data: {payload}\n\n"))
}
