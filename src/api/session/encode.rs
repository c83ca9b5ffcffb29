//! An answer as one object, or as events: its session, each tool call as it ends, a limit that was met, and the whole answer at the end.

use std::{cell::Cell, time::SystemTime};

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{json, value::to_raw_value};

use crate::{
    api,
    chat::{Call, CallRecord, Event, Problem, Reply, Report, Request, Usage, call, cost, reply::PARAGRAPH},
    wire::sse,
};

/// Writes one answer.
#[derive(Debug)]
pub(super) struct Encoder {
    explain: bool,
    session_id: String,
    request_id: String,
    dry_run: bool,
    /// Whether the client was told of its session.
    is_begun: Cell<bool>,
    reply: Reply,
}

impl Encoder {
    /// An encoder for a client that wants to see what was done, or not.
    pub(super) fn new(explain: bool) -> Self {
        let (session_id, request_id) = (String::new(), String::new());
        Self { explain, session_id, request_id, dry_run: false, is_begun: Cell::new(false), reply: Reply::default() }
    }

    /// `session.start`, once.
    fn begin(&self, frames: &mut BytesMut) {
        if !self.is_begun.replace(true) {
            event(frames, "session.start", &json!({"session_id": self.session_id, "dry_run": self.dry_run}));
        }
    }

    /// A call as the trace tells it. In a rehearsal with its arguments: it is a plan.
    fn tool_result(&self, frames: &mut BytesMut, record: &CallRecord) {
        let arguments = record.arguments.as_ref().filter(|_| record.dry_run).and_then(|arguments| to_raw_value(arguments).ok());
        let mut line = call::Line::new(record, SystemTime::now());
        line.request_id = &self.request_id;
        line.session_id = &self.session_id;
        line.arguments = arguments.as_deref();
        event(frames, "tool.result", &line);
    }

    fn answer(&self, reply: &Reply) -> Bytes {
        // A struct of strings and numbers always serialises.
        serde_json::to_vec(&Answer::new(self, reply)).map(Bytes::from).unwrap_or_default()
    }
}

impl api::Encoder for Encoder {
    fn order(&mut self, request: &Request) {
        self.session_id = request.session.clone().unwrap_or_default();
        self.request_id.clone_from(&request.id);
        self.dry_run = request.dry_run;
    }

    fn whole(&self, reply: &Reply) -> Bytes {
        self.answer(reply)
    }

    fn event(&mut self, coming: Event) -> Bytes {
        let mut frames = BytesMut::new();
        self.begin(&mut frames);
        match coming {
            Event::Called(record) => self.tool_result(&mut frames, &record),
            Event::Progress(text) => sse::comment(&mut frames, &text),
            coming => {
                if let Event::Settled(Report { halt_reason: Some(reason), .. }) = &coming {
                    event(&mut frames, "halt", &json!({"reason": reason.as_str()}));
                }
                self.reply.add(coming);
            }
        }
        frames.freeze()
    }

    fn silence(&self) -> Bytes {
        let mut frames = BytesMut::new();
        self.begin(&mut frames);
        frames.put_slice(sse::COMMENT);
        frames.freeze()
    }

    fn failure(&mut self, problem: &Problem) -> Bytes {
        let mut frames = BytesMut::new();
        self.begin(&mut frames);
        let error = Failure {
            message: &problem.message,
            code: problem.code.as_deref(),
            retry_after: problem.retry_after.as_deref(),
            toolgate: problem.report.as_deref().filter(|report| report.is_shown(self.explain)),
        };
        event(&mut frames, "error", &error);
        frames.freeze()
    }

    fn end(&mut self) -> Bytes {
        let mut frames = BytesMut::new();
        self.begin(&mut frames);
        event(&mut frames, "final.response", &Answer::new(self, &self.reply));
        frames.freeze()
    }
}

fn event(to: &mut BytesMut, name: &str, data: &impl Serialize) {
    to.put_slice(format!("event: {name}\ndata: ").as_bytes());
    // As above, and memory takes all that is written.
    serde_json::to_writer(to.writer(), data).ok();
    to.put_slice(b"\n\n");
}

/// A whole answer.
#[derive(Serialize)]
struct Answer<'a> {
    session_id: &'a str,
    response: String,
    /// How many tool calls there were.
    steps: usize,
    /// What models and tools cost, in microcents. No price is not no cost.
    #[serde(serialize_with = "cost::serialize_some")]
    cost_usd: Option<u64>,
    dry_run: bool,
    halted: bool,
    halt_reason: Option<&'static str>,
    usage: Tokens,
    /// What waits for the user's word.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Asked<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolgate: Option<&'a Report>,
}

/// The reason of an answer that ends in calls about which the user is to be asked.
const APPROVAL: &str = "approval";

impl<'a> Answer<'a> {
    fn new(about: &'a Encoder, reply: &'a Reply) -> Self {
        let report = reply.report.as_ref();
        let limit = report.and_then(|report| report.halt_reason).map(|reason| reason.as_str());
        let halt_reason = if reply.calls.is_empty() { limit } else { Some(APPROVAL) };
        let texts: Vec<&str> = [&reply.content, &reply.refusal].into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        Self {
            session_id: &about.session_id,
            response: texts.join(PARAGRAPH),
            steps: report.map_or(0, |report| report.calls.len()),
            cost_usd: report.and_then(|report| report.cost),
            dry_run: about.dry_run,
            halted: halt_reason.is_some(),
            halt_reason,
            usage: Tokens::from(reply.usage),
            calls: reply.calls.iter().map(Asked::from).collect(),
            toolgate: report.filter(|report| report.is_shown(about.explain)),
        }
    }
}

/// OpenAI's `usage` as far as it is a sum over all turns.
#[derive(Serialize)]
struct Tokens {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self { prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens, total_tokens: usage.total_tokens() }
    }
}

/// A call that is not made before the user has said so.
#[derive(Serialize)]
struct Asked<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> From<&'a Call> for Asked<'a> {
    fn from(call: &'a Call) -> Self {
        Self { id: &call.id, name: &call.name, arguments: &call.arguments }
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolgate: Option<&'a Report>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::Encoder as _, chat::problem::Kind};

    #[test]
    fn a_rehearsal_that_failed_tells_its_plan() {
        let told = |explain: bool, is_plan: bool| {
            let mut problem = Problem::new(Kind::Unreachable, "Gone.");
            problem.report = Some(Box::new(Report { is_plan, ..Report::default() }));
            let frames = Encoder::new(explain).failure(&problem);
            String::from_utf8_lossy(&frames).contains("\"toolgate\":")
        };
        assert_eq!((told(false, true), told(true, false), told(false, false)), (true, true, false));
    }
}
