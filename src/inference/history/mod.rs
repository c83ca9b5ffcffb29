//! Repairs the messages of a request before they go up. One broken message in a history fails every later request that repeats it, and
//! clients repeat what they hold: llama-server answers 500 for a whole request on one past call with broken arguments.
//!
//! **A history without faults is not touched**, not even its white space; neither are the sound messages of a broken one. **What is said is
//! kept**: repairs add, join or convert, and only reasoning, by policy, and assistant messages that say nothing are taken out. **The same
//! history is repaired to the same bytes**, so that the backend's prompt cache holds, and a repaired one needs no further repair.
//!
//! What is not understood — a message that is no object, a role that nobody knows — is left to the backend to complain about.

mod alternation;
mod calls;
mod content;
mod empty;
mod message;
mod reasoning;

#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;

use self::message::Message;
use crate::wire::object::{Object, array, elements};

/// What of a sound history is changed nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Which past reasoning the model reads again.
    pub reasoning: Replay,
    /// The model's chat template refuses messages of one role in a row, and system messages but the first.
    pub strict_alternation: bool,
}

/// Which past reasoning the model reads again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// None.
    None,
    /// That behind the last message of the user: of the tool calls that led here.
    KeepLast,
    /// All that the client sends.
    Full,
}

/// Something that was done to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The message's place in the client's list, from 0.
    pub(super) message: usize,
    /// What was done. Never what the message says.
    pub(super) what: &'static str,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}: {}", self.message, self.what)
    }
}

/// The repaired JSON array of messages and what was done to it; `None` when there is nothing to do.
pub(super) fn repaired(messages: &Bytes, policy: Policy) -> Option<(Bytes, Vec<Change>)> {
    let text = std::str::from_utf8(messages).ok()?;
    let objects: Vec<Object<'_>> = serde_json::from_str(text).ok()?;
    let mut list: Vec<Message<'_>> = objects.into_iter().enumerate().map(|(index, fields)| Message::new(index, fields)).collect();
    let mut changes = Vec::new();
    // Contents become text or parts first: the steps behind add to them. Messages are taken out before neighbours are joined.
    list.iter_mut().for_each(|message| content::repair(message, &mut changes));
    list = calls::repair(list, &mut changes);
    if policy.strict_alternation {
        list = alternation::place_systems(list, &mut changes);
    }
    reasoning::trim(&mut list, policy.reasoning, &mut changes);
    list = empty::drop(list, policy.strict_alternation, &mut changes);
    if policy.strict_alternation {
        list = alternation::alternate(list, &mut changes);
    }
    if changes.is_empty() {
        return None;
    }
    changes.sort_by_key(|change| change.message);
    Some((written(text, &list)?, changes))
}

/// The list as JSON: messages that were not changed in the client's spelling.
fn written(client: &str, list: &[Message<'_>]) -> Option<Bytes> {
    let spelled = elements(client)?;
    let json: Option<Vec<String>> = list
        .iter()
        .map(|message| if message.is_changed { Some(message.fields.json()) } else { spelled.get(message.index).map(ToString::to_string) })
        .collect();
    Some(Bytes::from(array(json?.iter().map(String::as_str))))
}
