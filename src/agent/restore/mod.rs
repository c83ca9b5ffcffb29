//! What the client holds of a conversation, with what it does not see put back in its place.
//!
//! An assistant message whose calls belong to a record becomes the turns of that record, results included; the client's own results go
//! where their calls are. A message whose record is gone stays as it is. What the client decided is acted upon at the end of the history
//! alone: where the assistant spoke since, it was acted upon then.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    approval::{self, Decision, State, Verdict},
    calls::content,
    continuation::{Answer, Mark, PREFIX, Record},
    shelf::Shelf,
    transcript::{self, words},
};
use crate::{
    chat::Servers,
    wire::object::{Object, array, elements, encoded},
};

/// A conversation put together again.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// Its messages. Those that wait for what comes of a decision are missing.
    pieces: Vec<Piece>,
    /// Whether something is gone that the client did not see.
    pub(super) is_lost: bool,
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    /// The JSON of a message.
    Message(String),
    /// What comes of this is told here.
    Decision(Box<Decision>),
}

/// How a history is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'a> {
    /// How long what was found is kept from now on; as long as before where nothing is to be touched.
    pub(super) ttl: Option<Duration>,
    /// Whether approved calls may be made.
    pub(super) may_call: bool,
    /// On which servers.
    pub(super) servers: &'a Servers,
}

impl Reading<'_> {
    fn allows(&self, server: &str) -> bool {
        let is_named = || matches!(self.servers, Servers::Only(ids) if ids.iter().any(|id| id == server));
        self.may_call && (*self.servers == Servers::Attached || is_named())
    }
}

/// `messages` with what is kept of them on `shelf`; `None` when they have no part in anything that was kept.
pub(super) async fn restore(shelf: &Shelf, messages: &Bytes, reading: Reading<'_>) -> Option<Restored> {
    let text = std::str::from_utf8(messages).ok().filter(|text| text.contains(PREFIX))?;
    let list = elements(text)?;
    let heads: Vec<Head<'_>> = list.iter().map(|raw| serde_json::from_str(raw).unwrap_or_default()).collect();
    let mut records = HashMap::new();
    for id in heads.iter().flat_map(Head::marks).map(|mark| mark.record).collect::<BTreeSet<_>>() {
        if let Some(record) = Record::load(shelf, id, reading.ttl).await {
            records.insert(id, record);
        }
    }
    let mut weaving = Weaving { records: &records, restored: Restored::default(), open: None };
    for (raw, head) in list.iter().zip(&heads) {
        weaving.take(raw, head);
    }
    weaving.close();
    let mut restored = weaving.restored;
    restored.settle(shelf, reading).await;
    // An id of ours somewhere in a text is none of a call.
    let is_changed = restored.is_lost || !records.is_empty();
    is_changed.then_some(restored)
}

impl Restored {
    /// The decisions that calls wait for.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Decision(decision) => Some(&**decision),
            Piece::Message(_) => None,
        })
    }

    /// The messages. `contents` are what came of the decisions, in their order.
    pub(super) fn messages(&self, contents: impl IntoIterator<Item = String>) -> Bytes {
        let mut contents = contents.into_iter();
        let message = |piece: &Piece| match piece {
            Piece::Message(message) => message.clone(),
            Piece::Decision(decision) => {
                transcript::result(&decision.call_id, &contents.next().unwrap_or_else(|| content(approval::IS_UNKNOWN)))
            }
        };
        let messages: Vec<String> = self.pieces.iter().map(message).collect();
        array(messages.iter().map(String::as_str)).into()
    }

    /// Tells of the decisions what is known of them already.
    async fn settle(&mut self, shelf: &Shelf, reading: Reading<'_>) {
        let last_words = self.pieces.iter().rposition(Piece::is_assistants).unwrap_or_default();
        for (place, piece) in self.pieces.iter_mut().enumerate() {
            let Piece::Decision(decision) = piece else { continue };
            if let Some(content) = known(shelf, decision, reading, place < last_words).await {
                *piece = Piece::Message(transcript::result(&decision.call_id, &content));
            }
        }
    }
}

impl Piece {
    fn is_assistants(&self) -> bool {
        let Self::Message(message) = self else { return false };
        serde_json::from_str::<Head<'_>>(message).is_ok_and(|head| head.role == "assistant")
    }
}

/// What the model is told of `decision`, `None` where that is to be found out. One that `is_past` was acted upon before the assistant spoke
/// the last time.
async fn known(shelf: &Shelf, decision: &Decision, reading: Reading<'_>, is_past: bool) -> Option<String> {
    let may_call = reading.allows(&decision.asked.server) && !is_past;
    match approval::state(shelf, &decision.id).await {
        Some(State::Over(content)) => {
            // It is told as long as the record is.
            if let Some(ttl) = reading.ttl {
                approval::note(shelf, &decision.id, &State::Over(content.clone()), ttl).await;
            }
            Some(content)
        }
        // Another request may be making it, or about to note so: that is waited for.
        Some(State::Running) | None if may_call => None,
        None if approval::is_open(shelf, &decision.id).await => Some(content(if is_past { approval::IS_OVER } else { approval::IS_OFF })),
        Some(State::Running) => Some(content(approval::IS_UNKNOWN)),
        None => Some(forgotten(&decision.words)),
    }
}

