//! What of a running reply may be shown at once, and when it need not be read further.
//!
//! **What was shown is the beginning of the answer**: what `respond` says, once nothing before it can fail; text, where text is welcome,
//! as far as it is no part of a call; and, where it is so configured, a call whose name is known to be good. All else is held until the
//! reply is judged. A reply that is wrong already, or that holds all that is wanted, is given up, which stops the model.

use super::{
    ToolArguments,
    rescue::suffix::Suffix,
    respond::message::Reader,
    terms::{Shown, Terms},
};
use crate::chat::{Call, Event, Reply, ToolChoice, reply::PARAGRAPH};

/// Decides about the events of one reply.
#[derive(Debug)]
pub(super) struct Hold {
    text: Text,
    /// The `respond` call that is shown as it comes, by its number: the first of a reply. Others are held.
    speaking: Option<(usize, Reader)>,
    /// What was read of that call and not shown: blank text, since a blank message is none.
    pending: String,
    /// A `respond` call has begun: no later one is shown as it comes.
    spoken_for: bool,
    /// The calls that are shown as they come, by their numbers in the reply.
    calls: Vec<usize>,
    /// A call that will be, once its arguments begin like an object.
    coming: Option<usize>,
    /// The content shown so far.
    content: String,
    shown: Shown,
    /// A call among those that are complete is one for the client.
    has_good: bool,
}

/// What becomes of plain text.
#[derive(Debug)]
enum Text {
    /// It is kept until it is judged.
    Held,
    /// It is shown, except what may be part of a call.
    Watched(Suffix),
    /// It is shown: nothing in it is a call.
    Free,
}

/// What an event is about, kept when the event itself has gone into the reply.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard {
    /// Text.
    Content,
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
            Event::Content(_) => Self::Content,
            Event::CallStarted(_) => Self::Call,
            Event::CallArguments { index, fragment } => Self::Arguments { index: *index, length: fragment.len() },
            _ => Self::Else,
        }
    }
}

impl Hold {
    /// Nothing heard yet.
    pub(super) fn new(terms: Terms<'_>) -> Self {
        let text = if terms.goes_on || !terms.text_is_welcome() {
            Text::Held
        } else if terms.guardrails.rescue && terms.request.tool_choice != ToolChoice::None {
            Text::Watched(Suffix::new(terms.config.held_bytes_max))
        } else {
            Text::Free
        };
        Self {
            text,
            speaking: None,
            pending: String::new(),
            spoken_for: false,
            calls: Vec::new(),
            coming: None,
            content: String::new(),
            shown: Shown::default(),
            has_good: false,
        }
    }

    /// What was shown so far.
    pub(super) fn shown(&self) -> Shown {
        self.shown
    }

    /// What of `content`, the answer's, was not shown yet.
    pub(super) fn rest(&self, content: &str) -> String {
        let rest = content.strip_prefix(self.content.as_str());
        debug_assert!(rest.is_some(), "{:?} was shown, which is not the beginning of {content:?}", self.content);
        if rest.is_none() {
            tracing::error!("what was shown is not the beginning of the answer; the rest is left out");
        }
        rest.unwrap_or_default().to_owned()
    }

    /// What may be shown after `heard`, which `reply` holds already.
    pub(super) fn show(&mut self, heard: Heard, reply: &Reply, terms: Terms<'_>) -> Option<Event> {
        match heard {
            // Text behind a call waits for what the call comes to.
            Heard::Content if reply.calls.is_empty() => self.show_text(reply, terms),
            Heard::Content | Heard::Else => None,
            Heard::Call => {
                let (call, before) = reply.calls.split_last()?;
                if terms.offer.is_respond(&call.name) {
                    self.begin_message(call, before, reply, terms)
                } else {
                    self.begin_call(call, before, terms)
                }
            }
            Heard::Arguments { index, length } => {
                let call = reply.calls.get(index)?;
                let fragment = call.arguments.get(call.arguments.len().checked_sub(length)?..)?;
                match self.calls.iter().position(|shown| *shown == index) {
                    Some(index) => Some(Event::CallArguments { index, fragment: fragment.to_owned() }),
                    None if self.coming == Some(index) => self.show_call(index, call),
                    None if self.speaking.as_ref().is_some_and(|(speaking, _)| *speaking == index) => self.say(fragment, reply, terms),
                    None => None,
                }
            }
        }
    }

