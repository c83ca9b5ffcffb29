//! Which tool the client wants called, in the words of a chat completion.

use serde::Deserialize;

use super::tools::{Kind, Tool, Tools};
use crate::{
    chat::{Problem, ToolChoice},
    wire::text::Text,
};

/// A request's `tool_choice`.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// What is asked of the model.
    pub(super) wanted: Wanted,
    /// The names that the model sees of the only tools that it may call; `None` where it may call all.
    pub(super) allowed: Option<Vec<String>>,
}

/// What is asked of the model.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    #[default]
    Auto,
    None,
    Required,
    /// A call of the tool that it sees under this name.
    Named(String),
}

impl Wanted {
    /// As a chat completion has it: the value of its `tool_choice` and how the engine knows it.
    pub(super) fn in_chat(self) -> (String, ToolChoice) {
        match self {
            Self::Auto => ("\"auto\"".to_owned(), ToolChoice::Auto),
            Self::None => ("\"none\"".to_owned(), ToolChoice::None),
            Self::Required => ("\"required\"".to_owned(), ToolChoice::Required),
            Self::Named(name) => {
                let json = serde_json::json!({"type": "function", "function": {"name": name}});
                (json.to_string(), ToolChoice::Named(name))
            }
        }
    }
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    mode: Option<Text<'a>>,
    #[serde(borrow, default)]
    tools: Option<Vec<Wire<'a>>>,
}

/// Reads the JSON `value`.
pub(super) fn read(value: &str, tools: &Tools) -> Result<Choice, Problem> {
    if let Ok(word) = serde_json::from_str::<String>(value) {
        return Ok(Choice { wanted: mode(&word)?, allowed: None });
    }
    let choice: Wire<'_> = serde_json::from_str(value).map_err(|_| wrong("`tool_choice` is not a tool choice.".to_owned()))?;
    if choice.kind.as_ref().is_some_and(|kind| kind.0 == "allowed_tools") {
        let wanted = choice.mode.as_ref().map_or(Ok(Wanted::Auto), |word| mode(&word.0))?;
        let allowed = choice.tools.unwrap_or_default();
        // One that only its vendor could run was left out of the tools, too.
        let allowed = allowed.iter().filter_map(|choice| find(choice, tools)).map(|tool| tool.seen.name.clone()).collect();
        return Ok(Choice { wanted, allowed: Some(allowed) });
    }
    let named = find(&choice, tools).map(|tool| Wanted::Named(tool.seen.name.clone()));
    let name = choice.name.or(choice.kind).map(Text::into_string).unwrap_or_default();
    let wanted =
        named.ok_or_else(|| wrong(format!("`tool_choice` names `{name}`, which is not among the `tools` that can be called here.")))?;
    Ok(Choice { wanted, allowed: None })
}

fn find<'t>(choice: &Wire<'_>, tools: &'t Tools) -> Option<&'t Tool> {
    let namespace = choice.namespace.as_ref().map(|namespace| namespace.0.as_ref());
    match (choice.kind.as_ref().map(|kind| kind.0.as_ref()), &choice.name) {
        (Some("local_shell"), _) => tools.of_kind(Kind::LocalShell),
        (Some("function" | "custom") | None, Some(name)) => tools.known_as(&name.0, namespace),
        _ => None,
    }
}

fn mode(word: &str) -> Result<Wanted, Problem> {
    match word {
        "auto" => Ok(Wanted::Auto),
        "none" => Ok(Wanted::None),
        "required" => Ok(Wanted::Required),
        _ => Err(wrong("`tool_choice` must be `none`, `auto`, `required` or an object naming a tool.".to_owned())),
    }
}

fn wrong(message: String) -> Problem {
    Problem::invalid("tool_choice", message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn choice(value: &str) -> Result<Choice, Problem> {
        let tools = r#"[{"name":"f"},{"type":"custom","name":"c"},{"type":"local_shell"},{"type":"namespace","name":"n","tools":[{"name":"f"}]},{"type":"web_search"}]"#;
        read(value, &Tools::read(&[("tools".to_owned(), Bytes::from_static(tools.as_bytes()))]).unwrap())
    }

    #[test]
    fn a_choice_names_what_the_model_sees() {
        let check = |value: &str, wanted: Wanted| assert_eq!(choice(value).unwrap().wanted, wanted, "{value}");
        check(r#""auto""#, Wanted::Auto);
        check(r#""none""#, Wanted::None);
        check(r#""required""#, Wanted::Required);
        check(r#"{"type":"function","name":"f"}"#, Wanted::Named("f".to_owned()));
        check(r#"{"type":"function","name":"f","namespace":"n"}"#, Wanted::Named("n__f".to_owned()));
        check(r#"{"type":"custom","name":"c"}"#, Wanted::Named("c".to_owned()));
        check(r#"{"type":"local_shell"}"#, Wanted::Named("local_shell".to_owned()));
    }

    #[test]
    fn allowed_tools_are_the_only_ones() {
        let choice =
            choice(r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}"#).unwrap();
        assert_eq!((choice.wanted, choice.allowed), (Wanted::Required, Some(vec!["f".to_owned()])));
    }

    #[test]
    fn a_choice_that_cannot_be_made_is_refused() {
        for bad in
            [r#""maybe""#, "3", "[]", "{}", r#"{"type":"function","name":"g"}"#, r#"{"type":"web_search"}"#, r#"{"type":"function"}"#]
        {
            assert_eq!(choice(bad).unwrap_err().param.as_deref(), Some("tool_choice"), "{bad}");
        }
    }
}
