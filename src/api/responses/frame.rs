//! One event of a response stream: its line `event:`, and its JSON with a number of its own.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{json, value::RawValue};

use super::{
    encode,
    output::{Item, Status, Wire, WirePart},
};
use crate::{
    api::{Dialect, openai::ChatCompletions},
    chat::Problem,
    wire::sse,
};

/// Frames that are to be sent, numbered from 0 in the order in which they are put here.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// A frame that was sent gives its room back, so that a stream seldom allocates.
    room: BytesMut,
    next: u64,
}

impl Frames {
    /// What was put here since the last time.
    pub(super) fn take(&mut self) -> Bytes {
        self.room.split().freeze()
    }

    /// Adds a comment, which clients skip.
    pub(super) fn comment(&mut self, text: &str) {
        sse::comment(&mut self.room, text);
    }

    /// Adds a frame about an item.
    pub(super) fn put(&mut self, kind: &'static str, frame: Frame<'_>) {
        self.begin(kind);
        let numbered = Numbered { kind, sequence_number: self.next, frame };
        // Structs of strings and numbers always serialise, and memory takes all that is written.
        serde_json::to_writer((&mut self.room).writer(), &numbered).ok();
        self.end();
    }

    /// Adds a frame whose field `name` is `json`.
    pub(super) fn put_raw(&mut self, kind: &'static str, name: &str, json: &str) {
        self.begin(kind);
        let head = format!(r#"{{"type":"{kind}","sequence_number":{},"{name}":"#, self.next);
        self.room.put_slice(head.as_bytes());
        self.room.put_slice(json.as_bytes());
        self.room.put_slice(b"}");
        self.end();
    }

    /// Adds the frames that end a call.
    pub(super) fn put_call_done(&mut self, output_index: usize, item: &Item, status: Status) {
        let wire = item.wire(status);
        let frame = Frame { item_id: Some(item.id()), output_index, ..Frame::default() };
        match &wire {
            Wire::FunctionCall { name, arguments, .. } => {
                self.put("response.function_call_arguments.done", Frame { name: Some(name), arguments: Some(arguments), ..frame });
            }
            Wire::CustomToolCall { input, .. } => {
                // Its beginning cannot be read out of arguments that are not whole: it comes in one piece.
                if !input.is_empty() {
                    let delta = Frame { item_id: Some(item.id()), output_index, delta: Some(input), ..Frame::default() };
                    self.put("response.custom_tool_call_input.delta", delta);
                }
                self.put("response.custom_tool_call_input.done", Frame { input: Some(input), ..frame });
            }
            Wire::Reasoning { .. } | Wire::Message { .. } | Wire::LocalShellCall { .. } => {}
        }
        self.put("response.output_item.done", Frame::whole(output_index, wire));
    }

    /// Adds the frame of an error, in both forms that are in use: the fields by themselves, and the object of an error answer.
    pub(super) fn put_error(&mut self, problem: &Problem, explain: bool) {
        let body = ChatCompletions.error(problem, explain);
        let body = std::str::from_utf8(&body).unwrap_or_default();
        let object = body.strip_prefix(r#"{"error":"#).and_then(|body| body.strip_suffix('}')).unwrap_or("null");
        let flat = json!({"code": encode::code(problem), "message": problem.message, "param": problem.param}).to_string();
        let flat = flat.trim_start_matches('{').trim_end_matches('}');
        self.put_raw("error", "error", &format!("{object},{flat}"));
    }

    fn begin(&mut self, kind: &str) {
        self.room.put_slice(b"event: ");
        self.room.put_slice(kind.as_bytes());
        self.room.put_slice(b"\ndata: ");
    }

    fn end(&mut self) {
        self.room.put_slice(b"\n\n");
        self.next += 1;
    }
}

#[derive(Serialize)]
struct Numbered<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    frame: Frame<'a>,
}

/// What a frame says about an item. Each kind of frame has some of these fields.
#[derive(Default, Serialize)]
pub(super) struct Frame<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item_id: Option<&'a str>,
    pub(super) output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<Vec<&'a RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<WirePart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<Wire<'a>>,
}

impl<'a> Frame<'a> {
    /// A frame about the last part of `item`, the last of so many.
    pub(super) fn of(items: usize, item: &'a Item) -> Self {
        let (content_index, summary_index) = match item {
            Item::Reasoning { summary: true, .. } => (None, Some(0)),
            Item::Reasoning { .. } => (Some(0), None),
            Item::Message { parts, .. } => (Some(parts.len().saturating_sub(1)), None),
            Item::Call { .. } => (None, None),
        };
        Self { item_id: Some(item.id()), output_index: items.saturating_sub(1), content_index, summary_index, ..Self::default() }
    }

    /// A frame with a whole item.
    pub(super) fn whole(output_index: usize, item: Wire<'a>) -> Self {
        Self { output_index, item: Some(item), ..Self::default() }
    }
}
