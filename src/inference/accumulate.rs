//! Events folded into one reply.

use super::Error;
use crate::chat::{Call, Event, FinishReason, Meta, Usage, id};
use futures_util::StreamExt;
use serde_json::value::RawValue;
use std::collections::HashSet;

/// A whole reply of a model.
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
    /// Its structured calls; ids are present and distinct.
    pub calls: Vec<Call>,
    /// Log probabilities, as they came.
    pub logprobs: Vec<Box<RawValue>>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// What it cost.
    pub usage: Usage,
}

/// Reads `events` to their end. Fails with the first error among them, or when the reply exceeds `bytes_max`.
pub(super) async fn reply(mut events: crate::backend::Events, bytes_max: usize) -> Result<Reply, Error> {
    let mut reply = Reply::default();
    let mut room = bytes_max;
    while let Some(event) = events.next().await {
        let event = event?;
        room = room.checked_sub(size(&event)).ok_or(Error::ReplyTooLong(bytes_max))?;
        reply.add(event);
    }
    reply.give_ids();
    Ok(reply)
}

fn size(event: &Event) -> usize {
    match event {
        Event::Reasoning(text) | Event::Content(text) | Event::Refusal(text) => text.len(),
        Event::CallStarted(call) => call.id.len() + call.name.len() + call.arguments.len(),
        Event::CallArguments { fragment, .. } => fragment.len(),
        Event::Logprobs(raw) => raw.get().len(),
        Event::Started(_) | Event::Finished(_) | Event::Usage(_) | Event::Settled(_) => 0,
    }
}

impl Reply {
    fn add(&mut self, event: Event) {
        match event {
            Event::Started(meta) => self.meta = meta,
            Event::Reasoning(text) => self.reasoning.push_str(&text),
            Event::Content(text) => self.content.push_str(&text),
            Event::Refusal(text) => self.refusal.push_str(&text),
            Event::CallStarted(call) => self.calls.push(call),
            Event::CallArguments { index, fragment } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&fragment);
                }
            }
            Event::Logprobs(raw) => self.logprobs.push(raw),
            Event::Finished(reason) => self.finish = Some(reason),
            Event::Usage(usage) => self.usage = usage,
            Event::Settled(_) => {}
        }
    }

    /// A call without an id, or with that of an earlier one, gets its own: a client answers calls by id.
    fn give_ids(&mut self) {
        let mut seen = HashSet::new();
        for call in &mut self.calls {
            if call.id.is_empty() || seen.contains(&call.id) {
                call.id = id::mint("call_");
            }
            seen.insert(call.id.clone());
        }
    }
}
