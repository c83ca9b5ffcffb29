//! The conversation as the API wants it: the system's words apart, user and assistant in turn and the user first, every call answered at the
//! beginning of the message behind it, nothing blank.

use std::{borrow::Cow, collections::HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{calls, content, refuse::invalid};
use crate::{
    backend::Error,
    chat,
    wire::{
        anthropic::request::{Block, Made, Message, Role},
        text::Text,
    },
};

/// A conversation.
#[derive(Default)]
pub(super) struct Transcript<'a> {
    pub(super) system: Vec<Block<'a>>,
    pub(super) messages: Vec<Message<'a>>,
    /// The calls of the last assistant message that have no result yet.
    open: Vec<Open<'a>>,
    /// The ids of all calls.
    taken: HashSet<String>,
}

/// A call without a result.
struct Open<'a> {
    /// Its id in the request.
    given: Cow<'a, str>,
    /// Its id here.
    id: Cow<'a, str>,
}

/// A message as far as it is read.
#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default)]
    role: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking_blocks: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<calls::Given<'a>>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Text<'a>>,
}

/// What stands where the API wants a user's message and there is none.
const BEGIN: &str = "(begin)";

impl<'a> Transcript<'a> {
    /// The conversation of `messages`, a JSON array, and of `corrections` behind it. Fails when it cannot be told in blocks.
    pub(super) fn of(messages: &'a [u8], corrections: &'a [chat::Message]) -> Result<Self, Error> {
        let given: Vec<Given<'a>> =
            serde_json::from_slice(messages).map_err(|error| invalid("messages", format!("The messages cannot be read: {error}.")))?;
        let mut transcript = Self::default();
        for message in given {
            transcript.take(message)?;
        }
        for message in corrections {
            transcript.correct(message);
        }
        transcript.complete();
        Ok(transcript)
    }

    /// Whether the model may think first: not when it goes on with a message, and not when it called without signed thinking before.
    pub(super) fn lets_think(&self) -> bool {
        let last = self.messages.iter().rfind(|message| message.role == Role::Assistant);
        let calls = last.is_some_and(|message| names(message).next().is_some());
        let thought = last.is_some_and(|message| matches!(message.content.first(), Some(Block::Given(_))));
        self.messages.last().is_some_and(|message| message.role == Role::User) && (!calls || thought)
    }

    /// The names of the tools that were called.
    pub(super) fn called(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().flat_map(names)
    }

    /// Asks that the prompt be cached up to the end of what the system says, and up to the last word of the user.
    pub(super) fn mark(&mut self) {
        let user = self.messages.iter_mut().rfind(|message| message.role == Role::User);
        let ends = [self.system.last_mut(), user.and_then(|message| message.content.last_mut())];
        ends.into_iter().flatten().for_each(Block::mark);
    }

    fn take(&mut self, message: Given<'a>) -> Result<(), Error> {
        let mut blocks = content::blocks(message.content)?;
        match message.role.as_ref().map_or("", |role| role.0.as_ref()) {
            "system" | "developer" if self.messages.is_empty() => self.system.append(&mut blocks),
            "system" | "developer" | "user" => self.user(blocks),
            "assistant" => {
                let thinking = message.thinking_blocks.into_iter().flatten().filter(|block| is_signed(block)).map(Block::Given);
                let refusal = message.refusal.and_then(|refusal| content::text(refusal.0));
                let said = thinking.chain(blocks).chain(refusal).collect();
                self.assistant(said, message.tool_calls.unwrap_or_default());
            }
            "tool" | "function" => self.result(message.tool_call_id.map(|id| id.0), blocks),
            role => return Err(invalid("messages", format!("The backend knows no role `{role}`."))),
        }
        Ok(())
    }

    fn correct(&mut self, message: &'a chat::Message) {
        match message {
            chat::Message::User(text) => self.user(content::text(text).into_iter().collect()),
            chat::Message::Tool { call_id, content } => self.result(Some(call_id.into()), content::text(content).into_iter().collect()),
            chat::Message::Assistant { content, calls } => {
                self.assistant(content::text(content).into_iter().collect(), calls.iter().map(calls::Given::from).collect());
            }
        }
    }

    fn user(&mut self, mut blocks: Vec<Block<'a>>) {
        if !blocks.is_empty() {
            self.turn(Role::User).append(&mut blocks);
        }
    }

