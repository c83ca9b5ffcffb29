//! A value that must never be printed: an API key or a caller's `Authorization` header.
//!
//! `Debug` shows `[secret]`, there is no `Display`, and reading it is spelled `expose` so that every use stands out in review.

use std::fmt;

/// A credential held in memory. Cloning copies the pointer.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(std::sync::Arc<str>);

impl Secret {
    /// Wraps `value`, which must not be logged before or after.
    pub fn new(value: &str) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that puts it on the wire.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The value without a scheme such as `Bearer` in front.
    pub fn bare(&self) -> &str {
        let whole = self.0.trim();
        whole.split_once(' ').map_or(whole, |(_scheme, key)| key.trim())
    }

    /// `text` with every occurrence of the secret replaced, with or without the scheme in front: an upstream may quote a key back in its
    /// error message.
    pub fn redact(&self, text: &str) -> String {
        let bare = self.bare();
        if bare.len() < MIN_LENGTH { text.to_owned() } else { text.replace(bare, "[secret]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A text with placeholders for secrets, which are filled in when the text is used and never before: `${NAME}` is the variable `NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

/// A placeholder for a variable that is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0} is not set")]
pub struct Unset(pub String);

impl Template {
    /// The template that `text` spells.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The text with its variables filled in. Fails with the first that is not set.
    pub fn fill(&self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Secret, Unset> {
        let mut filled = String::new();
        let mut rest = self.0.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else { break };
            filled.push_str(before);
            filled.push_str(&variable(name).ok_or_else(|| Unset(name.to_owned()))?);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(Secret::new(&filled))
    }
}

/// Local servers are given dummies such as `x` or `none`: hiding those would only mangle the message.
const MIN_LENGTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_never_printed() {
        assert_eq!(format!("{:?}", Some(Secret::new("sk-1"))), "Some([secret])");
    }

    #[test]
    fn is_taken_out_of_foreign_text() {
        let secret = Secret::new("Bearer sk-abcdef");
        assert_eq!(secret.redact("wrong key sk-abcdef, try again"), "wrong key [secret], try again");
        assert_eq!(Secret::new("Bearer x").redact("extra"), "extra");
    }
}
