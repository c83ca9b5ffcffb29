//! A value that must never be printed: an API key or a caller's `Authorization` header.
//!
//! `Debug` shows `[secret]`, there is no `Display`, and reading it is spelled `expose` so that every use stands out in review.

use std::fmt;

use serde_json::Value;

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
    /// error message. Within JSON it is found as well, and within JSON that is quoted in JSON.
    pub fn redact(&self, text: &str) -> String {
        let bare = self.bare();
        if bare.len() < MIN_LENGTH {
            return text.to_owned();
        }
        let (mut text, mut form) = (text.replace(bare, REDACTED), bare.to_owned());
        for _ in 0..QUOTED_MAX {
            let quoted = Value::from(form.as_str()).to_string();
            let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
            // Most secrets have nothing that JSON escapes.
            if inner == form {
                break;
            }
            text = text.replace(inner, REDACTED);
            form = inner.to_owned();
        }
        text
    }
}

/// What stands in the place of a secret.
const REDACTED: &str = "[secret]";
/// How deep in JSON within JSON a secret is looked for: an error in a line of the trace may itself quote JSON.
const QUOTED_MAX: usize = 2;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A text with placeholders for secrets, which are filled in when the text is used and never before.
///
/// `${NAME}` and `${env:NAME}` are the variable `NAME`, `${NAME:-text}` is `text` where the variable is not set or empty. A `${` that
/// nothing closes is text. `Debug` shows the placeholders only: what stands around them may be a key that somebody wrote out.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(String);

/// A placeholder for a variable that is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0} is not set")]
pub struct Unset(pub String);

/// A part of a template.
enum Piece<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

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
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Variable { name, default } => {
                    // As in a shell, an empty variable is no better than none where there is a default.
                    let value = variable(name).filter(|value| default.is_none() || !value.is_empty());
                    filled.push_str(&value.or_else(|| default.map(str::to_owned)).ok_or_else(|| Unset(name.to_owned()))?);
                }
            }
        }
        Ok(Secret::new(&filled))
    }

    /// The variables without which it cannot be filled in.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.pieces().filter_map(|piece| match piece {
            Piece::Variable { name, default: None } => Some(name),
            Piece::Text(_) | Piece::Variable { .. } => None,
        })
    }

    /// All variables in it, those that have a default as well.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces().filter_map(|piece| match piece {
            Piece::Variable { name, .. } => Some(name),
            Piece::Text(_) => None,
        })
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut rest = self.0.as_str();
        let mut variable = None;
        std::iter::from_fn(move || {
            if let Some(variable) = variable.take() {
                return Some(variable);
            }
            let found = rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)));
            let (text, (inside, behind)) = match found {
                Some(found) => found,
                None if rest.is_empty() => return None,
                None => return Some(Piece::Text(std::mem::take(&mut rest))),
            };
            rest = behind;
            let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
            variable = Some(Piece::Variable { name: name.strip_prefix("env:").unwrap_or(name), default });
            Some(Piece::Text(text))
        })
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.pieces() {
            match piece {
                Piece::Text("") => {}
                Piece::Text(_) => f.write_str("[text]")?,
                Piece::Variable { name, .. } => write!(f, "${{{name}}}")?,
            }
        }
        Ok(())
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

    #[test]
    fn is_taken_out_of_json_and_of_json_in_json() {
        let secret = Secret::new("pass\"word\\12");
        let once = serde_json::json!({ "said": format!("no {} here", secret.expose()) }).to_string();
        assert_eq!(secret.redact(&once), r#"{"said":"no [secret] here"}"#);
        let twice = serde_json::json!({ "error": once }).to_string();
        assert_eq!(secret.redact(&twice), r#"{"error":"{\"said\":\"no [secret] here\"}"}"#);
        assert_eq!(secret.redact("no pass\"word\\12 here"), "no [secret] here");
        assert_eq!(Secret::new("a\"b\\c").redact(r#"a\"b\\c"#), r#"a\"b\\c"#);
    }

    fn filled(text: &str) -> Result<String, String> {
        let variable = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        Template::new(text).fill(&variable).map(|secret| secret.expose().to_owned()).map_err(|Unset(name)| name)
    }

    #[test]
    fn placeholders_are_filled_in() {
        let check = |text: &str, expected: &str| assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        check("", "");
        check("plain", "plain");
        check("${A}", "1");
        check("x${A}y${env:A}z", "x1y1z");
        // What a variable holds is no template.
        check("${B}", "${A}");
        check("${EMPTY}", "");
        check("${NONE:-d}${A:-d}${EMPTY:-d}${NONE:-}", "d1d");
        check("${env:NONE:-https://a.b:1}", "https://a.b:1");
        check("costs $5, {x} and ${A", "costs $5, {x} and ${A");
        check("${A}${", "1${");
        check("ä${A}€", "ä1€");
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let check = |text: &str, name: &str| assert_eq!(filled(text), Err(name.to_owned()), "{text}");
        check("${NONE}", "NONE");
        check("${A}${env:NONE}", "NONE");
        check("${input:token}", "input:token");
        check("${}", "");
        let template = Template::new("${A}${NONE}${OTHER:-d}${env:LAST}");
        assert_eq!(template.required().collect::<Vec<_>>(), ["A", "NONE", "LAST"]);
        assert_eq!(template.variables().collect::<Vec<_>>(), ["A", "NONE", "OTHER", "LAST"]);
    }

    #[test]
    fn a_template_is_printed_without_the_text_in_it() {
        assert_eq!(format!("{:?}", Template::new("Bearer ${KEY} sk-1 ${X:-sk-2}")), "[text]${KEY}[text]${X}");
    }
}
