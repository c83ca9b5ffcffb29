//! Events folded into one whole reply.

use serde_json::value::RawValue;

use super::{Call, Event, FinishReason, Meta, Report, Usage};

/// A whole reply. Text that was not said is empty.
#[derive(Debug, Default)]
pub struct Reply {
    /// What the completion says about itself.
    pub meta: Meta,
    /// Its reasoning.
    pub reasoning: String,
    /// Its text.
    pub content: String,
    /// Its refusal.
    pub refusal: String,
    /// Its calls.
    pub calls: Vec<Call>,
    /// How much of the text was said before the first call.
    pub calls_at: Option<usize>,
    /// Log probabilities, as they came.
    pub logprobs: Vec<Box<RawValue>>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// What it cost.
    pub usage: Usage,
    /// How long the server took for what, where it says so.
    pub timings: Option<Box<RawValue>>,
    /// What the guardrails did; absent on a reply straight from a model.
    pub report: Option<Report>,
}

impl Reply {
    /// Takes the next event.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Started(meta) => self.meta = meta,
            Event::Reasoning(text) => append(&mut self.reasoning, text),
            Event::Content(text) => append(&mut self.content, text),
            Event::Refusal(text) => append(&mut self.refusal, text),
            Event::CallStarted(call) => {
                self.calls_at.get_or_insert(self.content.len());
                self.calls.push(call);
            }
            Event::CallArguments { index, fragment } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&fragment);
                }
            }
            Event::Logprobs(raw) => self.logprobs.push(raw),
            Event::Finished(reason) => self.finish = Some(reason),
            Event::Usage(usage) => self.usage = usage,
            Event::Timings(timings) => self.timings = Some(timings),
            Event::Settled(report) => self.report = Some(report),
            // The report has the calls.
            Event::Called(_) | Event::Progress(_) => {}
        }
    }
}

impl Reply {
    /// The text before the first call.
    pub fn before_calls(&self) -> &str {
        self.calls_at.and_then(|at| self.content.get(..at)).unwrap_or(&self.content)
    }

    /// The text before the first call without its first bytes, parted from what follows; empty when it is blank.
    pub fn lead(&self, without: usize) -> String {
        let before = self.before_calls().get(without..).unwrap_or_default();
        if before.trim().is_empty() { String::new() } else { format!("{before}{PARAGRAPH}") }
    }
}

/// Parts the texts of one message that were said apart.
pub const PARAGRAPH: &str = "\n\n";

/// A text that comes in one piece is not copied.
fn append(text: &mut String, piece: String) {
    if text.is_empty() { *text = piece } else { text.push_str(&piece) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_a_whole() {
        let mut reply = Reply::default();
        let call = Call { id: "c".into(), name: "f".into(), arguments: "{\"a\"".into() };
        for event in [
            Event::Content("He".into()),
            Event::Content("llo".into()),
            Event::CallStarted(call),
            Event::CallArguments { index: 0, fragment: ":1}".into() },
            Event::CallArguments { index: 7, fragment: "nobody's".into() },
            Event::Finished(FinishReason::ToolCalls),
        ] {
            reply.add(event);
        }
        assert_eq!((reply.content.as_str(), reply.calls[0].arguments.as_str()), ("Hello", "{\"a\":1}"));
        assert_eq!(reply.finish, Some(FinishReason::ToolCalls));
    }
}
