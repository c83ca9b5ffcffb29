//! What of a running reply may be shown at once, and when it need not be read further.
//!
//! **What was shown is the beginning of the answer**: what `respond` says, once nothing before it can fail. All other text and calls are
//! held until the reply is judged. A reply that is wrong already, or that holds all that is wanted, is given up, which stops the model.

use super::{judge::Terms, respond::message::Reader};
use crate::chat::{Event, Reply, ToolChoice};

/// Decides about the events of one reply.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// The `respond` call that is shown as it comes, by its number: the first of a reply. Others are held.
    speaking: Option<(usize, Reader)>,
    /// What was read of that call and not shown: blank text, since a blank message is none.
    pending: String,
    /// A `respond` call has begun: no later one is shown as it comes.
    spoken_for: bool,
    /// The content shown so far.
    shown: String,
    /// A call among those that are complete is one for the client.
    has_good: bool,
}

/// What an event is about, kept when the event itself has gone into the reply.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard {
    /// A call began.
    Call,
    /// A call went on.
    Arguments {
        /// Which one.
        index: usize,
        /// By how many bytes.
        length: usize,
    },
    /// Anything else.
    Else,
}

impl Heard {
    /// What `event` is about.
    pub(super) fn in_event(event: &Event) -> Self {
        match event {
            Event::CallStarted(_) => Self::Call,
            Event::CallArguments { index, fragment } => Self::Arguments { index: *index, length: fragment.len() },
            _ => Self::Else,
        }
    }
}

impl Hold {
    /// Whether content was shown: from then on the answer is this one.
    pub(super) fn is_committed(&self) -> bool {
        !self.shown.is_empty()
    }

    /// What of `content`, the answer's, was not shown yet.
    pub(super) fn rest(&self, content: &str) -> String {
        let rest = content.strip_prefix(self.shown.as_str());
        debug_assert!(rest.is_some(), "{:?} was shown, which is not the beginning of {content:?}", self.shown);
        if rest.is_none() {
            tracing::error!("what was shown is not the beginning of the answer; the rest is left out");
        }
        rest.unwrap_or_default().to_owned()
    }

    /// What may be shown after `heard`, which `reply` holds already.
    pub(super) fn show(&mut self, heard: Heard, reply: &Reply, terms: Terms<'_>) -> Option<Event> {
        match heard {
            Heard::Call => {
                let (call, before) = reply.calls.split_last()?;
                if !terms.offer.is_respond(&call.name) {
                    return None;
                }
                let is_first = !std::mem::replace(&mut self.spoken_for, true);
                if is_first && !before.iter().any(|call| terms.is_bad(call)) {
                    self.speaking = Some((before.len(), Reader::default()));
                    return self.say(&call.arguments, reply);
                }
                None
            }
            Heard::Arguments { index, length } => {
                self.speaking.as_ref().filter(|(speaking, _)| *speaking == index)?;
                let arguments = &reply.calls.get(index)?.arguments;
                self.say(arguments.get(arguments.len().checked_sub(length)?..)?, reply)
            }
            Heard::Else => None,
        }
    }

    /// Whether nothing that may still come can matter: a call of an unknown tool has begun, or a second call where one is wanted.
    pub(super) fn is_enough(&mut self, heard: Heard, reply: &Reply, terms: Terms<'_>) -> bool {
        let (Heard::Call, Some((call, before))) = (heard, reply.calls.split_last()) else { return false };
        // Each call is looked at once, when the next one begins.
        self.has_good |= before.last().is_some_and(|call| terms.is_good(call));
        if terms.request.tool_choice == ToolChoice::None || terms.offer.is_respond(&call.name) {
            return false;
        }
        let has_one = !terms.request.parallel_tool_calls && self.has_good;
        has_one || (terms.is_unknown(call) && !self.is_committed())
    }

    fn say(&mut self, fragment: &str, reply: &Reply) -> Option<Event> {
        let (_, reader) = self.speaking.as_mut()?;
        reader.push(fragment);
        self.pending.push_str(&reader.take());
        if !self.is_committed() {
            if self.pending.trim().is_empty() {
                return None;
            }
            self.pending.insert_str(0, &reply.lead());
        }
        let text = std::mem::take(&mut self.pending);
        self.shown.push_str(&text);
        (!text.is_empty()).then_some(Event::Content(text))
    }
}