    /// Calls that follow calls are made at once; words that follow calls come after their results.
    fn assistant(&mut self, mut blocks: Vec<Block<'a>>, calls: Vec<calls::Given<'a>>) {
        if blocks.is_empty() && calls.is_empty() {
            return;
        }
        let goes_on = self.messages.last().is_some_and(|message| message.role == Role::Assistant);
        if !goes_on || calls.is_empty() {
            self.settle();
        }
        for call in calls {
            blocks.push(self.call(call));
        }
        if self.messages.is_empty() {
            self.user(vec![Block::text(BEGIN)]);
        }
        self.turn(Role::Assistant).append(&mut blocks);
    }

    /// A call, whose id no other call has.
    fn call(&mut self, call: calls::Given<'a>) -> Block<'a> {
        let calls::Given { id: given, function } = call;
        let given = given.map(|id| id.0).unwrap_or_default();
        let mut id = if given.is_empty() { Cow::Borrowed("call") } else { calls::id(given.clone()) };
        if !self.taken.insert(id.clone().into_owned()) {
            // As many have been taken as there are numbers below.
            let free = (1..=self.taken.len() + 1).map(|number| format!("{id}_{number}")).find(|id| !self.taken.contains(id));
            id = free.map_or(id, Cow::Owned);
            self.taken.insert(id.clone().into_owned());
        }
        self.open.push(Open { given, id: id.clone() });
        Block::Made(function.block(id))
    }

    /// A result belongs to the open call of its id, or to the first where it names none. Without a call it is something that the user says.
    fn result(&mut self, id: Option<Cow<'a, str>>, mut blocks: Vec<Block<'a>>) {
        let answered = match &id {
            Some(id) => self.open.iter().position(|call| call.given == *id),
            None => (!self.open.is_empty()).then_some(0),
        };
        match answered.map(|place| self.open.remove(place)) {
            Some(call) => self.answer(Made::ToolResult { tool_use_id: call.id, content: blocks, is_error: false, cache_control: None }),
            None if blocks.is_empty() => {}
            None => {
                blocks.insert(0, Block::text("Result of a tool call:"));
                self.user(blocks);
            }
        }
    }

    /// Results stand before what the user says.
    fn answer(&mut self, result: Made<'a>) {
        let turn = self.turn(Role::User);
        let results = turn.iter().take_while(|block| matches!(block, Block::Made(Made::ToolResult { .. }))).count();
        turn.insert(results, Block::Made(result));
    }

    /// Tells the model that no result came for what is still open.
    fn settle(&mut self) {
        for call in std::mem::take(&mut self.open) {
            self.answer(calls::no_result(call.id));
        }
    }

    /// The blocks of the last message if that is `role`'s, else of a new one.
    fn turn(&mut self, role: Role) -> &mut Vec<Block<'a>> {
        let is_new = self.messages.last().is_none_or(|message| message.role != role);
        let message = if is_new { Some(Message { role, content: Vec::new() }) } else { self.messages.pop() };
        &mut self.messages.push_mut(message.unwrap_or(Message { role, content: Vec::new() })).content
    }

    fn complete(&mut self) {
        self.settle();
        if self.messages.is_empty() && !self.system.is_empty() {
            self.user(vec![Block::text(BEGIN)]);
        }
        // The API does not go on behind white space.
        if let Some(Message { role: Role::Assistant, content }) = self.messages.last_mut()
            && let Some(Block::Made(Made::Text { text, .. })) = content.last_mut()
        {
            let length = text.trim_end().len();
            text.to_mut().truncate(length);
        }
    }
}

fn names<'m>(message: &'m Message<'_>) -> impl Iterator<Item = &'m str> + use<'m> {
    message.content.iter().filter_map(|block| match block {
        Block::Made(Made::ToolUse { name, .. }) => Some(name.as_ref()),
        _ => None,
    })
}

/// Whether a block of thinking is one that the API itself made: it refuses others.
fn is_signed(block: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Thinking<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow, default)]
        signature: Option<Text<'a>>,
        #[serde(borrow, default)]
        data: Option<Text<'a>>,
    }
    let seal = serde_json::from_str::<Thinking<'_>>(block.get()).ok().and_then(|block| match block.kind.0.as_ref() {
        "thinking" => block.signature,
        "redacted_thinking" => block.data,
        _ => None,
    });
    seal.is_some_and(|seal| !seal.0.is_empty())
}

#[cfg(test)]
mod tests;
