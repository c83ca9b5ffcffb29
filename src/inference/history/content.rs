//! Contents become what every server reads: a text, or a list of typed parts.
//!
//! A list of texts is left as it is, since that is how the API has it and llama-server joins them itself. Images are never touched.

use super::{
    Change,
    message::{Message, Role},
};
use crate::wire::{
    content::text_part,
    object::{Object, array, elements, encoded},
};

/// Fields on which llama-server fails when they are null, as clients write them that dump whole objects.
const NULLS: [&str; 3] = ["name", "tool_call_id", "reasoning_content"];

/// Repairs the content of `message`, its role, and fields that may be absent but not null.
pub(super) fn repair(message: &mut Message<'_>, changes: &mut Vec<Change>) {
    if message.role == Role::Other {
        return;
    }
    // Most templates leave out what has the older role.
    if message.fields.get("role").is_some_and(|role| role == "\"function\"") {
        message.set("role", encoded("tool"));
        changes.push(message.change("role function made tool"));
    }
    for name in NULLS {
        if message.fields.written(name).is_some_and(|value| value == "null") {
            message.remove(name);
            changes.push(message.change("null field removed"));
        }
    }
    let content = message.content();
    let (content, what) = match content.as_bytes().first() {
        Some(b'"') => return,
        Some(b'[') => match parts(content) {
            Some(parts) => (parts, "content parts made text parts"),
            None => return,
        },
        _ if content != "null" => (encoded(content), "content put into a string"),
        _ if message.role != Role::Assistant => (encoded(""), "missing content made an empty text"),
        // What an assistant says may stand elsewhere; one that says nothing at all is judged when its reasoning is.
        _ => match message.fields.get("refusal").cloned().filter(|refusal| refusal.starts_with('"')) {
            Some(refusal) if !message.has_calls => {
                message.remove("refusal");
                (refusal.into_owned(), "refusal made the content")
            }
            _ => return,
        },
    };
    message.set("content", content);
    changes.push(message.change(what));
}

/// `list` with all its texts spelled as text parts, `None` when they are already. llama-server refuses other spellings: bare strings,
/// refusals, and the types of OpenAI's Responses API.
fn parts(list: &str) -> Option<String> {
    let parts = elements(list)?;
    let mended: Vec<Option<String>> = parts.iter().map(|part| mended(part)).collect();
    if mended.iter().all(Option::is_none) {
        return None;
    }
    Some(array(parts.iter().zip(&mended).map(|(part, mended)| mended.as_deref().unwrap_or(part))))
}

fn mended(part: &str) -> Option<String> {
    if part.starts_with('"') {
        return Some(text_part(part));
    }
    let part = Object::read(part)?;
    let text = |name: &str| part.get(name).map(AsRef::as_ref).filter(|text: &&str| text.starts_with('"'));
    match part.get("type").map(AsRef::as_ref)? {
        r#""text""# if part.get("text").is_none() => Some(text_part("\"\"")),
        r#""input_text""# | r#""output_text""# => text("text").map(text_part),
        r#""refusal""# => text("refusal").map(text_part),
        _ => None,
    }
}
