//! One upstream reply as it comes, within a limit.

use std::collections::HashSet;

use super::Error;
use crate::chat::{Call, Event, Reply, id};

/// White space at the end of a text after which it is asked whether there is enough. Deep indentation stays below it.
const WHITE_SPACE_MAX: usize = 256;

/// A reply in the making.
#[derive(Debug)]
pub(super) struct Accumulator {
    reply: Reply,
    ids: HashSet<String>,
    bytes_max: usize,
    bytes: usize,
    /// So much white space at the end is worth the next look.
    look_at: usize,
}

impl Accumulator {
    /// An empty reply that may grow to `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { reply: Reply::default(), ids: HashSet::new(), bytes_max, bytes: 0, look_at: WHITE_SPACE_MAX }
    }

    /// Takes the next event.
    pub(super) fn push(&mut self, mut event: Event) {
        if let Event::CallStarted(call) = &mut event {
            self.give_id(call);
        }
        self.reply.add(event);
    }

    /// Counts an event of the backend. Fails when the reply exceeds the limit.
    pub(super) fn charge(&mut self, event: &Event) -> Result<(), Error> {
        self.bytes += size(event);
        if self.bytes > self.bytes_max { Err(Error::ReplyTooLong(self.bytes_max)) } else { Ok(()) }
    }

    /// The reply so far.
    pub(super) fn reply(&self) -> &Reply {
        &self.reply
    }

    /// The reasoning kept so far, which is told before what it led to.
    pub(super) fn take_reasoning(&mut self) -> Option<Event> {
        let reasoning = std::mem::take(&mut self.reply.reasoning);
        (!reasoning.is_empty()).then_some(Event::Reasoning(reasoning))
    }

    /// Forgets all text behind the first `length` bytes.
    pub(super) fn cut_content(&mut self, length: usize) {
        let content = &mut self.reply.content;
        content.truncate(content.floor_char_boundary(length));
    }

    /// Whether nothing but white space has come for a while, and what was said is `enough`. Looks seldom, since `enough` reads all of it.
    pub(super) fn is_padded(&mut self, enough: impl Fn(&Reply) -> bool) -> bool {
        let padding = self.reply.content.len() - self.reply.content.trim_end().len();
        if padding < WHITE_SPACE_MAX {
            self.look_at = WHITE_SPACE_MAX;
        }
        if padding < self.look_at {
            return false;
        }
        self.look_at = padding * 2;
        enough(&self.reply)
    }

    /// The reply. Its calls have distinct ids.
    pub(super) fn finish(self) -> Reply {
        self.reply
    }

    /// A call without an id, or with that of an earlier one, gets its own: a client answers calls by id.
    fn give_id(&mut self, call: &mut Call) {
        if call.id.is_empty() || self.ids.contains(&call.id) {
            call.id = id::mint("call_");
        }
        self.ids.insert(call.id.clone());
    }
}

fn size(event: &Event) -> usize {
    match event {
        Event::Reasoning(text) | Event::Content(text) | Event::Refusal(text) => text.len(),
        Event::CallStarted(call) => size_of::<Call>() + call.id.len() + call.name.len() + call.arguments.len(),
        Event::CallArguments { fragment, .. } => fragment.len(),
        Event::Logprobs(raw) | Event::Timings(raw) => raw.get().len(),
        Event::Started(_) | Event::Finished(_) | Event::Usage(_) | Event::Settled(_) | Event::Called(_) | Event::Progress(_) => 0,
    }
}
