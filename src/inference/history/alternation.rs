//! For templates that want one system message at the beginning and then the user and the assistant in turns.
//!
//! Nothing changes its place: a message keeps its meaning, and the prompt cache its hold, only where it stands.

use super::{
    Change,
    message::{Message, Role},
};
use crate::wire::{content::joined, object::encoded};

/// The system messages at the beginning become one. Later ones become messages of the user that say what they are. They are not moved to
/// the front: there they would hold for what was said before them too, and as agents add one each turn, the prompt would have another
/// beginning each time and be read anew.
pub(super) fn place_systems<'a>(list: Vec<Message<'a>>, changes: &mut Vec<Change>) -> Vec<Message<'a>> {
    let mut placed = join_neighbours(list, |first, second| (first.role, second.role) == (Role::System, Role::System), changes);
    for message in placed.iter_mut().skip(1).filter(|message| message.role == Role::System) {
        changes.push(message.change("later system message made a user message"));
        let said = joined([encoded("Note of the system:").as_str(), message.content()]);
        *message = Message::added(message.index, Role::User, said);
    }
    placed
}

/// Neighbours of one role become one message. Where only tool calls stand between two of them, the later one must not move across the
/// results: that the other side said nothing in between is said. So is that the user, whose turn is the first, said nothing.
pub(super) fn alternate<'a>(list: Vec<Message<'a>>, changes: &mut Vec<Change>) -> Vec<Message<'a>> {
    let mut turns = Vec::with_capacity(list.len());
    let mut is_users_turn = true;
    for message in join_neighbours(list, are_one, changes) {
        let is_users = message.role == Role::User;
        if is_users || (message.role == Role::Assistant && !message.has_calls) {
            if is_users != is_users_turn {
                let (role, says) = if is_users_turn { (Role::User, NO_MESSAGE) } else { (Role::Assistant, NO_ANSWER) };
                let silence = Message::added(message.index, role, says.to_owned());
                changes.push(silence.change("missing turn added before it"));
                turns.push(silence);
            }
            is_users_turn = !is_users;
        }
        turns.push(message);
    }
    turns
}

/// Text before calls belongs to them: a template does not count a message with calls as the assistant's turn.
fn are_one(first: &Message<'_>, second: &Message<'_>) -> bool {
    match (first.role, second.role) {
        (Role::User, Role::User) => true,
        (Role::Assistant, Role::Assistant) => !first.has_calls && !first.speaks_elsewhere() && !second.speaks_elsewhere(),
        _ => false,
    }
}

/// Each run of messages that are one becomes one.
fn join_neighbours<'a>(
    list: Vec<Message<'a>>,
    are_one: fn(&Message<'_>, &Message<'_>) -> bool,
    changes: &mut Vec<Change>,
) -> Vec<Message<'a>> {
    let lengths: Vec<usize> = list.chunk_by(are_one).map(<[_]>::len).collect();
    let mut list = list.into_iter();
    lengths.into_iter().filter_map(|length| join(list.by_ref().take(length).collect(), changes)).collect()
}

/// The messages of `run` as one, with the fields of the one that calls, or of the first.
fn join<'a>(mut run: Vec<Message<'a>>, changes: &mut Vec<Change>) -> Option<Message<'a>> {
    if run.len() > 1 {
        changes.extend(run.iter().skip(1).map(|message| message.change("joined with the message before it")));
        let content = joined(run.iter().map(Message::content));
        let calling = run.iter().position(|message| message.has_calls).unwrap_or(0);
        run.swap(0, calling);
        run.iter_mut().take(1).for_each(|message| message.set("content", content.clone()));
    }
    run.into_iter().next()
}

/// What stands for a message that the user did not write.
pub(super) const NO_MESSAGE: &str = r#""(No message.)""#;
const NO_ANSWER: &str = r#""(No answer.)""#;
