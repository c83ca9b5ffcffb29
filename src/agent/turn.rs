//! One reply of the model: what of it the client sees, and which calls toolgate deals with itself.

use std::sync::Arc;

use super::continuation::{self, Mark};
use crate::{
    chat::{Call, Event, FinishReason, Meta, Report, Request, Usage, reply::PARAGRAPH},
    tools::Offer,
    wire::object::elements,
};

/// What of an answer the client has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// How it began, where nothing was said since: what fails before it says anything has a status of its own.
    pub(super) beginning: Option<Meta>,
    /// Whether it began.
    pub(super) started: bool,
    /// Whether it has text.
    pub(super) text: bool,
}

/// Who deals with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The client: it is a tool of its own.
    Client,
    /// toolgate: an MCP server's tool, or one that nobody offers.
    Own,
}

/// Whose calls are whose.
#[derive(Debug, Clone)]
pub(super) struct Owners {
    pub(super) offer: Arc<Offer>,
    pub(super) request: Arc<Request>,
}

/// What is kept of a turn until it is known whether it is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// Nothing: it may be shown.
    Nothing,
    /// All that comes.
    All,
}

/// A reply as it comes.
#[derive(Debug)]
pub(super) struct Turn {
    owners: Owners,
    /// What the client has seen.
    pub(super) shown: Shown,
    /// Whether text was shown before the turn.
    goes_on: bool,
    /// Whether reasoning is part of what the model said.
    keeps_reasoning: bool,
    /// Whether the client's calls that are shown as they come get ids of ours.
    marks: bool,
    /// The id of the record that these ids name.
    record: Option<String>,
    /// What the model said.
    pub(super) content: String,
    pub(super) reasoning: String,
    /// Its calls, in order, and who deals with them.
    pub(super) calls: Vec<(Call, Owner)>,
    /// The places of those that the client sees, and whether it saw them already.
    visible: Vec<(usize, bool)>,
    /// What the guardrails did, once it is settled.
    pub(super) report: Option<Report>,
    keeping: Keeping,
    kept: Vec<Event>,
    /// What it cost.
    pub(super) usage: Usage,
}

/// How a turn is begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Whether reasoning is part of what the model said.
    pub(super) keeps_reasoning: bool,
    /// Whether something may be kept behind the client's back.
    pub(super) marks: bool,
}

impl Owners {
    /// Who deals with a call of `name`.
    fn of(&self, name: &str) -> Owner {
        if self.offer.entries.is_empty() {
            return Owner::Client;
        }
        let is_known = || self.request.tools.iter().any(|tool| tool.name == name);
        if self.offer.find(name).is_some() || (!is_known() && self.knows_all()) { Owner::Own } else { Owner::Client }
    }

    /// Whether all tools that the model sees are functions whose names are known.
    fn knows_all(&self) -> bool {
        let offered = std::str::from_utf8(&self.request.tools_json).ok().and_then(elements);
        offered.is_some_and(|offered| offered.len() == self.request.tools.len())
    }
}

impl Turn {
    pub(super) fn new(owners: Owners, shown: Shown, terms: Terms) -> Self {
        Self {
            owners,
            goes_on: shown.text,
            shown,
            keeps_reasoning: terms.keeps_reasoning,
            marks: terms.marks,
            record: None,
            content: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            visible: Vec::new(),
            report: None,
            keeping: Keeping::Nothing,
            kept: Vec::new(),
            usage: Usage::default(),
        }
    }

    /// Takes the next event. Returns what the client sees of it at once.
    pub(super) fn take(&mut self, event: Event) -> impl Iterator<Item = Event> + use<> {
        let shown = self.filter(event);
        let (lead, shown) = match (self.keeping, shown) {
            (Keeping::All, Some(event)) => {
                self.kept.push(event);
                (None, None)
            }
            (Keeping::Nothing, Some(event)) => (self.lead(), Some(event)),
            (_, None) => (None, None),
        };
        lead.into_iter().chain(shown)
    }

    /// The beginning of the answer, where the client has not seen it.
    fn lead(&mut self) -> Option<Event> {
        self.shown.started |= self.shown.beginning.is_some();
        self.shown.beginning.take().map(Event::Started)
    }

