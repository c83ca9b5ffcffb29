//! Who a message is by.

use super::object::Object;

/// The role of a message in OpenAI's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `system`, and `developer`, which servers that do not tell them apart read as `system`.
    System,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool`, and `function`, its older name.
    Tool,
    /// Something else; such a message is left as it is.
    Other,
}

impl Role {
    /// The role of the message with `fields`.
    pub fn of(fields: &Object<'_>) -> Self {
        match fields.get("role").map(AsRef::as_ref) {
            Some(r#""system""# | r#""developer""#) => Self::System,
            Some(r#""user""#) => Self::User,
            Some(r#""assistant""#) => Self::Assistant,
            Some(r#""tool""# | r#""function""#) => Self::Tool,
            _ => Self::Other,
        }
    }

    /// Its JSON text; of a role that is none, the user's.
    pub fn json(self) -> &'static str {
        match self {
            Self::System => r#""system""#,
            Self::User | Self::Other => r#""user""#,
            Self::Assistant => r#""assistant""#,
            Self::Tool => r#""tool""#,
        }
    }
}
