//! Calls and their results in the API's words: ids of the letters that it takes, arguments as objects.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    chat,
    wire::{
        anthropic::request::{Block, Made},
        text::Text,
    },
};

/// A call of an assistant message.
#[derive(Deserialize)]
pub(super) struct Given<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function: Function<'a>,
}

/// What is called.
#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, RawValue>>,
}

impl<'a> From<&'a chat::Call> for Given<'a> {
    fn from(call: &'a chat::Call) -> Self {
        let text = |text: &'a str| Text(Cow::Borrowed(text));
        let arguments = Some(Cow::Owned(input(&call.arguments)));
        Self { id: Some(text(&call.id)), function: Function { name: text(&call.name), arguments } }
    }
}

impl<'a> Function<'a> {
    /// The call as a block.
    pub(super) fn block(self, id: Cow<'a, str>) -> Made<'a> {
        let arguments = self.arguments.as_ref().map_or("{}", |arguments| arguments.get());
        let input = match serde_json::from_str::<Text<'_>>(arguments) {
            Ok(text) => input(&text.0),
            Err(_) => input(arguments),
        };
        Made::ToolUse { id, name: self.name.0, input }
    }
}

/// What an id becomes, the same for a call and its result: the API knows letters, digits, `_` and `-`.
pub(super) fn id(given: Cow<'_, str>) -> Cow<'_, str> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if given.chars().all(is_known) { given } else { given.chars().map(|c| if is_known(c) { c } else { '_' }).collect() }
}

/// The arguments in their own spelling. What is no object is told as it stands, under a name that says so.
pub(super) fn input(arguments: &str) -> Box<RawValue> {
    let arguments = arguments.trim();
    let object = if arguments.is_empty() || arguments == "null" { "{}" } else { arguments };
    let raw = RawValue::from_string(object.to_owned()).ok().filter(|raw| raw.get().starts_with('{'));
    raw.or_else(|| serde_json::value::to_raw_value(&json!({ UNREADABLE: arguments })).ok()).unwrap_or_default()
}

const UNREADABLE: &str = "_raw";

/// What is told where a call has no result: the API takes no call without one.
pub(super) fn no_result(id: Cow<'_, str>) -> Made<'_> {
    let content = vec![Block::text("This call has no result.")];
    Made::ToolResult { tool_use_id: id, content, is_error: true, cache_control: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: &str, expected: &str) {
        let given: Given<'_> = serde_json::from_str(call).unwrap();
        assert_eq!(serde_json::to_string(&given.function.block(given.id.unwrap().0)).unwrap(), expected);
    }

    #[test]
    fn arguments_become_an_object_in_their_own_spelling() {
        let check = |arguments: &str, expected: &str| {
            let call = format!(r#"{{"id":"c","function":{{"name":"f","arguments":{arguments}}}}}"#);
            check(&call, &format!(r#"{{"type":"tool_use","id":"c","name":"f","input":{expected}}}"#));
        };
        check(r#""{\"n\": 18446744073709551616}""#, r#"{"n": 18446744073709551616}"#);
        check(r#"{"a":1}"#, r#"{"a":1}"#);
        check(r#""""#, "{}");
        check("null", "{}");
        check(r#""{\"a\":""#, r#"{"_raw":"{\"a\":"}"#);
        check(r#""[1]""#, r#"{"_raw":"[1]"}"#);
        check("3", r#"{"_raw":"3"}"#);
    }

    #[test]
    fn ids_have_letters_that_the_api_takes() {
        assert_eq!(id(Cow::Borrowed("functions.f:0")), "functions_f_0");
        assert_eq!(id(Cow::Borrowed("toolu_01-A")), "toolu_01-A");
    }
}
