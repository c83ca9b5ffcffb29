//! One past call: its type, id and arguments as servers want them.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use crate::{
    inference::history::{Change, message::Message},
    wire::object::{Object, decoded, encoded},
};

/// A call of an assistant message.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// The place of its message in the client's list.
    pub(super) message: usize,
    /// Its place in that message.
    place: usize,
    fields: Object<'a>,
    /// The JSON text of its id, as the client wrote it.
    pub(super) given_id: Option<&'a str>,
    /// The JSON text of its id.
    pub(super) id: Cow<'a, str>,
    /// What stood in place of arguments that are an object.
    pub(super) broken: Option<String>,
    pub(super) is_answered: bool,
    pub(super) is_changed: bool,
}

impl<'a> Call<'a> {
    /// The calls of `message`, none if one of them is no object.
    pub(super) fn all_of(message: &Message<'a>) -> Vec<Self> {
        let list: Option<Vec<Object<'a>>> = message.fields.spelled("tool_calls").and_then(|list| serde_json::from_str(list).ok());
        let call = |(place, fields): (usize, Object<'a>)| {
            let given_id = fields.spelled("id");
            Self {
                message: message.index,
                place,
                given_id,
                id: Cow::Borrowed(given_id.unwrap_or_default()),
                fields,
                broken: None,
                is_answered: false,
                is_changed: false,
            }
        };
        list.into_iter().flatten().enumerate().map(call).collect()
    }

    /// Its JSON text, which is `spelled` if it was not changed.
    pub(super) fn json<'s>(&self, spelled: &'s str) -> Cow<'s, str> {
        if self.is_changed { Cow::Owned(self.fields.json()) } else { Cow::Borrowed(spelled) }
    }

    /// A call of a function says so: llama-server fails on one that does not.
    pub(super) fn mend_type(&mut self, changes: &mut Vec<Change>) {
        if self.fields.get("type").is_none() && self.fields.get("function").is_some() {
            self.set("type", encoded("function"), "call type added", changes);
        }
    }

    /// An id that is no text, or that another call has, is replaced by one made of the call's place: the same history gets the same ids.
    /// Nine letters and digits are what Mistral's templates insist on.
    pub(super) fn mend_id(&mut self, is_free: bool, changes: &mut Vec<Change>) {
        let is_text = self.given_id.is_some_and(|id| id.starts_with('"') && id != "\"\"");
        if !is_free || !is_text {
            let id = encoded(&format!("t{:04x}{:04x}", self.message, self.place));
            self.id = Cow::Owned(id.clone());
            self.set("id", id, "call id minted", changes);
        }
    }

    /// Arguments become a JSON object in a string, the same one where there is one in any wrapping, else an empty one.
    pub(super) fn mend_arguments(&mut self, changes: &mut Vec<Change>) {
        let Some(mut function) = self.fields.spelled("function").and_then(Object::read) else { return };
        let (arguments, what) = match found(function.spelled("arguments").unwrap_or("null")) {
            Found::Right => return,
            Found::Missing => ("{}".to_owned(), "missing arguments made an empty object"),
            Found::Wrapped(object) => (object, "arguments made one object in a string"),
            Found::Broken(text) => {
                self.broken = Some(text);
                ("{}".to_owned(), "broken arguments replaced by an empty object")
            }
        };
        function.set("arguments", encoded(&arguments));
        self.set("function", function.json(), what, changes);
    }

    fn set(&mut self, name: &'static str, json: String, what: &'static str, changes: &mut Vec<Change>) {
        self.fields.set(name, json);
        self.is_changed = true;
        changes.push(Change { message: self.message, what });
    }
}

/// What stands as arguments.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// An object in a string.
    Right,
    /// Nothing.
    Missing,
    /// This object, not in a string or in too many.
    Wrapped(String),
    /// This text, which is no object.
    Broken(String),
}

fn found(written: &str) -> Found {
    match written.as_bytes().first() {
        Some(b'{') if is_object(written) => return Found::Wrapped(written.to_owned()),
        Some(b'"') => {}
        _ if written == "null" => return Found::Missing,
        _ => return Found::Broken(written.to_owned()),
    }
    // A string that cannot be decoded is a fault of the whole request.
    let Some(text) = decoded(written) else { return Found::Right };
    if is_object(&text) {
        return Found::Right;
    }
    if matches!(text.trim(), "" | "null") {
        return Found::Missing;
    }
    match decoded(&text).filter(|inner| is_object(inner)) {
        Some(object) => Found::Wrapped(object),
        None => Found::Broken(text),
    }
}

/// Whether servers read `text` as an object. Half a surrogate pair is well-formed to a reader that skips strings, but not to theirs.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<&RawValue>(text).is_ok()
        && (!text.contains("\\u") || serde_json::from_str::<Value>(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_in_any_wrapping() {
        let check = |written: &str, expected: Found| assert_eq!(found(written), expected, "{written}");
        let (wrapped, broken) = (|text: &str| Found::Wrapped(text.to_owned()), |text: &str| Found::Broken(text.to_owned()));
        check(r#""{\"a\": 1}""#, Found::Right);
        check(r#"" {} ""#, Found::Right);
        check("null", Found::Missing);
        check(r#""""#, Found::Missing);
        check(r#"" \n""#, Found::Missing);
        check(r#""null""#, Found::Missing);
        check(r#"{"a": 1e2}"#, wrapped(r#"{"a": 1e2}"#));
        check(r#""\"{\\\"a\\\":1}\"""#, wrapped(r#"{"a":1}"#));
        check(r#""{\"a\":""#, broken(r#"{"a":"#));
        check(r#""{} {}""#, broken("{} {}"));
        check(r#""hello""#, broken("hello"));
        check(r#""[1]""#, broken("[1]"));
        check("[1]", broken("[1]"));
        check("3", broken("3"));
        check(r#""{\"a\":\"\\ud800\"}""#, broken(r#"{"a":"\ud800"}"#));
        check(r#""{\"a\":\"\\u00e9\"}""#, Found::Right);
    }
}