    /// Shows text from now on, whatever it looks like.
    pub(super) fn release(&mut self, reply: &Reply, terms: Terms<'_>) -> Option<Event> {
        self.text = Text::Free;
        self.show_text(reply, terms)
    }

    /// Whether text is kept until it is judged.
    pub(super) fn holds_text(&self) -> bool {
        matches!(self.text, Text::Held)
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
        has_one || (terms.is_unknown(call) && !self.shown.spoke)
    }

    fn show_text(&mut self, reply: &Reply, terms: Terms<'_>) -> Option<Event> {
        let free = match &mut self.text {
            Text::Held => 0,
            Text::Watched(suffix) => suffix.advance(&reply.content, terms.offer),
            Text::Free if reply.content.trim().is_empty() => 0,
            Text::Free => reply.content.len(),
        };
        let text = reply.content.get(self.shown.text..free).filter(|text| !text.is_empty())?.to_owned();
        let text = if self.content.is_empty() { terms.joined(text) } else { text };
        self.shown.text = free;
        self.content.push_str(&text);
        Some(Event::Content(text))
    }

    fn begin_message(&mut self, call: &Call, before: &[Call], reply: &Reply, terms: Terms<'_>) -> Option<Event> {
        let is_first = !std::mem::replace(&mut self.spoken_for, true);
        if !is_first || before.iter().any(|call| terms.is_bad(call)) {
            return None;
        }
        self.speaking = Some((before.len(), Reader::default()));
        self.say(&call.arguments, reply, terms)
    }

    fn say(&mut self, fragment: &str, reply: &Reply, terms: Terms<'_>) -> Option<Event> {
        let (_, reader) = self.speaking.as_mut()?;
        reader.push(fragment);
        self.pending.push_str(&reader.take());
        if !self.shown.spoke {
            if self.pending.trim().is_empty() {
                return None;
            }
            self.shown.spoke = true;
            let begins_anew = terms.goes_on && self.shown.text == 0;
            let lead = if begins_anew { PARAGRAPH.to_owned() } else { reply.lead(terms.unopened_reasoning(reply, self.shown.text)) };
            self.pending.insert_str(0, lead.get(self.shown.text..).unwrap_or_default());
        }
        let text = std::mem::take(&mut self.pending);
        self.content.push_str(&text);
        (!text.is_empty()).then_some(Event::Content(text))
    }

    /// A call is shown as it comes where all calls before it were.
    fn begin_call(&mut self, call: &Call, before: &[Call], terms: Terms<'_>) -> Option<Event> {
        let made = before.iter().filter(|call| !terms.offer.is_respond(&call.name)).count();
        let is_wanted = terms.config.tool_arguments == ToolArguments::Live && terms.request.tool_choice != ToolChoice::None;
        if !is_wanted || made != self.calls.len() || terms.is_unknown(call) || before.iter().any(|call| terms.is_bad(call)) {
            return None;
        }
        if made > 0 && !terms.request.parallel_tool_calls {
            return None;
        }
        self.coming = Some(before.len());
        self.show_call(before.len(), call)
    }

    /// Arguments that do not begin like an object are rewritten when they are whole.
    fn show_call(&mut self, index: usize, call: &Call) -> Option<Event> {
        if !call.arguments.trim_start().starts_with('{') {
            return None;
        }
        self.coming = None;
        self.calls.push(index);
        self.shown.calls = self.calls.len();
        Some(Event::CallStarted(call.clone()))
    }
}
