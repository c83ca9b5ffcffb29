//! One upstream reply while the model speaks: gathered, shown as far as it may be, and given up when no more of it is needed.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;

use super::{
    Config, Error, Reasoning,
    accumulate::Accumulator,
    hold::{Heard, Hold},
    judge::Terms,
};
use crate::{
    backend::{self, Events},
    chat::{Event, Meta, Reply},
};

/// A server that is faster than this has the whole reply at hand; a model gets a token or two further.
const CATCH_UP: Duration = Duration::from_millis(50);

/// A reply that is being heard.
#[derive(Debug)]
pub(super) struct Hearing {
    reply: Accumulator,
    hold: Hold,
    reasoning: Reasoning,
    failure: Option<Error>,
    /// Given up when so much of it had come.
    given_up: Option<Mark>,
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

impl Hearing {
    /// Nothing heard yet.
    pub(super) fn new(config: &Config) -> Self {
        let reply = Accumulator::new(config.reply_bytes_max);
        Self { reply, hold: Hold::default(), reasoning: config.reasoning, failure: None, given_up: None }
    }

    /// What the reply says about itself, as far as it has come.
    pub(super) fn meta(&self) -> &Meta {
        &self.reply.reply().meta
    }

    /// Whether no more is to be waited for.
    pub(super) fn is_over(&self) -> bool {
        self.failure.is_some() || self.given_up.is_some()
    }

    /// Takes the next event. Returns what may be shown now.
    pub(super) fn take(&mut self, event: Result<Event, backend::Error>, terms: Terms<'_>) -> Option<Event> {
        let heard = event.as_ref().map_or(Heard::Else, Heard::in_event);
        let shown = match self.gather(event) {
            Ok(shown) => shown,
            Err(error) => {
                self.failure = Some(error);
                return None;
            }
        };
        let reply = self.reply.reply();
        let shown = shown.or_else(|| self.hold.show(heard, reply, terms));
        let is_enough = self.hold.is_enough(heard, reply, terms);
        if is_enough || self.reply.is_padded(|reply| terms.is_padded_call(reply)) {
            tracing::debug!("reply is given up: no more of it is needed");
            self.given_up = Some(Mark::of(self.reply.reply()));
        }
        shown
    }

    /// After a reply was given up: takes what is on its way already, which may be all of it with its usage.
    pub(super) async fn catch_up(&mut self, events: &mut Events) {
        if self.given_up.is_none() {
            return;
        }
        let until = Instant::now() + CATCH_UP;
        while let Ok(Some(Ok(event))) = tokio::time::timeout_at(until, events.next()).await {
            if self.gather(Ok(event)).is_err() {
                return;
            }
        }
    }

    /// The reply, or how it failed, and what was shown of it. What came after it was given up counts only when it came to its end all the same.
    pub(super) fn finish(self) -> (Result<Reply, Error>, Hold) {
        let reply = match self.failure {
            Some(error) => Err(error),
            None => {
                let mut reply = self.reply.finish();
                if let Some(mark) = self.given_up.filter(|_| reply.finish.is_none()) {
                    mark.cut(&mut reply);
                }
                Ok(reply)
            }
        };
        (reply, self.hold)
    }

    /// Puts `event` into the reply. Returns it where it is shown instead of kept.
    fn gather(&mut self, event: Result<Event, backend::Error>) -> Result<Option<Event>, Error> {
        match event? {
            event @ Event::Reasoning(_) if self.reasoning != Reasoning::Hold => {
                self.reply.charge(&event)?;
                Ok((self.reasoning == Reasoning::Live).then_some(event))
            }
            event => self.reply.push(event).map(|()| None),
        }
    }
}
