//! Events as the frames of a response stream: each item is added, said and done in order, under one row of sequence numbers.
//!
//! A call is done only at the end of the answer: a client runs what is done, and a call that is shown as it comes can still turn out wrong.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    encode::{self, About, Body, Head},
    frame::{Frame, Frames},
    output::{self, Item, Part, Status, WirePart},
    tools::Kind,
};
use crate::{
    api,
    chat::{Call, Event, FinishReason, Meta, Problem, Reply, Report, Usage},
    wire::sse,
};

/// Writes the frames of one stream.
#[derive(Debug)]
pub(super) struct Encoder {
    about: About,
    /// Absent until the answer has begun.
    head: Option<Head>,
    items: Vec<Item>,
    /// Whether the last item is reasoning or a message that goes on.
    is_open: bool,
    /// Sent with the text that they belong to, which comes next, or at its end.
    logprobs: Vec<Box<RawValue>>,
    finish: Option<FinishReason>,
    usage: Usage,
    report: Option<Report>,
    frames: Frames,
}

impl Encoder {
    /// An encoder of one answer.
    pub(super) fn new(about: About) -> Self {
        Self {
            about,
            head: None,
            items: Vec::new(),
            is_open: false,
            logprobs: Vec::new(),
            finish: None,
            usage: Usage::default(),
            report: None,
            frames: Frames::default(),
        }
    }

    fn encode(&mut self, event: Event) {
        match event {
            Event::Started(meta) => self.start(&meta),
            Event::Reasoning(text) => self.reason(&text),
            Event::Content(text) => self.say(&text, false),
            Event::Refusal(text) => self.say(&text, true),
            Event::CallStarted(call) => self.call(call),
            Event::CallArguments { index, fragment } => self.arguments(index, &fragment),
            Event::Logprobs(raw) => self.logprobs.extend(output::entries(&raw)),
            Event::Finished(reason) => self.finish(reason),
            // There is no place for them.
            Event::Timings(_) | Event::Called(_) => {}
            Event::Progress(text) => self.frames.comment(&text),
            // Both are part of the last frame.
            Event::Usage(usage) => self.usage = usage,
            Event::Settled(report) => self.report = Some(report),
        }
    }

    fn start(&mut self, meta: &Meta) {
        self.head = Some(Head::of(meta, &self.about));
        self.response("response.created", &Body::default());
        self.response("response.in_progress", &Body::default());
    }

    /// A frame with the whole response as far as it has come.
    fn response(&mut self, kind: &'static str, body: &Body<'_>) {
        let head = self.head.get_or_insert_default();
        let response = encode::response(head, body, &self.about);
        self.frames.put_raw(kind, "response", &response);
    }

    fn reason(&mut self, text: &str) {
        let summary = self.about.summary;
        if !(self.is_open && matches!(self.items.last(), Some(Item::Reasoning { .. }))) {
            self.begin(Item::reasoning(summary));
            let begins = if summary { "response.reasoning_summary_part.added" } else { "response.content_part.added" };
            self.frame(begins, |frame, _| frame.part = Some(reasoning_part(summary, "")));
        }
        if let Some(Item::Reasoning { text: so_far, .. }) = self.items.last_mut() {
            so_far.push_str(text);
        }
        let delta = if summary { "response.reasoning_summary_text.delta" } else { "response.reasoning_text.delta" };
        self.frame(delta, |frame, _| frame.delta = Some(text));
    }

    fn say(&mut self, text: &str, is_refusal: bool) {
        if !(self.is_open && matches!(self.items.last(), Some(Item::Message { .. }))) {
            self.begin(Item::message());
        }
        let last = |items: &[Item]| match items.last() {
            Some(Item::Message { parts, .. }) => parts.last().map(|part| part.is_refusal),
            _ => None,
        };
        if last(&self.items) != Some(is_refusal) {
            self.end_part();
            if let Some(Item::Message { parts, .. }) = self.items.last_mut() {
                parts.push(Part::begin(is_refusal));
            }
            let begun = Part::begin(is_refusal);
            self.frame("response.content_part.added", |frame, _| frame.part = Some(begun.wire()));
        }
        let logprobs = std::mem::take(&mut self.logprobs);
        if !text.is_empty() {
            let kind = if is_refusal { "response.refusal.delta" } else { "response.output_text.delta" };
            let shown = logprobs.iter().map(AsRef::as_ref).collect();
            self.frame(kind, |frame, _| {
                frame.delta = Some(text);
                frame.logprobs = (!is_refusal).then_some(shown);
            });
        }
        if let Some(Item::Message { parts, .. }) = self.items.last_mut()
            && let Some(part) = parts.last_mut()
        {
            part.text.push_str(text);
            part.logprobs.extend(logprobs);
        }
    }

    fn call(&mut self, mut call: Call) {
        self.close(Status::Completed);
        let arguments = std::mem::take(&mut call.arguments);
        let index = self.items.iter().filter(|item| item.is_call()).count();
        self.items.push(Item::call(call, &self.about.tools));
        self.frame("response.output_item.added", |frame, item| *frame = Frame::whole(frame.output_index, item.wire(Status::InProgress)));
        self.arguments(index, &arguments);
    }

