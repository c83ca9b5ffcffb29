//! Assistant messages that say nothing are taken out: what a reply that was all reasoning, or that was cut, leaves in a history. They
//! teach the model to say nothing, and some templates refuse them.
//!
//! Empty messages of others stay. They are somebody's intention: an empty system message keeps a template from adding its own, an empty
//! user message lets a conversation begin with the assistant.

use super::{
    Change,
    message::{Message, Role},
    reasoning,
};
use crate::wire::content::NOTHING;

/// `list` without empty assistant messages. The last message stays, since the model goes on from it. Between two user messages an empty
/// one stays too, unless they are `joined` later: templates that demand alternation would fail without it.
pub(super) fn drop<'a>(list: Vec<Message<'a>>, joined: bool, changes: &mut Vec<Change>) -> Vec<Message<'a>> {
    if !list.iter().any(says_nothing) {
        return list;
    }
    let next = next_roles(&list);
    let last = list.len() - 1;
    let mut kept: Vec<Message<'_>> = Vec::with_capacity(list.len());
    for (at, (mut message, next)) in list.into_iter().zip(next).enumerate() {
        let parts_users = next == Some(Role::User) && kept.last().is_some_and(|before| before.role == Role::User);
        if !says_nothing(&message) {
            kept.push(message);
        } else if at < last && (joined || !parts_users) && !has_reasoning(&message) {
            changes.push(message.change("empty message dropped"));
        } else {
            if message.content() == "null" {
                message.set("content", "\"\"".to_owned());
                changes.push(message.change("missing content made an empty text"));
            }
            kept.push(message);
        }
    }
    kept
}

/// For each message, the role of the next one that stays.
fn next_roles(list: &[Message<'_>]) -> Vec<Option<Role>> {
    let mut next = Vec::with_capacity(list.len());
    let mut role = None;
    for message in list.iter().rev() {
        next.push(role);
        if role.is_none() || !says_nothing(message) {
            role = Some(message.role);
        }
    }
    next.reverse();
    next
}

fn says_nothing(message: &Message<'_>) -> bool {
    message.role == Role::Assistant && !message.has_calls && NOTHING.contains(&message.content()) && !message.speaks_elsewhere()
}

fn has_reasoning(message: &Message<'_>) -> bool {
    reasoning::FIELDS.iter().any(|name| message.fields.get(name).is_some_and(|reasoning| reasoning != "\"\""))
}
