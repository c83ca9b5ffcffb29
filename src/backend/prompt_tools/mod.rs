//! Tools for servers and models that know none: they go into the system prompt, and calls and results into the text of the messages.
//!
//! Calls are written as Hermes and Qwen do, which many models have seen and `inference` reads out of any reply.
//!
//! **Nothing that speaks of tools goes up as a field**, and **the user and the assistant take turns** behind at most one system message,
//! whatever came in: templates without tools are often strict. **The same conversation becomes the same bytes**, and a longer one begins
//! with them up to its last message, so that the server's prompt cache holds. **A rewritten prompt is left alone.** A message that is not
//! understood goes up as it is, and with it whatever turn it takes.

mod call;
mod example;
mod instructions;
mod message;
mod turns;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use self::{
    call::Names,
    message::{Message, Role},
};
use super::{Offered, Prompt};
use crate::{
    chat::{self, Request, ToolChoice},
    wire::{
        content::joined,
        object::{array, elements, encoded},
    },
};

/// `prompt` with its tools, calls and results as text. The corrections become part of the messages.
pub fn rewritten(prompt: Prompt) -> Prompt {
    let instructions = instructions(&prompt);
    let messages = std::str::from_utf8(&prompt.request.messages).ok().and_then(elements);
    let Some(messages) = messages else {
        // The server is to say what is wrong with them.
        return Prompt { request: Arc::new(without_tools(&prompt.request)), offered: Offered::Withheld, ..prompt };
    };
    let mut list: Vec<Message<'_>> = messages.iter().map(|message| Message::read(message)).collect();
    list.extend(prompt.corrections.iter().map(added));
    let mut names = Names::default();
    list.iter_mut().for_each(|message| call::make_text(message, &mut names));
    let mut list = turns::alternate(turns::place_systems(list));
    if let Some(instructions) = &instructions {
        instruct(&mut list, instructions);
        if prompt.form.is_some() {
            ask_for_form(&mut list);
        }
    }
    let json: Vec<_> = list.iter().map(Message::json).collect();
    let messages = Bytes::from(array(json.iter().map(AsRef::as_ref)));
    let request = Arc::new(without_tools(&prompt.request).with_messages(messages));
    Prompt { request, offered: Offered::Withheld, corrections: Vec::new(), ..prompt }
}

/// What the system prompt says of the tools; `None` when the model sees none.
fn instructions(prompt: &Prompt) -> Option<String> {
    let tools = match (&prompt.offered, &prompt.request.tool_choice) {
        (Offered::Withheld, _) | (_, ToolChoice::None) => return None,
        (Offered::Instead(tools), _) => tools,
        (Offered::AsRequested, _) => &prompt.request.tools_json,
    };
    instructions::of(std::str::from_utf8(tools).ok()?, &prompt.request)
}

/// The instructions stand behind the client's own words: those may be the same for other tools, and last said is best heard.
fn instruct(list: &mut Vec<Message<'_>>, instructions: &str) {
    let instructions = encoded(instructions);
    match list.first_mut().filter(|first| first.role == Role::System) {
        Some(system) => {
            let content = joined([system.content(), &instructions]);
            // Templates without tools seldom know `developer`.
            system.set("role", encoded("system"));
            system.set("content", content);
        }
        None => list.insert(0, Message::added(Role::System, instructions)),
    }
}

/// A reply that is forced to be one JSON object has no room for tags. That is said at the end, since only some replies are forced: in the
/// system prompt it would change the beginning of the prompt.
fn ask_for_form(list: &mut [Message<'_>]) {
    if let Some(last) = list.last_mut().filter(|last| last.role == Role::User) {
        let content = joined([last.content(), &encoded(BARE_CALL)]);
        last.set("content", content);
    }
}

const BARE_CALL: &str = "Answer with one call now, this time as the JSON object alone, without tags.";

/// `request` without all that speaks of tools.
fn without_tools(request: &Request) -> Request {
    let mut request = Request {
        tools_json: Bytes::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        ..request.clone()
    };
    request.fields.retain(|(name, _)| !matches!(name.as_str(), "tools" | "tool_choice" | "parallel_tool_calls"));
    request
}

/// A correction as a message of a client.
fn added<'a>(correction: &chat::Message) -> Message<'a> {
    match correction {
        chat::Message::User(content) => Message::added(Role::User, encoded(content)),
        chat::Message::Assistant { content, calls } => {
            let calls: Vec<String> = calls.iter().map(call::json).collect();
            let mut message = Message::added(Role::Assistant, encoded(content));
            if !calls.is_empty() {
                message.set("tool_calls", array(calls.iter().map(String::as_str)));
            }
            message
        }
        chat::Message::Tool { call_id, content } => {
            let mut message = Message::added(Role::Tool, encoded(content));
            message.set("tool_call_id", encoded(call_id));
            message
        }
    }
}