    /// What the client sees of `event`.
    fn filter(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Settled(report) => {
                self.report = Some(report);
                self.keeping = Keeping::All;
                None
            }
            Event::Started(meta) => {
                if !self.shown.started {
                    self.shown.beginning.get_or_insert(meta);
                }
                None
            }
            Event::Reasoning(text) => {
                if self.keeps_reasoning {
                    self.reasoning.push_str(&text);
                }
                Some(Event::Reasoning(text))
            }
            Event::Content(text) => Some(Event::Content(self.say(text))),
            Event::CallStarted(call) => self.call(call),
            Event::CallArguments { index, fragment } => {
                let (call, owner) = self.calls.get_mut(index)?;
                call.arguments.push_str(&fragment);
                let is_shown = *owner == Owner::Client;
                let before = self.visible.iter().filter(|(place, _)| *place < index).count();
                is_shown.then_some(Event::CallArguments { index: before, fragment })
            }
            Event::Usage(usage) => {
                self.usage = usage;
                Some(Event::Usage(usage))
            }
            other => Some(other),
        }
    }

    /// Text, parted from that of the turns before.
    fn say(&mut self, text: String) -> String {
        let begins = self.content.is_empty() && self.goes_on && !text.is_empty();
        self.content.push_str(&text);
        self.shown.text |= !text.trim().is_empty();
        if begins { format!("{PARAGRAPH}{text}") } else { text }
    }

    /// A call. One that comes before the turn is settled is shown as it comes.
    fn call(&mut self, call: Call) -> Option<Event> {
        let owner = self.owners.of(&call.name);
        let place = self.calls.len();
        let is_shown = owner == Owner::Client;
        let at_once = self.keeping == Keeping::Nothing;
        self.calls.push((call.clone(), owner));
        if is_shown {
            self.visible.push((place, at_once));
        }
        (is_shown && at_once).then(|| {
            let id = if self.marks { self.mark(place, false) } else { call.id };
            Event::CallStarted(Call { id, ..call })
        })
    }

    /// The id by which the client knows the call at `place`, and by which it is found again.
    pub(super) fn mark(&mut self, place: usize, is_asked: bool) -> String {
        let record = self.record.get_or_insert_with(continuation::new_record);
        Mark { record, place, is_asked }.id()
    }

    /// Sees to it that there is a record.
    pub(super) fn begin_record(&mut self) {
        self.record.get_or_insert_with(continuation::new_record);
    }

    /// The record that the client's calls belong to, if it saw an id that names one.
    pub(super) fn record(&self) -> Option<&str> {
        self.record.as_deref()
    }

    /// Whether there is a call that toolgate deals with.
    pub(super) fn has_own_calls(&self) -> bool {
        self.calls.iter().any(|(_, owner)| *owner == Owner::Own)
    }

    /// Whether there is a call that the client deals with.
    pub(super) fn has_clients_calls(&self) -> bool {
        !self.visible.is_empty()
    }

    /// What was kept that the client may see whatever follows.
    pub(super) fn go_on(&mut self) -> Vec<Event> {
        let (words, rest): (Vec<Event>, Vec<Event>) = std::mem::take(&mut self.kept).into_iter().partition(is_said);
        self.kept = rest;
        self.told(words)
    }

    /// What was kept, for an answer that ends here and cost `usage` in all. `asked` are calls about which the client is asked, by their
    /// place; with `marks` the client's own get ids of ours too.
    pub(super) fn end(&mut self, usage: Usage, mut asked: Vec<(usize, Call)>, marks: bool) -> Vec<Event> {
        let (mut events, ends): (Vec<Event>, Vec<Event>) = std::mem::take(&mut self.kept).into_iter().partition(is_said);
        let has_calls = self.has_clients_calls() || !asked.is_empty();
        for (place, at_once) in std::mem::take(&mut self.visible) {
            let call = self.calls.get(place).map(|(call, _)| call.clone()).filter(|_| !at_once);
            asked.extend(call.map(|call| (place, if marks { Call { id: self.mark(place, false), ..call } } else { call })));
        }
        asked.sort_by_key(|(place, _)| *place);
        events.extend(asked.into_iter().map(|(_, call)| Event::CallStarted(call)));
        let end = |event| match event {
            Event::Usage(_) => Event::Usage(usage),
            Event::Finished(FinishReason::ToolCalls) if !has_calls => Event::Finished(FinishReason::Stop),
            Event::Finished(FinishReason::Stop) if has_calls => Event::Finished(FinishReason::ToolCalls),
            other => other,
        };
        events.extend(ends.into_iter().map(end));
        self.told(events)
    }

    /// `events` behind the beginning of the answer.
    fn told(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        if !events.is_empty()
            && let Some(lead) = self.lead()
        {
            events.insert(0, lead);
        }
        events
    }
}

