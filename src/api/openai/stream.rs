//! Events as `chat.completion.chunk` frames, in the one shape that every known client folds rightly: `id`, `object`, `created` and
//! `model` in each chunk, the role in the first delta, a call's index, id, type and name once, arguments as strings, one
//! finish reason.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::encode::{About, Logprobs, WireUsage, json_bytes, merge, now};
use crate::{
    chat::{Call, Event, Meta, Problem, Report, Usage, id},
    wire::sse,
};

/// Writes the frames of one stream.
#[derive(Debug)]
pub struct Encoder {
    about: About,
    include_usage: bool,
    meta: Meta,
    calls: usize,
    /// Sent with the delta that they belong to, which comes next.
    logprobs: Vec<Box<RawValue>>,
    report: Option<Report>,
}

impl Encoder {
    /// An encoder for a client that asked for a usage chunk or not.
    pub fn new(about: About, include_usage: bool) -> Self {
        Self { about, include_usage, meta: Meta::default(), calls: 0, logprobs: Vec::new(), report: None }
    }

    /// The frames that say `event`; empty when there is nothing to say yet.
    pub fn encode(&mut self, event: Event) -> Bytes {
        let mut frames = BytesMut::new();
        match event {
            Event::Settled(report) => self.report = Some(report),
            Event::Started(meta) => {
                self.start(meta);
                self.delta(&mut frames, &json!({"role": "assistant", "content": null}));
            }
            Event::Reasoning(text) => self.delta(&mut frames, &json!({"reasoning_content": text})),
            Event::Content(text) => self.delta(&mut frames, &json!({"content": text})),
            Event::Refusal(text) => self.delta(&mut frames, &json!({"refusal": text})),
            Event::Logprobs(raw) => self.logprobs.push(raw),
            Event::CallStarted(call) => self.call(&mut frames, &call),
            Event::CallArguments { index, fragment } => self.arguments(&mut frames, index, &fragment),
            Event::Finished(reason) => {
                let explain = self.report.take().filter(|_| self.about.explain);
                self.chunk(&mut frames, &json!({}), Some(reason.as_str()), explain.as_ref());
            }
            Event::Usage(usage) => self.usage(&mut frames, usage),
        }
        frames.freeze()
    }

    /// The frame that ends a stream that failed; no `[DONE]` follows it.
    pub fn failure(&self, problem: &Problem) -> Bytes {
        let error = super::encode::error(problem, self.about.explain);
        let mut frames = BytesMut::with_capacity(error.len() + 8);
        put(&mut frames, &error);
        frames.freeze()
    }

    fn start(&mut self, meta: Meta) {
        self.meta = Meta {
            id: Some(meta.id.unwrap_or_else(|| id::mint("chatcmpl-"))),
            created: Some(meta.created.unwrap_or_else(now)),
            model: Some(meta.model.unwrap_or_else(|| self.about.model.clone())),
            system_fingerprint: meta.system_fingerprint,
        };
    }

    fn call(&mut self, frames: &mut BytesMut, call: &Call) {
        let index = self.calls;
        self.calls += 1;
        let function = json!({"name": call.name, "arguments": ""});
        let first = json!({"index": index, "id": call.id, "type": "function", "function": function});
        self.delta(frames, &json!({"tool_calls": [first]}));
        if !call.arguments.is_empty() {
            self.arguments(frames, index, &call.arguments);
        }
    }

    fn arguments(&mut self, frames: &mut BytesMut, index: usize, fragment: &str) {
        self.delta(frames, &json!({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}));
    }

    fn usage(&self, frames: &mut BytesMut, usage: Usage) {
        if self.include_usage {
            frame(frames, &self.wire(&[], Some(Some(WireUsage::from(usage))), None));
        }
    }

    fn delta(&mut self, frames: &mut BytesMut, delta: &Value) {
        self.chunk(frames, delta, None, None);
    }

    fn chunk(&mut self, frames: &mut BytesMut, delta: &Value, finish_reason: Option<&str>, explain: Option<&Report>) {
        let logprobs = std::mem::take(&mut self.logprobs);
        let choice = WireChoice { index: 0, delta, logprobs: merge(&logprobs), finish_reason };
        // By the book, every chunk of a stream that will end in a usage chunk holds `usage: null`.
        let usage = self.include_usage.then_some(None);
        frame(frames, &self.wire(&[choice], usage, explain));
    }

    fn wire<'a>(&'a self, choices: &'a [WireChoice<'a>], usage: Option<Option<WireUsage>>, toolgate: Option<&'a Report>) -> WireChunk<'a> {
        WireChunk {
            id: self.meta.id.as_deref().unwrap_or_default(),
            object: "chat.completion.chunk",
            created: self.meta.created.unwrap_or_default(),
            model: self.meta.model.as_deref().unwrap_or_default(),
            system_fingerprint: self.meta.system_fingerprint.as_deref(),
            choices,
            usage,
            toolgate,
        }
    }
}

/// A frame that says only that the stream lives.
pub fn comment() -> Bytes {
    Bytes::from_static(sse::COMMENT)
}

/// The frame that ends a stream well.
pub fn done() -> Bytes {
    Bytes::from_static(sse::DONE)
}

fn frame(frames: &mut BytesMut, chunk: &WireChunk<'_>) {
    put(frames, &json_bytes(chunk));
}

fn put(frames: &mut BytesMut, payload: &[u8]) {
    frames.put_slice(b"data: ");
    frames.put_slice(payload);
    frames.put_slice(b"\n\n");
}

#[derive(Serialize)]
struct WireChunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'a str>,
    choices: &'a [WireChoice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<WireUsage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolgate: Option<&'a Report>,
}

#[derive(Serialize)]
struct WireChoice<'a> {
    index: u32,
    delta: &'a Value,
    logprobs: Option<Logprobs<'a>>,
    finish_reason: Option<&'a str>,
}
