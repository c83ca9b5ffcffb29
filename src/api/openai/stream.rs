//! Events as `chat.completion.chunk` frames, in the one shape that every known client folds rightly: `id`, `object`, `created` and
//! `model` in each chunk, the role in the first delta, a call's index, id, type and name once, arguments as strings, one
//! finish reason.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::value::RawValue;

use super::encode::{self, About, Logprobs, WireUsage, json_into, merge, now};
use crate::{
    api,
    chat::{Call, Event, Meta, Problem, Reply, Report, Usage, id},
    wire::sse,
};

/// Writes the frames of one stream.
#[derive(Debug)]
pub(super) struct Encoder {
    about: About,
    include_usage: bool,
    meta: Meta,
    calls: usize,
    /// Sent with the delta that they belong to, which comes next.
    logprobs: Vec<Box<RawValue>>,
    report: Option<Report>,
    /// Sent in the last chunk.
    timings: Option<Box<RawValue>>,
    /// Where frames are written. A frame that was sent gives its room back, so that a stream seldom allocates.
    room: BytesMut,
}

/// Room for a few frames.
const ROOM_BYTES: usize = 1024;

impl Encoder {
    /// An encoder for a client that asked for a usage chunk or not.
    pub(super) fn new(about: About, include_usage: bool) -> Self {
        let room = BytesMut::with_capacity(ROOM_BYTES);
        Self { about, include_usage, meta: Meta::default(), calls: 0, logprobs: Vec::new(), report: None, timings: None, room }
    }

    fn encode(&mut self, event: Event) -> Bytes {
        let mut frames = std::mem::take(&mut self.room);
        match event {
            Event::Settled(report) => self.report = Some(report),
            Event::Started(meta) => {
                self.start(meta);
                self.delta(&mut frames, &Delta::Start { role: "assistant", content: () });
            }
            Event::Reasoning(text) => self.delta(&mut frames, &Delta::Reasoning { reasoning_content: &text }),
            Event::Content(text) => self.delta(&mut frames, &Delta::Content { content: &text }),
            Event::Refusal(text) => self.delta(&mut frames, &Delta::Refusal { refusal: &text }),
            Event::Logprobs(raw) => self.logprobs.push(raw),
            Event::CallStarted(call) => self.call(&mut frames, &call),
            Event::CallArguments { index, fragment } => self.arguments(&mut frames, index, &fragment),
            Event::Finished(reason) => {
                let report = self.report.take().filter(|report| report.is_shown(self.about.explain));
                // A usage chunk comes behind this one.
                let timings = if self.include_usage { None } else { self.timings.take() };
                let beside = Beside { report: report.as_ref(), timings: timings.as_deref() };
                self.chunk(&mut frames, &Delta::Finish {}, Some(reason.as_str()), beside);
            }
            Event::Usage(usage) => self.usage(&mut frames, usage),
            Event::Timings(raw) => self.timings = Some(raw),
            Event::Progress(text) => sse::comment(&mut frames, &text),
            Event::Called(_) => {}
        }
        let written = frames.split().freeze();
        self.room = frames;
        written
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
        let function = WireFunction { name: Some(&call.name), arguments: "" };
        let first = WireCall { index, id: Some(&call.id), kind: Some("function"), function };
        self.delta(frames, &Delta::Call { tool_calls: [first] });
        if !call.arguments.is_empty() {
            self.arguments(frames, index, &call.arguments);
        }
    }

    fn arguments(&mut self, frames: &mut BytesMut, index: usize, fragment: &str) {
        let more = WireCall { index, id: None, kind: None, function: WireFunction { name: None, arguments: fragment } };
        self.delta(frames, &Delta::Call { tool_calls: [more] });
    }

    fn usage(&self, frames: &mut BytesMut, usage: Usage) {
        if self.include_usage {
            let beside = Beside { report: None, timings: self.timings.as_deref() };
            frame(frames, &self.wire(&[], Some(Some(WireUsage::from(usage))), beside));
        }
    }

    fn delta(&mut self, frames: &mut BytesMut, delta: &Delta<'_>) {
        self.chunk(frames, delta, None, Beside::default());
    }

    fn chunk(&mut self, frames: &mut BytesMut, delta: &Delta<'_>, finish_reason: Option<&str>, beside: Beside<'_>) {
        let logprobs = std::mem::take(&mut self.logprobs);
        let choice = WireChoice { index: 0, delta, logprobs: merge(&logprobs), finish_reason };
        // By the book, every chunk of a stream that will end in a usage chunk holds `usage: null`.
        let usage = self.include_usage.then_some(None);
        frame(frames, &self.wire(&[choice], usage, beside));
    }

    fn wire<'a>(&'a self, choices: &'a [WireChoice<'a>], usage: Option<Option<WireUsage>>, beside: Beside<'a>) -> WireChunk<'a> {
        WireChunk {
            id: self.meta.id.as_deref().unwrap_or_default(),
            object: "chat.completion.chunk",
            created: self.meta.created.unwrap_or_default(),
            model: self.meta.model.as_deref().unwrap_or_default(),
            system_fingerprint: self.meta.system_fingerprint.as_deref(),
            choices,
            usage,
            timings: beside.timings,
            toolgate: beside.report,
        }
    }
}

impl api::Encoder for Encoder {
    fn whole(&self, reply: &Reply) -> Bytes {
        encode::completion(reply, &self.about)
    }

    fn event(&mut self, event: Event) -> Bytes {
        self.encode(event)
    }

    fn silence(&self) -> Bytes {
        Bytes::from_static(sse::COMMENT)
    }

    fn failure(&mut self, problem: &Problem) -> Bytes {
        // No `[DONE]` follows it.
        [DATA, &encode::error(problem, self.about.explain), END].concat().into()
    }

    fn end(&mut self) -> Bytes {
        Bytes::from_static(sse::DONE)
    }
}

fn frame(frames: &mut BytesMut, chunk: &WireChunk<'_>) {
    frames.put_slice(DATA);
    json_into(frames, chunk);
    frames.put_slice(END);
}

/// What stands around the JSON of a frame.
const DATA: &[u8] = b"data: ";
const END: &[u8] = b"\n\n";

/// What a chunk holds beside OpenAI's fields.
#[derive(Clone, Copy, Default)]
struct Beside<'a> {
    report: Option<&'a Report>,
    timings: Option<&'a RawValue>,
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
    timings: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolgate: Option<&'a Report>,
}

#[derive(Serialize)]
struct WireChoice<'a> {
    index: u32,
    delta: &'a Delta<'a>,
    logprobs: Option<Logprobs<'a>>,
    finish_reason: Option<&'a str>,
}

/// What a chunk adds to the message.
#[derive(Serialize)]
#[serde(untagged)]
enum Delta<'a> {
    Start { role: &'static str, content: () },
    Reasoning { reasoning_content: &'a str },
    Content { content: &'a str },
    Refusal { refusal: &'a str },
    Call { tool_calls: [WireCall<'a>; 1] },
    Finish {},
}

/// A call as it begins, or only more of its arguments.
#[derive(Serialize)]
struct WireCall<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}
