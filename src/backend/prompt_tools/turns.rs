//! The user and the assistant take turns, the user first, behind at most one system message.

use super::message::{Message, Role};
use crate::wire::{content::joined, object::encoded};

/// The system messages at the beginning become one. Later ones become messages of the user that say what they are: at the front they would
/// hold for what was said before them too.
pub(super) fn place_systems(list: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let mut placed = join_neighbours(list, |first, second| (first.role, second.role) == (Role::System, Role::System));
    for message in placed.iter_mut().skip(1).filter(|message| message.role == Role::System) {
        *message = Message::added(Role::User, joined([encoded("Note of the system:").as_str(), message.content()]));
    }
    placed
}

/// Neighbours of one role become one message. That the user, whose turn is the first, said nothing is said.
pub(super) fn alternate(list: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let mut turns = join_neighbours(list, |first, second| first.role == second.role && matches!(first.role, Role::User | Role::Assistant));
    let first = turns.iter().take_while(|message| message.role == Role::System).count();
    if turns.get(first).is_some_and(|message| message.role == Role::Assistant) {
        turns.insert(first, Message::added(Role::User, encoded("(No message.)")));
    }
    turns
}

/// Each run of messages that are one becomes one.
fn join_neighbours<'a>(list: Vec<Message<'a>>, are_one: fn(&Message<'_>, &Message<'_>) -> bool) -> Vec<Message<'a>> {
    let lengths: Vec<usize> = list.chunk_by(are_one).map(<[_]>::len).collect();
    let mut list = list.into_iter();
    lengths.into_iter().filter_map(|length| join(list.by_ref().take(length).collect())).collect()
}

/// The messages of `run` as one.
fn join(run: Vec<Message<'_>>) -> Option<Message<'_>> {
    let content = (run.len() > 1).then(|| joined(run.iter().map(Message::content)));
    let mut run = run.into_iter();
    let mut first = run.next()?;
    if let Some(content) = content {
        run.for_each(|other| first.fill(other));
        first.set("content", content);
    }
    Some(first)
}
