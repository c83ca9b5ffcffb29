//! One message of a conversation, as far as the rewriting looks at it.

use std::borrow::Cow;

use crate::wire::object::Object;
pub(super) use crate::wire::role::Role;

/// A message and its fields.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// `Other` for a message that is not understood.
    pub(super) role: Role,
    fields: Object<'a>,
    /// As it was written; `None` once it was changed.
    spelled: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// The message in a JSON text.
    pub(super) fn read(text: &'a str) -> Self {
        let Some(fields) = Object::read(text) else {
            return Self { role: Role::Other, fields: Object::default(), spelled: Some(text) };
        };
        let mut message = Self { role: Role::of(&fields), fields, spelled: Some(text) };
        if !is_content(message.content()) {
            message.role = Role::Other;
        }
        message
    }

    /// A new message with `content`, a JSON text.
    pub(super) fn added(role: Role, content: String) -> Self {
        let mut message = Self { role, fields: Object::default(), spelled: None };
        message.set("role", role.json().to_owned());
        message.set("content", content);
        message
    }

    /// Its fields, to be read.
    pub(super) fn fields(&self) -> &Object<'a> {
        &self.fields
    }

    /// Its content as JSON, null when there is none.
    pub(super) fn content(&self) -> &str {
        self.fields.get("content").map_or("null", AsRef::as_ref)
    }

    /// Puts a JSON text at `name`.
    pub(super) fn set(&mut self, name: &'static str, json: String) {
        self.fields.set(name, json);
        self.spelled = None;
    }

    /// Takes `name` out. Whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let removed = self.fields.remove(name);
        if removed {
            self.spelled = None;
        }
        removed
    }

    /// Takes over what `other` has and this one lacks.
    pub(super) fn fill(&mut self, other: Self) {
        self.fields.fill(other.fields);
        self.spelled = None;
    }

    /// Its JSON text.
    pub(super) fn json(&self) -> Cow<'a, str> {
        self.spelled.map_or_else(|| Cow::Owned(self.fields.json()), Cow::Borrowed)
    }
}

/// Whether a JSON text is a text, a list of parts or nothing.
fn is_content(json: &str) -> bool {
    json == "null" || json.starts_with(['"', '['])
}