/// Whether `event` is something that the model said.
fn is_said(event: &Event) -> bool {
    matches!(event, Event::Reasoning(_) | Event::Content(_) | Event::Refusal(_) | Event::Logprobs(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        budget::access::Access,
        chat::{Servers, Tool},
        tools::{
            Ask, Snapshot,
            config::Policy,
            definition::{Annotations, Definition},
        },
    };

    fn turn(shown: Shown) -> Turn {
        let tool = |name: &str| Tool { name: name.to_owned(), parameters: bytes::Bytes::new() };
        let definition = Definition {
            server: "s".into(),
            name: "own".to_owned(),
            description: String::new(),
            schema: "{}".into(),
            annotations: Annotations::default(),
        };
        let snapshot = Snapshot::new(vec![(Arc::new(definition), Policy::Allow)], Vec::new());
        let offer = snapshot.offer(Ask { servers: &Servers::Attached, access: &Access::default(), taken: &[], seen: &[] });
        let request = Request { tools: vec![tool("theirs"), tool("own")], tools_json: "[1,2]".into(), ..Request::default() };
        let owners = Owners { offer: Arc::new(offer), request: Arc::new(request) };
        Turn::new(owners, shown, Terms { keeps_reasoning: true, marks: true })
    }

    fn call(name: &str) -> Event {
        Event::CallStarted(Call { id: format!("{name}_1"), name: name.to_owned(), arguments: String::new() })
    }

    fn words(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        let word = |event| match event {
            Event::Started(_) => "start".to_owned(),
            Event::Content(text) => text,
            Event::CallStarted(call) => format!("{} {}", call.name, if call.id.starts_with(continuation::PREFIX) { "ours" } else { "" }),
            Event::CallArguments { index, fragment } => format!("{index}:{fragment}"),
            Event::Finished(reason) => reason.as_str().to_owned(),
            Event::Usage(usage) => usage.total_tokens().to_string(),
            other => format!("{other:?}"),
        };
        events.into_iter().map(word).collect()
    }

    fn take_all(turn: &mut Turn, events: impl IntoIterator<Item = Event>) -> Vec<String> {
        words(events.into_iter().flat_map(|event| turn.take(event)).collect::<Vec<_>>())
    }

    #[test]
    fn live_calls_keep_their_places_among_the_clients() {
        let mut turn = turn(Shown::default());
        let arguments = |index: usize| Event::CallArguments { index, fragment: "{}".to_owned() };
        let events = [call("own"), arguments(0), call("theirs"), arguments(1), call("nobodys"), arguments(2), call("theirs"), arguments(3)];
        let mut seen = take_all(&mut turn, [Event::Started(Meta::default())]);
        seen.extend(take_all(&mut turn, events));
        assert_eq!(seen, ["start", "theirs ours", "0:{}", "theirs ours", "1:{}"]);
        assert!(turn.has_own_calls() && turn.has_clients_calls());
    }

    #[test]
    fn nothing_is_begun_before_something_is_said() {
        let mut turn = turn(Shown::default());
        let report = Event::Settled(Report::default());
        let events = [Event::Started(Meta::default()), report, call("own"), Event::Finished(FinishReason::ToolCalls)];
        assert!(take_all(&mut turn, events).is_empty());
        assert!(turn.go_on().is_empty());
        assert!(turn.shown.beginning.is_some() && !turn.shown.started);
    }

    #[test]
    fn the_next_turn_says_its_text_apart() {
        let mut turn = turn(Shown { beginning: None, started: true, text: true });
        let say = |text: &str| Event::Content(text.to_owned());
        assert_eq!(take_all(&mut turn, [Event::Started(Meta::default()), say("a"), say("b")]), ["\n\na", "b"]);
    }

    #[test]
    fn an_end_with_calls_says_so_and_one_without_does_not() {
        let usage = Usage { prompt_tokens: 7, ..Usage::default() };
        let ending = |calls: Vec<Event>, asked: Vec<(usize, Call)>| {
            let mut turn = turn(Shown::default());
            let settled = Event::Settled(Report::default());
            let ends = [Event::Finished(FinishReason::ToolCalls), Event::Usage(Usage::default())];
            take_all(&mut turn, [Event::Started(Meta::default()), settled].into_iter().chain(calls).chain(ends));
            words(turn.end(usage, asked, true))
        };
        assert_eq!(ending(vec![call("own")], Vec::new()), ["start", "stop", "7"]);
        let asked = Call { id: "a".to_owned(), name: "s__own".to_owned(), arguments: String::new() };
        let expected = ["start", "s__own ", "theirs ours", "tool_calls", "7"];
        assert_eq!(ending(vec![call("own"), call("theirs")], vec![(0, asked)]), expected);
    }

    #[test]
    fn a_name_that_may_be_a_tool_of_another_kind_is_the_clients() {
        let mut owners = turn(Shown::default()).owners;
        assert_eq!((owners.of("own"), owners.of("theirs"), owners.of("nobodys")), (Owner::Own, Owner::Client, Owner::Own));
        Arc::make_mut(&mut owners.request).tools_json = "[1,2,{\"type\":\"custom\"}]".into();
        assert_eq!(owners.of("nobodys"), Owner::Client);
    }
}
