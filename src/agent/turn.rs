//! One reply of the model: what of it the client sees, and which calls toolgate runs itself.

use crate::{
    chat::{Call, Event, FinishReason, Report, Usage, reply::PARAGRAPH},
    tools::Offer,
};

/// What of an answer the client has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Its beginning.
    pub(super) started: bool,
    /// Text.
    pub(super) text: bool,
}

/// A reply as it comes.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    offer: &'a Offer,
    /// What the client had seen when the turn began.
    before: Shown,
    /// Whether the answer has begun for the client.
    started: bool,
    /// What the model said.
    pub(super) content: String,
    /// Its calls, in order.
    pub(super) calls: Vec<Call>,
    /// What the guardrails did, once it is settled.
    pub(super) report: Option<Report>,
    /// What comes once it is settled: kept until it is known whether this is the last turn.
    kept: Vec<Event>,
    /// How many calls the client sees.
    shown_calls: usize,
    /// What it cost.
    pub(super) usage: Usage,
}

impl<'a> Turn<'a> {
    pub(super) fn new(offer: &'a Offer, before: Shown) -> Self {
        Self {
            offer,
            before,
            started: before.started,
            content: String::new(),
            calls: Vec::new(),
            report: None,
            kept: Vec::new(),
            shown_calls: 0,
            usage: Usage::default(),
        }
    }

    /// Takes the next event. Returns what the client sees of it at once.
    pub(super) fn take(&mut self, event: Event) -> Option<Event> {
        if let Event::Settled(report) = event {
            self.report = Some(report);
            return None;
        }
        let shown = self.shown(event)?;
        if self.report.is_none() {
            return Some(shown);
        }
        self.kept.push(shown);
        None
    }

    /// What the client sees of `event`.
    fn shown(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Started(meta) => (!std::mem::replace(&mut self.started, true)).then_some(Event::Started(meta)),
            Event::Content(text) => {
                let begins = self.content.is_empty() && self.before.text && !text.is_empty();
                self.content.push_str(&text);
                Some(Event::Content(if begins { format!("{PARAGRAPH}{text}") } else { text }))
            }
            Event::CallStarted(call) => {
                let own = self.is_own(&call);
                self.calls.push(call.clone());
                self.shown_calls += usize::from(!own);
                (!own).then_some(Event::CallStarted(call))
            }
            Event::CallArguments { index, fragment } => {
                let call = self.calls.get_mut(index)?;
                call.arguments.push_str(&fragment);
                let own = self.calls.get(index).is_some_and(|call| self.is_own(call));
                let before = self.calls.iter().take(index).filter(|call| !self.is_own(call)).count();
                (!own).then_some(Event::CallArguments { index: before, fragment })
            }
            Event::Usage(usage) => {
                self.usage = usage;
                Some(Event::Usage(usage))
            }
            other => Some(other),
        }
    }

    /// Whether toolgate runs the call.
    pub(super) fn is_own(&self, call: &Call) -> bool {
        self.offer.find(&call.name).is_some()
    }

    /// Whether there is a call that toolgate runs.
    pub(super) fn has_own_calls(&self) -> bool {
        self.calls.iter().any(|call| self.is_own(call))
    }

    /// Whether there is a call that the client runs.
    pub(super) fn has_clients_calls(&self) -> bool {
        self.shown_calls > 0
    }

    /// What was kept, for an answer that goes on: without its end.
    pub(super) fn go_on(&mut self) -> Vec<Event> {
        let is_inner = |event: &Event| matches!(event, Event::Finished(_) | Event::Usage(_) | Event::Timings(_));
        std::mem::take(&mut self.kept).into_iter().filter(|event| !is_inner(event)).collect()
    }

    /// What was kept, for an answer that ends here and cost `usage` in all.
    pub(super) fn end(&mut self, usage: Usage) -> Vec<Event> {
        let has_calls = self.has_clients_calls();
        let end = |event| match event {
            Event::Usage(_) => Event::Usage(usage),
            Event::Finished(FinishReason::ToolCalls) if !has_calls => Event::Finished(FinishReason::Stop),
            other => other,
        };
        std::mem::take(&mut self.kept).into_iter().map(end).collect()
    }

    /// What the client has seen now.
    pub(super) fn shown_so_far(&self) -> Shown {
        Shown { started: self.started, text: self.before.text || !self.content.is_empty() }
    }
}
