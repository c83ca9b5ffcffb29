//! One message of a history, as far as the repairs look at it.

use super::Change;
use crate::wire::object::Object;
pub(super) use crate::wire::role::Role;

/// A message and its fields.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// Its place in the client's list; of one that was added, the place of the one that it belongs to.
    pub(super) index: usize,
    pub(super) role: Role,
    /// An assistant's, with at least one call.
    pub(super) has_calls: bool,
    pub(super) fields: Object<'a>,
    /// Whether `fields` differ from what the client wrote.
    pub(super) is_changed: bool,
}

impl<'a> Message<'a> {
    /// The client's message at `index`.
    pub(super) fn new(index: usize, fields: Object<'a>) -> Self {
        let role = Role::of(&fields);
        let calls = fields.get("tool_calls").and_then(|calls| calls.strip_prefix('['));
        let has_calls = role == Role::Assistant && calls.is_some_and(|calls| !calls.trim_start().starts_with(']'));
        Self { index, role, has_calls, fields, is_changed: false }
    }

    /// A message of ours with `content`, a JSON text.
    pub(super) fn added(index: usize, role: Role, content: String) -> Self {
        let mut message = Self { index, role, has_calls: false, fields: Object::default(), is_changed: true };
        message.set("role", role.json().to_owned());
        message.set("content", content);
        message
    }

    /// Puts a JSON text at `name`.
    pub(super) fn set(&mut self, name: &'static str, json: String) {
        self.fields.set(name, json);
        self.is_changed = true;
    }

    /// Takes `name` out. Whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let removed = self.fields.remove(name);
        self.is_changed |= removed;
        removed
    }

    /// Its content as JSON, null when there is none.
    pub(super) fn content(&self) -> &str {
        self.fields.get("content").map_or("null", AsRef::as_ref)
    }

    /// Whether an assistant says something that is neither content nor a call of today's form.
    pub(super) fn speaks_elsewhere(&self) -> bool {
        ["refusal", "function_call", "audio"].iter().any(|name| self.fields.get(name).is_some())
    }

    /// That `what` was done to it.
    pub(super) fn change(&self, what: &'static str) -> Change {
        Change { message: self.index, what }
    }
}