/// What the model is told of a decision of which nothing is known but the client's `words`.
fn forgotten(words: &str) -> String {
    match approval::verdict(words) {
        Verdict::Approve => content(approval::IS_UNKNOWN),
        Verdict::Refuse(why) => content(&why),
    }
}

/// A message as far as it matters here.
#[derive(Debug, Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallHead<'a>>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct CallHead<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
}

impl Head<'_> {
    /// The ids of ours among those of its calls.
    fn marks(&self) -> impl Iterator<Item = Mark<'_>> {
        self.tool_calls.iter().flatten().filter_map(|call| Mark::read(call.id.as_deref()?))
    }

    /// The record that all its calls belong to, if they do.
    fn record(&self) -> Option<&str> {
        let mut marks = self.marks();
        let record = marks.next()?.record;
        let is_whole = self.tool_calls.as_ref().is_some_and(|calls| self.marks().count() == calls.len());
        (is_whole && marks.all(|mark| mark.record == record)).then_some(record)
    }

    fn words(&self) -> String {
        self.content
            .and_then(|content| serde_json::from_str::<Value>(content.get()).ok())
            .map(|content| words(&content))
            .unwrap_or_default()
    }
}

/// Puts the messages together, one after the other.
struct Weaving<'a> {
    records: &'a HashMap<&'a str, Record>,
    restored: Restored,
    /// The record whose results are being told.
    open: Option<Open<'a>>,
}

/// A turn of a record, and what the client says about its calls.
struct Open<'a> {
    id: &'a str,
    record: &'a Record,
    /// The client's answers by the place of their call: the message, and its words.
    answers: HashMap<usize, (&'a str, String)>,
    /// Results of other calls, which stay behind.
    others: Vec<&'a str>,
}

impl<'a> Weaving<'a> {
    fn take(&mut self, raw: &'a str, head: &Head<'_>) {
        if head.role == "tool" {
            return self.take_result(raw, head);
        }
        let record = head.record().and_then(|id| self.records.get_key_value(id));
        if let (Some(open), Some((id, _))) = (&self.open, record)
            && open.id == *id
        {
            // A client that shows each call in a message of its own: all of them are there.
            return;
        }
        self.close();
        let Some((id, record)) = record else {
            self.restored.is_lost |= head.marks().next().is_some();
            return self.push(raw.to_owned());
        };
        self.drop_what_is_told_again(record);
        elements(record.before.get()).into_iter().flatten().for_each(|message| self.push(message.to_owned()));
        self.push(record.assistant.get().to_owned());
        self.open = Some(Open { id, record, answers: HashMap::new(), others: Vec::new() });
    }

    fn take_result(&mut self, raw: &'a str, head: &Head<'_>) {
        let mark = head.tool_call_id.as_deref().and_then(Mark::read);
        match (&mut self.open, mark) {
            (Some(open), Some(mark)) if mark.record == open.id => {
                open.answers.entry(mark.place).or_insert_with(|| (raw, head.words()));
            }
            (_, Some(mark)) if mark.is_asked && !self.records.contains_key(mark.record) => {
                self.push(with(raw, "content", forgotten(&head.words())));
            }
            (Some(open), _) => open.others.push(raw),
            (None, _) => self.push(raw.to_owned()),
        }
    }

    /// The end of the results of a turn.
    fn close(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        for (place, call) in open.record.calls.iter().enumerate() {
            match (&call.answer, open.answers.remove(&place)) {
                (Answer::Hidden(content), _) => self.push(transcript::result(&call.id, content)),
                (Answer::Client, Some((raw, _))) => self.push(with(raw, "tool_call_id", encoded(&call.id))),
                (Answer::Asked(asked), Some((_, words))) => {
                    let id = Mark { record: open.id, place, is_asked: true }.id();
                    let decision = Decision { id, call_id: call.id.clone(), asked: (**asked).clone(), words };
                    self.restored.pieces.push(Piece::Decision(Box::new(decision)));
                }
                // The history's repair says so.
                (Answer::Client | Answer::Asked(_), None) => {}
            }
        }
        open.others.into_iter().for_each(|raw| self.push(raw.to_owned()));
    }

    /// What the run said before its last turn is in the record; a client that shows each text in a message of its own tells it twice.
    fn drop_what_is_told_again(&mut self, record: &Record) {
        let said = |raw: &str| serde_json::from_str::<Head<'_>>(raw).map(|head| head.words()).unwrap_or_default();
        let before = elements(record.before.get()).unwrap_or_default();
        let told: Vec<String> = before.into_iter().chain([record.assistant.get()]).map(said).collect();
        while let Some(Piece::Message(last)) = self.restored.pieces.last() {
            let head: Head<'_> = serde_json::from_str(last).unwrap_or_default();
            let words = head.words();
            let is_told = told.iter().any(|told| !told.is_empty() && told.trim() == words.trim());
            if head.role != "assistant" || head.tool_calls.is_some() || !is_told {
                return;
            }
            self.restored.pieces.pop();
        }
    }

    fn push(&mut self, message: String) {
        self.restored.pieces.push(Piece::Message(message));
    }
}

/// The message `raw` with `json` at `name`.
fn with(raw: &str, name: &'static str, json: String) -> String {
    let Some(mut message) = Object::read(raw) else { return raw.to_owned() };
    message.set(name, json);
    message.json()
}

#[cfg(test)]
mod tests;
