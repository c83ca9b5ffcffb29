//! Makes the JSON text of an object from arguments that are almost that.
//!
//! Read are: commas before a closing bracket; single, curly and missing quotes; comments; Python's literals; line breaks and tabs in
//! strings; closing brackets, and one quote, that are missing or left over at the end; JSON in a string; a markdown fence around it all.
//!
//! **Nothing is guessed.** Each token of the outcome was written, in that order, and nothing that was written is left out but punctuation
//! and comments. What has two readings, lacks a value or breaks off where more was due is refused: the model can be asked again, a call
//! that was run cannot be taken back. That is why no crate does this here: those that repair give an outcome for any text, even for
//! none, and those that do not guess read JSON5 only.
//!
//! **Valid JSON is never changed**, and no text takes more than linear time.

mod reader;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The JSON text of the object that `text` almost is: `text` itself when it is one.
///
/// `text` must be whole. What a length limit cut off may look whole when it is closed.
pub(crate) fn repair(text: &str) -> Option<String> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..ENCODINGS_MAX {
        let Some(decoded) = decoded(&text) else { break };
        text = Cow::Owned(decoded);
    }
    if is_object(&text) {
        return Some(text.into_owned());
    }
    // The reader passes over what only a parser sees, such as half a surrogate pair or a number that is too large.
    reader::read(&text).filter(|json| is_object(json))
}

/// The JSON spelling of a literal, from JSON's or Python's: models that write code write Python's.
pub(super) fn literal(word: &str) -> Option<&'static str> {
    match word {
        "true" | "True" => Some("true"),
        "false" | "False" => Some("false"),
        "null" | "None" => Some("null"),
        _ => None,
    }
}

/// What a text that is one string holds.
fn decoded(text: &str) -> Option<String> {
    let text = text.trim();
    if text.starts_with('"') {
        return serde_json::from_str(text).ok();
    }
    // With a backslash it matters which language's string this is.
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote).filter(|inside| !inside.contains('\\'));
    let inside = inside('\'').or_else(|| inside('`'))?;
    inside.trim_start().starts_with('{').then(|| inside.to_owned())
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

/// Models and templates have been seen to encode once too often, not more.
const ENCODINGS_MAX: usize = 2;
