//! A JSON string that is read where it stands.

use std::borrow::Cow;

use serde::Deserialize;

/// A JSON string, borrowed from what is read where it holds no escape. (`Option<Cow<str>>` itself would always allocate.)
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Text<'_> {
    /// The text, kept.
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}
