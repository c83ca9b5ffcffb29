//! Events as the frames of a message: its start, one content block after the other, its end with the stop reason and the usage, which a
//! backend tells last.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use super::encode::{self, About, Block, Counts, Message, stop_reason};
use crate::{
    api,
    chat::{Call, Event, FinishReason, Problem, Reply, Report, Usage},
    wire::sse,
};

/// Writes the frames of one stream.
#[derive(Debug)]
pub(super) struct Encoder {
    about: About,
    /// The block that is open, and its type.
    open: Option<(usize, Kind)>,
    /// How many blocks there were.
    blocks: usize,
    /// The blocks of the calls.
    calls: Vec<usize>,
    /// Blank text, which is shown only with what follows it: clients stumble over a text that says nothing.
    blank: String,
    /// How many pieces of reasoning were passed over in silence.
    unshown: usize,
    refused: bool,
    finish: FinishReason,
    usage: Usage,
    report: Option<Report>,
    room: BytesMut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    Call,
}

/// Room for a few frames.
const ROOM_BYTES: usize = 1024;

/// So many pieces of reasoning that is not shown, and the client is told that the stream lives.
const UNSHOWN_MAX: usize = 32;

const PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";

impl Encoder {
    /// An encoder of an answer `about` a request.
    pub(super) fn new(about: About) -> Self {
        Self {
            about,
            open: None,
            blocks: 0,
            calls: Vec::new(),
            blank: String::new(),
            unshown: 0,
            refused: false,
            finish: FinishReason::Stop,
            usage: Usage::default(),
            report: None,
            room: BytesMut::with_capacity(ROOM_BYTES),
        }
    }

    fn encode(&mut self, event: Event) {
        match event {
            Event::Settled(report) => self.report = Some(report),
            Event::Started(meta) => {
                let message = Message::begun(&meta, &self.about);
                frame(&mut self.room, &Frame::MessageStart { message });
            }
            Event::Reasoning(text) => self.thinking(&text),
            Event::Content(text) => self.text(text),
            Event::Refusal(text) => {
                self.refused = true;
                self.text(text);
            }
            Event::CallStarted(call) => self.call(&call),
            Event::CallArguments { index, fragment } => self.arguments(index, &fragment),
            Event::Finished(reason) => self.finish = reason,
            Event::Usage(usage) => self.usage = usage,
            // There is no place for them.
            Event::Logprobs(_) | Event::Timings(_) | Event::Called(_) => {}
            Event::Progress(text) => sse::comment(&mut self.room, &text),
        }
    }

    fn thinking(&mut self, thinking: &str) {
        if !self.about.shows_thinking {
            self.unshown += 1;
            if self.unshown.is_multiple_of(UNSHOWN_MAX) {
                self.room.put_slice(PING);
            }
            return;
        }
        let index = self.block(Kind::Thinking, Block::thinking(""));
        frame(&mut self.room, &Frame::ContentBlockDelta { index, delta: Delta::Thinking { thinking } });
    }

    fn text(&mut self, mut text: String) {
        let is_open = matches!(self.open, Some((_, Kind::Text)));
        if !is_open && text.trim().is_empty() {
            self.blank.push_str(&text);
            return;
        }
        if !self.blank.is_empty() {
            text.insert_str(0, &std::mem::take(&mut self.blank));
        }
        let index = self.block(Kind::Text, Block::text(""));
        frame(&mut self.room, &Frame::ContentBlockDelta { index, delta: Delta::Text { text: &text } });
    }

    fn call(&mut self, call: &Call) {
        self.close();
        let index = self.block(Kind::Call, Block::call_begun(call, self.about.id_of(call)));
        self.calls.push(index);
        self.arguments(self.calls.len() - 1, &call.arguments);
    }

    fn arguments(&mut self, call: usize, partial_json: &str) {
        let Some(index) = self.calls.get(call).copied() else { return };
        if !partial_json.is_empty() {
            frame(&mut self.room, &Frame::ContentBlockDelta { index, delta: Delta::InputJson { partial_json } });
        }
    }

    /// The index of the open block, which is of `kind`: begun with `block` where it is not.
    fn block(&mut self, kind: Kind, block: Block<'_>) -> usize {
        if let Some((index, open)) = self.open
            && open == kind
            && kind != Kind::Call
        {
            return index;
        }
        self.close();
        let index = self.blocks;
        self.blocks += 1;
        self.open = Some((index, kind));
        frame(&mut self.room, &Frame::ContentBlockStart { index, content_block: block });
        index
    }

    fn close(&mut self) {
        let Some((index, kind)) = self.open.take() else { return };
        if kind == Kind::Thinking {
            // Some clients keep the block only with it.
            frame(&mut self.room, &Frame::ContentBlockDelta { index, delta: Delta::Signature { signature: "" } });
        }
        frame(&mut self.room, &Frame::ContentBlockStop { index });
    }

    fn written(&mut self) -> Bytes {
        self.room.split().freeze()
    }
}

impl api::Encoder for Encoder {
    fn whole(&self, reply: &Reply) -> Bytes {
        encode::message(reply, &self.about)
    }

    fn event(&mut self, event: Event) -> Bytes {
        self.encode(event);
        self.written()
    }

    fn silence(&self) -> Bytes {
        Bytes::from_static(PING)
    }

    fn failure(&mut self, problem: &Problem) -> Bytes {
        self.room.put_slice(b"event: error\ndata: ");
        self.room.put_slice(&encode::error(problem, None, self.about.explain));
        self.room.put_slice(END);
        self.written()
    }

