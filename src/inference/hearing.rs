//! One upstream reply while the model speaks: gathered, shown as far as it may be, and stopped when no more of it is needed.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;

use super::{
    Error, Reasoning,
    accumulate::Accumulator,
    forced,
    hold::{Heard, Hold},
    judge::Stuck,
    repetition::Repetition,
    terms::Terms,
    thinking::Splitter,
};
use crate::{
    backend::{self, Events},
    chat::{Event, FinishReason, Meta, Reply},
};

/// A server that is faster than this has the whole reply at hand; a model gets a token or two further.
const CATCH_UP: Duration = Duration::from_millis(50);

/// After a forced call nothing but the end of the reply can come, and the usage behind it: some tokens' time on a slow machine.
const CATCH_UP_WHOLE: Duration = Duration::from_millis(250);

/// A reply that is being heard.
#[derive(Debug)]
pub(super) struct Hearing {
    splitter: Splitter,
    /// Where the form of a call was asked for.
    forced: Option<forced::Reader>,
    repetition: Repetition,
    /// What is followed for repetition.
    followed: Followed,
    reply: Accumulator,
    hold: Hold,
    reasoning: Reasoning,
    over: Option<Over>,
}

/// Why no more of a reply is waited for.
#[derive(Debug)]
enum Over {
    Failed(Error),
    /// It is wrong, or holds all that is wanted, since so much of it came.
    Enough(Mark),
    /// The call that was forced is whole: nothing else was asked for.
    Whole,
    Stuck(Stuck),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Reasoning,
    Content,
    Calls,
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy)]
struct Mark {
    calls: usize,
    content: usize,
    refusal: usize,
}

impl Mark {
    fn of(reply: &Reply) -> Self {
        Self { calls: reply.calls.len(), content: reply.content.len(), refusal: reply.refusal.len() }
    }

    fn cut(self, reply: &mut Reply) {
        reply.calls.truncate(self.calls);
        reply.content.truncate(self.content);
        reply.refusal.truncate(self.refusal);
    }
}

/// A reply that was heard.
#[derive(Debug)]
pub(super) struct Outcome {
    /// All of it, or why it failed.
    pub(super) reply: Result<Reply, Error>,
    /// Why it was stopped, if it would have gone on for nothing.
    pub(super) stuck: Option<Stuck>,
    /// What of it was shown.
    pub(super) hold: Hold,
}

impl Hearing {
    /// Nothing heard yet.
    pub(super) fn new(terms: Terms<'_>, is_forced: bool) -> Self {
        let config = terms.config;
        Self {
            splitter: Splitter::default(),
            forced: is_forced.then(forced::Reader::default),
            repetition: Repetition::new(config.repetitions_max),
            followed: Followed::Reasoning,
            reply: Accumulator::new(config.reply_bytes_max),
            hold: Hold::new(terms),
            reasoning: config.reasoning,
            over: None,
        }
    }

    /// What the reply says about itself, as far as it has come.
    pub(super) fn meta(&self) -> &Meta {
        &self.reply.reply().meta
    }

    /// Whether no more is to be waited for.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Takes the next event. Returns what may be shown now.
    pub(super) fn take(&mut self, event: Result<Event, backend::Error>, terms: Terms<'_>) -> Vec<Event> {
        let mut shown = Vec::new();
        match event {
            Err(error) => self.over = Some(Over::Failed(error.into())),
            Ok(mut event) => {
                // Before anything is held back of it: what is held counts too.
                let repeats = self.cut_where_it_repeats(&mut event);
                if let Err(error) = self.reply.charge(&event) {
                    self.over = Some(Over::Failed(error));
                    return shown;
                }
                for event in self.told_apart(event) {
                    if self.over.is_none() {
                        self.over = self.take_one(event, terms, &mut shown);
                    }
                }
                let is_whole = self.forced.as_ref().is_some_and(forced::Reader::is_whole);
                let ended = || match () {
                    () if repeats => Some(Over::Stuck(Stuck::Repeats)),
                    () if is_whole => Some(Over::Whole),
                    () => None,
                };
                self.over = self.over.take().or_else(ended);
            }
        }
        shown
    }