    /// More of the arguments of the call of this number. Only a function's are JSON that can be shown in pieces.
    fn arguments(&mut self, index: usize, fragment: &str) {
        let calls = self.items.iter_mut().enumerate().filter(|(_, item)| item.is_call());
        let Some((output_index, Item::Call { id, call, form })) = calls.into_iter().nth(index) else { return };
        call.arguments.push_str(fragment);
        if form.kind() == Kind::Function && !fragment.is_empty() {
            let frame = Frame { item_id: Some(id), output_index, delta: Some(fragment), ..Frame::default() };
            self.frames.put("response.function_call_arguments.delta", frame);
        }
    }

    fn finish(&mut self, reason: FinishReason) {
        let no_message = !self.items.iter().any(|item| matches!(item, Item::Message { .. }));
        let no_calls = !self.items.iter().any(Item::is_call);
        if no_message && output::says_nothing(no_calls, Some(reason)) {
            self.say("", false);
        }
        self.close(Status::at_the_end(Some(reason)));
        let last = self.items.len().saturating_sub(1);
        for (output_index, item) in self.items.iter().enumerate().filter(|(_, item)| item.is_call()) {
            let status = if output_index == last { Status::at_the_end(Some(reason)) } else { Status::Completed };
            self.frames.put_call_done(output_index, item, status);
        }
        self.finish = Some(reason);
    }

    /// Opens `item`, after what was open is done.
    fn begin(&mut self, item: Item) {
        self.close(Status::Completed);
        self.items.push(item);
        self.is_open = true;
        self.frame("response.output_item.added", |frame, item| *frame = Frame::whole(frame.output_index, item.wire(Status::InProgress)));
    }

    /// The end of the item that is open.
    fn close(&mut self, status: Status) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        // Those of text that was shown while it came are known when it is settled.
        if let Some(Item::Message { parts, .. }) = self.items.last_mut()
            && let Some(part) = parts.last_mut()
        {
            part.logprobs.append(&mut self.logprobs);
        }
        self.end_part();
        self.frame("response.output_item.done", |frame, item| *frame = Frame::whole(frame.output_index, item.wire(status)));
    }

    /// The end of the last item's last part.
    fn end_part(&mut self) {
        let Some(item) = self.items.last() else { return };
        match item {
            Item::Reasoning { text, summary, .. } => {
                let (said, part) = if *summary {
                    ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
                } else {
                    ("response.reasoning_text.done", "response.content_part.done")
                };
                let frame = || Frame::of(self.items.len(), item);
                self.frames.put(said, Frame { text: Some(text), ..frame() });
                self.frames.put(part, Frame { part: Some(reasoning_part(*summary, text)), ..frame() });
            }
            Item::Message { parts, .. } => {
                let Some(part) = parts.last() else { return };
                let frame = || Frame::of(self.items.len(), item);
                if part.is_refusal {
                    self.frames.put("response.refusal.done", Frame { refusal: Some(&part.text), ..frame() });
                } else {
                    let logprobs = Some(part.logprobs.iter().map(AsRef::as_ref).collect());
                    self.frames.put("response.output_text.done", Frame { text: Some(&part.text), logprobs, ..frame() });
                }
                self.frames.put("response.content_part.done", Frame { part: Some(part.wire()), ..frame() });
            }
            Item::Call { .. } => {}
        }
    }

    /// A frame about the last item.
    fn frame<'a>(&'a mut self, kind: &'static str, fill: impl FnOnce(&mut Frame<'a>, &'a Item)) {
        let Some(item) = self.items.last() else { return };
        let mut frame = Frame::of(self.items.len(), item);
        fill(&mut frame, item);
        self.frames.put(kind, frame);
    }
}

impl api::Encoder for Encoder {
    fn whole(&self, reply: &Reply) -> Bytes {
        encode::whole(reply, &self.about)
    }

    fn event(&mut self, event: Event) -> Bytes {
        self.encode(event);
        self.frames.take()
    }

    fn silence(&self) -> Bytes {
        Bytes::from_static(sse::COMMENT)
    }

    /// Both ways to say it: OpenAI's packages raise an error at the first, others read the second.
    fn failure(&mut self, problem: &Problem) -> Bytes {
        if self.head.is_none() {
            self.start(&Meta::default());
        }
        let items = std::mem::take(&mut self.items);
        self.frames.put_error(problem, self.about.explain);
        let report = problem.report.as_deref();
        self.response("response.failed", &Body { items: &items, problem: Some(problem), report, ..Body::default() });
        self.frames.take()
    }

    fn end(&mut self) -> Bytes {
        let (items, report) = (std::mem::take(&mut self.items), self.report.take());
        let body = Body {
            items: &items,
            finish: self.finish.or(Some(FinishReason::Stop)),
            problem: None,
            usage: Some(self.usage),
            report: report.as_ref(),
        };
        let kind = if body.status() == "incomplete" { "response.incomplete" } else { "response.completed" };
        self.response(kind, &body);
        self.frames.take()
    }
}

fn reasoning_part(summary: bool, text: &str) -> WirePart<'_> {
    WirePart::plain(if summary { "summary_text" } else { "reasoning_text" }, text)
}
