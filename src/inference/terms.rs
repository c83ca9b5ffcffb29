//! By what one reply is judged: what was asked, what was offered, what may be shown and what was shown already.

use super::{Config, Guardrails, OnText, offer::Offer, rescue::reasoning};
use crate::chat::{Call, Reply, Request, ToolChoice, reply::PARAGRAPH};

/// The terms of one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) request: &'a Request,
    pub(super) offer: &'a Offer,
    pub(super) config: &'a Config,
    pub(super) guardrails: Guardrails,
    /// The model will not be asked again, whatever it says.
    pub(super) is_last: bool,
    /// Text of an earlier attempt was shown: the answer goes on from there, and what this one says beside its calls is left out.
    pub(super) goes_on: bool,
    /// What of the reply was shown: it is part of the answer, whatever is wrong with the rest.
    pub(super) shown: Shown,
}

/// What of a reply was shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    /// So many bytes of its text.
    pub(super) text: usize,
    /// Something that `respond` says.
    pub(super) spoke: bool,
    /// So many calls for the client, the first ones.
    pub(super) calls: usize,
}

impl Shown {
    /// Whether there is anything.
    pub(super) fn any(self) -> bool {
        self.text > 0 || self.spoke || self.calls > 0
    }
}

impl Terms<'_> {
    /// Whether text is not what was asked for.
    pub(super) fn call_is_due(&self) -> bool {
        match (&self.request.tool_choice, self.config.on_text) {
            (ToolChoice::Required | ToolChoice::Named(_), _) | (_, OnText::Nudge) => true,
            (_, OnText::Accept) => false,
            (_, OnText::Auto) => self.offer.responds,
        }
    }

    /// Whether text is an answer.
    pub(super) fn text_is_welcome(&self) -> bool {
        self.request.tool_choice == ToolChoice::None || !self.call_is_due() || !self.guardrails.nudge
    }

    /// Whether no such tool may be called, which its name alone tells.
    pub(super) fn is_unknown(&self, call: &Call) -> bool {
        let may_be_called = self.offer.find(&call.name).is_some() && self.named().is_none_or(|named| named == call.name);
        self.guardrails.validate && !may_be_called
    }

    /// The only tool that may be called, where the request names one.
    pub(super) fn named(&self) -> Option<&str> {
        match &self.request.tool_choice {
            ToolChoice::Named(name) => Some(name),
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Other => None,
        }
    }

    /// How much at the beginning of `reply` is reasoning that the template had opened. Known only before any of the text was shown.
    pub(super) fn unopened_reasoning(&self, reply: &Reply, text_shown: usize) -> usize {
        if text_shown > 0 { 0 } else { reasoning::unopened_end(reply.before_calls()) }
    }

    /// `text`, parted from what was shown before this attempt.
    pub(super) fn joined(&self, text: String) -> String {
        if self.goes_on && !text.is_empty() { format!("{PARAGRAPH}{text}") } else { text }
    }
}