    /// What `event` says: reasoning and calls apart from the text in which they came.
    fn told_apart(&mut self, event: Event) -> Vec<Event> {
        let events = self.splitter.split(event);
        match &mut self.forced {
            None => events,
            Some(forced) => events.into_iter().flat_map(|event| forced.read(event)).collect(),
        }
    }

    fn take_one(&mut self, event: Event, terms: Terms<'_>, shown: &mut Vec<Event>) -> Option<Over> {
        let heard = Heard::in_event(&event);
        shown.extend(self.gather(event));
        if let Some(event) = self.hold.show(heard, self.reply.reply(), terms) {
            // What led to it comes first.
            shown.extend(self.reply.take_reasoning());
            shown.push(event);
        }
        let reply = self.reply.reply();
        if self.hold.holds_text() && reply.calls.is_empty() && reply.content.len() > terms.config.held_bytes_max {
            if !terms.is_last && !terms.text_is_welcome() {
                self.reply.cut_content(terms.config.held_bytes_max);
                return Some(Over::Stuck(Stuck::TooLong));
            }
            let text = self.hold.release(reply, terms);
            shown.extend(self.reply.take_reasoning());
            shown.extend(text);
        }
        let reply = self.reply.reply();
        let is_enough = self.hold.is_enough(heard, reply, terms) || self.reply.is_padded(|reply| terms.is_padded_call(reply));
        is_enough.then(|| Over::Enough(Mark::of(self.reply.reply())))
    }

    /// After a reply held enough: takes what is on its way already, which may be all of it with its usage.
    pub(super) async fn catch_up(&mut self, events: &mut Events) {
        let is_whole = matches!(self.over, Some(Over::Whole));
        if !is_whole && !matches!(self.over, Some(Over::Enough(_))) {
            return;
        }
        let until = Instant::now() + if is_whole { CATCH_UP_WHOLE } else { CATCH_UP };
        while let Ok(Some(Ok(event))) = tokio::time::timeout_at(until, events.next()).await {
            if self.reply.charge(&event).is_err() {
                return;
            }
            if is_whole && !matches!(event, Event::Usage(_) | Event::Timings(_)) {
                continue;
            }
            for event in self.told_apart(event) {
                self.gather(event);
            }
        }
    }

    /// The end. What came after the reply held enough counts only when it came to a good end all the same.
    pub(super) fn finish(self) -> Outcome {
        let (mut reply, mut stuck) = (Ok(self.reply.finish()), None);
        match (self.over, &mut reply) {
            (Some(Over::Failed(error)), _) => reply = Err(error),
            (Some(Over::Stuck(why)), _) => stuck = Some(why),
            (Some(Over::Enough(mark)), Ok(reply)) if !matches!(reply.finish, Some(FinishReason::Stop | FinishReason::ToolCalls)) => {
                reply.finish = None;
                mark.cut(reply);
            }
            _ => {}
        }
        Outcome { reply, stuck, hold: self.hold }
    }

    /// Puts `event` into the reply. Returns it where it is shown instead of kept.
    fn gather(&mut self, event: Event) -> Option<Event> {
        match event {
            event @ Event::Reasoning(_) if self.reasoning != Reasoning::Hold || self.hold.shown().any() => {
                (self.reasoning != Reasoning::Drop).then_some(event)
            }
            event => {
                self.reply.push(event);
                None
            }
        }
    }

    /// Whether `event` makes the reply one that repeats itself; it is cut off there.
    fn cut_where_it_repeats(&mut self, event: &mut Event) -> bool {
        let (followed, text) = match event {
            Event::Reasoning(text) => (Followed::Reasoning, text),
            Event::Content(text) => (Followed::Content, text),
            Event::CallStarted(call) => {
                // The same call again and again is a repetition too.
                if self.followed == Followed::Calls && self.repetition.push(call.name.as_bytes()).is_some() {
                    return true;
                }
                (Followed::Calls, &mut call.arguments)
            }
            Event::CallArguments { fragment, .. } => (Followed::Calls, fragment),
            _ => return false,
        };
        if std::mem::replace(&mut self.followed, followed) != followed {
            self.repetition.restart();
        }
        let Some(at) = self.repetition.push(text.as_bytes()) else { return false };
        text.truncate(text.floor_char_boundary(at));
        true
    }
}