    fn end(&mut self) -> Bytes {
        self.close();
        let delta = MessageEnd { stop_reason: stop_reason(self.finish, self.refused), stop_sequence: (), stop_details: (), container: () };
        let toolgate = self.report.take().filter(|report| report.is_shown(self.about.explain));
        frame(&mut self.room, &Frame::MessageDelta { delta, usage: self.usage.into(), toolgate: toolgate.as_ref() });
        frame(&mut self.room, &Frame::MessageStop {});
        self.written()
    }
}

const END: &[u8] = b"\n\n";

fn frame(room: &mut BytesMut, frame: &Frame<'_>) {
    room.put_slice(b"event: ");
    room.put_slice(frame.name().as_bytes());
    room.put_slice(b"\ndata: ");
    // Strings and numbers always serialise, and memory takes all that is written.
    serde_json::to_writer(room.writer(), frame).ok();
    room.put_slice(END);
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame<'a> {
    MessageStart {
        message: Message<'a>,
    },
    ContentBlockStart {
        index: usize,
        content_block: Block<'a>,
    },
    ContentBlockDelta {
        index: usize,
        delta: Delta<'a>,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: MessageEnd,
        usage: Counts,
        #[serde(skip_serializing_if = "Option::is_none")]
        toolgate: Option<&'a Report>,
    },
    MessageStop {},
}

impl Frame<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop {} => "message_stop",
        }
    }
}

/// More of a block.
#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'static str },
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

/// How a message ends.
#[derive(Serialize)]
struct MessageEnd {
    stop_reason: &'static str,
    stop_sequence: (),
    stop_details: (),
    container: (),
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;
    use crate::{api::Encoder as _, chat::Meta};

    fn frames(thinking: bool, events: Vec<Event>) -> Vec<Value> {
        let mut encoder = Encoder::new(About { model: "m".to_owned(), shows_thinking: thinking, call_ids: HashSet::new(), explain: false });
        let mut written: Vec<u8> = events.into_iter().flat_map(|event| encoder.event(event)).collect();
        written.extend(encoder.end());
        let payload = |frame: &str| {
            let (event, data) = frame.split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(event.strip_prefix("event: ").unwrap(), data["type"], "{frame}");
            data
        };
        std::str::from_utf8(&written).unwrap().split_terminator("\n\n").map(payload).collect()
    }

    /// Each frame in a word or two.
    fn outline(frames: &[Value]) -> Vec<String> {
        let word = |frame: &Value| match frame["type"].as_str().unwrap() {
            "content_block_start" => format!("{}[{}", frame["content_block"]["type"].as_str().unwrap(), frame["index"]),
            "content_block_delta" => format!("{}:{}", frame["index"], frame["delta"]["type"].as_str().unwrap()),
            "content_block_stop" => format!("{}]", frame["index"]),
            other => other.to_owned(),
        };
        frames.iter().map(word).collect()
    }

    fn call(name: &str, arguments: &str) -> Event {
        Event::CallStarted(Call { id: "c".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() })
    }

    #[test]
    fn blocks_open_and_close_in_order() {
        let content = |text: &str| Event::Content(text.to_owned());
        let events = vec![
            Event::Started(Meta::default()),
            Event::Reasoning("a".to_owned()),
            Event::Reasoning("b".to_owned()),
            content("\n"),
            content("text"),
            content(" "),
            call("f", ""),
            Event::CallArguments { index: 0, fragment: "{\"a\"".to_owned() },
            Event::CallArguments { index: 0, fragment: ":1}".to_owned() },
            call("g", "{}"),
            content("more"),
            Event::Finished(FinishReason::ToolCalls),
            Event::Usage(Usage { prompt_tokens: 10, completion_tokens: 5, cached_tokens: 4, reasoning_tokens: 0, cache_write_tokens: 0 }),
        ];
        let frames = frames(true, events);
        assert_eq!(
            outline(&frames).join(" "),
            "message_start thinking[0 0:thinking_delta 0:thinking_delta 0:signature_delta 0] text[1 1:text_delta 1:text_delta 1] \
             tool_use[2 2:input_json_delta 2:input_json_delta 2] tool_use[3 3:input_json_delta 3] text[4 4:text_delta 4] \
             message_delta message_stop"
        );
        assert_eq!(frames[7]["delta"]["text"], "\ntext");
        let end = &frames[frames.len() - 2];
        assert_eq!((&end["delta"]["stop_reason"], &end["usage"]["input_tokens"]), (&Value::from("tool_use"), &Value::from(6)));
        assert_eq!((&end["usage"]["output_tokens"], &end["usage"]["cache_read_input_tokens"]), (&Value::from(5), &Value::from(4)));
    }

    #[test]
    fn reasoning_that_nobody_asked_for_leaves_signs_of_life() {
        let pieces = (0..70).map(|_| Event::Reasoning("hm".to_owned()));
        let events = std::iter::once(Event::Started(Meta::default())).chain(pieces).collect();
        assert_eq!(outline(&frames(false, events)).join(" "), "message_start ping ping message_delta message_stop");
    }

    #[test]
    fn a_refusal_is_text_with_a_reason_of_its_own() {
        let events = vec![Event::Started(Meta::default()), Event::Refusal("No.".to_owned()), Event::Finished(FinishReason::Stop)];
        let frames = frames(false, events);
        assert_eq!(outline(&frames).join(" "), "message_start text[0 0:text_delta 0] message_delta message_stop");
        assert_eq!(frames[4]["delta"]["stop_reason"], "refusal");
    }
}
