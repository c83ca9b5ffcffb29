//! The system prompt and the messages as OpenAI's list: what an assistant called and what the tools answered stand in messages of their own
//! there.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    decode::{missing, wrong},
    parts::{Block, Content, Part, Place, blocks, content, reminder},
};
use crate::chat::Problem;

/// A line at the beginning of Claude Code's system prompt that is for Anthropic's accounts. It differs from request to request, so no
/// backend could keep what it read of the prompt before.
const ACCOUNTS_LINE: &str = "x-anthropic-billing-header:";

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// One message in OpenAI's words.
#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

/// What a conversation holds that matters beside its messages.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The calls in it.
    pub(super) call_ids: HashSet<String>,
    /// The tools that it speaks of, and whether they can be called from there on.
    pub(super) tools: Vec<(String, bool)>,
}

/// The JSON array of messages, the system prompt first.
pub(super) fn read(system: Option<&Bytes>, messages: Option<&Bytes>) -> Result<(Bytes, Seen), Problem> {
    let messages = messages.ok_or_else(|| missing("messages"))?;
    let given: Vec<&RawValue> = serde_json::from_slice(messages).map_err(|_| wrong("messages", "a list of messages"))?;
    if given.is_empty() {
        return Err(Problem::invalid("messages", "`messages` is empty; at least one message is expected."));
    }
    let (mut list, mut seen) = (Vec::with_capacity(given.len() + 1), Seen::default());
    let system = system.map_or(Ok(String::new()), |system| prompt(system, &mut seen))?;
    if !system.is_empty() {
        list.push(Message::of("system", Content::Text(system)));
    }
    for (index, raw) in given.into_iter().enumerate() {
        let message: Given<'_> =
            serde_json::from_str(raw.get()).map_err(|_| wrong(&format!("messages.{index}"), "an object with `role` and `content`"))?;
        let place = Place::message(index);
        let said = message.content.filter(|content| content.get() != "null").ok_or_else(|| missing(&place.to_string()))?;
        match message.role.as_ref() {
            "user" => user(said, place, &mut list, &mut seen)?,
            "assistant" => list.push(assistant(said, place, &mut seen)?),
            "system" => list.push(system_between(said, place, &mut seen)?),
            "" => return Err(missing(&format!("messages.{index}.role"))),
            _ => return Err(wrong(&format!("messages.{index}.role"), "`user`, `assistant` or `system`")),
        }
    }
    // Strings and raw JSON always serialise.
    Ok((serde_json::to_vec(&list).unwrap_or_default().into(), seen))
}

impl<'a> Message<'a> {
    fn of(role: &'static str, content: Content<'a>) -> Self {
        Self { role, tool_call_id: None, content: Some(content), reasoning_content: String::new(), tool_calls: Vec::new() }
    }
}

fn is_string(said: &RawValue) -> bool {
    said.get().starts_with('"')
}

/// The system prompt, from a string or from blocks.
fn prompt(system: &[u8], seen: &mut Seen) -> Result<String, Problem> {
    let said: &RawValue = serde_json::from_slice(system).map_err(|_| wrong("system", "a string or a list of text blocks"))?;
    Ok(match texts(said, Place::SYSTEM, seen, without_accounts)? {
        Content::Text(text) => text,
        Content::Raw(_) | Content::Parts(_) => return Err(wrong("system", "a string or a list of text blocks")),
    })
}

/// A string or blocks as one content, each text through `change`. A text that is nothing then is left out.
fn texts(said: &RawValue, place: Place, seen: &mut Seen, change: fn(String) -> String) -> Result<Content<'static>, Problem> {
    let parts = if is_string(said) {
        vec![Part::text(serde_json::from_str::<String>(said.get()).map_err(|_| wrong(&place.to_string(), "a string"))?)]
    } else {
        blocks(said.get(), place)?.iter().map(|(block, place)| block.part(*place, seen)).collect::<Result<_, _>>()?
    };
    let changed = |part| match part {
        Part::Text { text } => Part::text(change(text)),
        other @ (Part::ImageUrl { .. } | Part::File { .. }) => other,
    };
    let says_something = |part: &Part| !matches!(part, Part::Text { text } if text.is_empty());
    Ok(content(parts.into_iter().map(changed).filter(says_something).collect()))
}

fn without_accounts(text: String) -> String {
    if !text.starts_with(ACCOUNTS_LINE) {
        return text;
    }
    text.split_once('\n').map_or_else(String::new, |(_, rest)| rest.trim_start().to_owned())
}

/// The system's words in mid-conversation.
fn system_between(said: &RawValue, place: Place, seen: &mut Seen) -> Result<Message<'static>, Problem> {
    let content = match texts(said, place, seen, |text| text)? {
        Content::Text(text) => Content::Text(reminder(&text)),
        other => other,
    };
    Ok(Message::of("user", content))
}

/// A user's message: the results of tools first, since they belong behind the calls, then what the user says, with the images that the
/// tools returned.
fn user<'a>(said: &'a RawValue, place: Place, list: &mut Vec<Message<'a>>, seen: &mut Seen) -> Result<(), Problem> {
    if is_string(said) {
        list.push(Message::of("user", Content::Raw(said)));
        return Ok(());
    }
    let (mut parts, mut shown) = (Vec::new(), Vec::new());
    let before = list.len();
    for (block, place) in blocks(said.get(), place)? {
        if block.kind() == "tool_result" {
            list.push(result(block, place, &mut shown, seen)?);
        } else {
            parts.push(block.part(place, seen)?);
        }
    }
    shown.append(&mut parts);
    if !shown.is_empty() || list.len() == before {
        list.push(Message::of("user", content(shown)));
    }
    Ok(())
}

/// What a tool returned. OpenAI's results are text: images go to `shown`, for the message behind.
fn result<'a>(block: Block<'a>, place: Place, shown: &mut Vec<Part>, seen: &mut Seen) -> Result<Message<'a>, Problem> {
    let id = block.tool_use_id.ok_or_else(|| missing(&place.field("tool_use_id")))?;
    let said = block.content.filter(|content| content.get() != "null");
    let failed = block.is_error.unwrap_or(false);
    let text = match said {
        None => Content::Text(String::new()),
        Some(said) if is_string(said) && !failed => Content::Raw(said),
        Some(said) if is_string(said) => {
            Content::Text(serde_json::from_str(said.get()).map_err(|_| wrong(&place.field("content"), "a string"))?)
        }
        Some(said) => {
            let parts: Vec<Part> =
                blocks(said.get(), place)?.iter().map(|(block, place)| block.part(*place, seen)).collect::<Result<_, _>>()?;
            let (texts, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(Part::is_text);
            let elsewhere = texts.is_empty() && !others.is_empty();
            shown.extend(others);
            if elsewhere { Content::Text(ELSEWHERE.to_owned()) } else { content(texts) }
        }
    };
    let content = match text {
        Content::Text(text) if failed => Content::Text(as_failure(text)),
        other => other,
    };
    Ok(Message { tool_call_id: Some(id), ..Message::of("tool", content) })
}

const ELSEWHERE: &str = "See the next message.";

/// OpenAI's results have no mark for a failure: the text says it, unless it does so by itself.
fn as_failure(text: String) -> String {
    let says_so = text.trim_start_matches('<').get(..ERROR.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(ERROR));
    if says_so { text } else { format!("Error: {text}") }
}

const ERROR: &str = "error";

/// What the model said, thought and called.
fn assistant<'a>(said: &'a RawValue, place: Place, seen: &mut Seen) -> Result<Message<'a>, Problem> {
    if is_string(said) {
        return Ok(Message::of("assistant", Content::Raw(said)));
    }
    let (mut parts, mut message) = (Vec::new(), Message::of("assistant", Content::Text(String::new())));
    for (block, place) in blocks(said.get(), place)? {
        match block.kind() {
            // Nobody else can read it.
            "redacted_thinking" => {}
            "thinking" => message.reasoning_content.push_str(block.thinking.as_deref().unwrap_or_default()),
            "tool_use" => {
                let call = call(block, place)?;
                seen.call_ids.insert(call.id.to_string());
                message.tool_calls.push(call);
            }
            _ => parts.push(block.part(place, seen)?),
        }
    }
    let silent = parts.is_empty() && !message.tool_calls.is_empty();
    message.content = (!silent).then(|| content(parts));
    Ok(message)
}

fn call<'a>(block: Block<'a>, place: Place) -> Result<Call<'a>, Problem> {
    let id = block.id.ok_or_else(|| missing(&place.field("id")))?;
    let name = block.name.ok_or_else(|| missing(&place.field("name")))?;
    let arguments = match block.input.map(RawValue::get) {
        None => "{}",
        Some(object) if object.starts_with('{') => object,
        Some(_) => return Err(wrong(&place.field("input"), "an object")),
    };
    Ok(Call { id, kind: "function", function: Function { name, arguments } })
}
