//! The tools of a request in the API's words, and which of them is to be called.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{refuse::invalid, transcript::Transcript};
use crate::{
    backend::{Error, Offered, Prompt},
    chat,
    wire::{
        anthropic::request::{Tool, ToolChoice},
        text::Text,
    },
};

/// What is said about tools.
pub(super) struct Tools<'a> {
    pub(super) list: Vec<Tool<'a>>,
    pub(super) choice: Option<ToolChoice<'a>>,
}

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

/// How a call is forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// As the client chose.
    AsRequested,
    /// One call of any tool.
    OneCall,
    /// Not at all: the API does not let a model think that has to call.
    Never,
}

/// The tools that the model sees in `prompt`.
pub(super) fn tools<'a>(prompt: &'a Prompt, transcript: &Transcript<'_>, force: Force) -> Result<Tools<'a>, Error> {
    let request = &prompt.request;
    let json = match &prompt.offered {
        Offered::AsRequested | Offered::Withheld => &request.tools_json,
        Offered::Instead(tools) => tools,
    };
    let mut list = if json.is_empty() { Vec::new() } else { list(json)? };
    if matches!(prompt.offered, Offered::Withheld) || list.is_empty() {
        return Ok(withheld(list, transcript));
    }
    let wanted = if let chat::ToolChoice::Other = request.tool_choice { allowed(prompt)? } else { None };
    if let Some(allowed) = &wanted {
        list.retain(|tool| allowed.names.iter().any(|name| name.0 == tool.name));
    }
    let disable_parallel_tool_use = !request.parallel_tool_calls;
    let must_call = wanted.is_some_and(|allowed| allowed.mode.is_some_and(|mode| mode.0 == "required"));
    let choice = match (force, &request.tool_choice) {
        (Force::OneCall, _) => Some(ToolChoice::Any { disable_parallel_tool_use: true }),
        (Force::AsRequested, chat::ToolChoice::Required) => Some(ToolChoice::Any { disable_parallel_tool_use }),
        (Force::AsRequested, chat::ToolChoice::Named(name)) => Some(ToolChoice::Tool { name, disable_parallel_tool_use }),
        (Force::AsRequested, chat::ToolChoice::Other) if must_call => Some(ToolChoice::Any { disable_parallel_tool_use }),
        (_, chat::ToolChoice::None) => Some(ToolChoice::None),
        _ if disable_parallel_tool_use => Some(ToolChoice::Auto { disable_parallel_tool_use }),
        // What the API assumes.
        _ => None,
    };
    Ok(Tools { list, choice })
}

/// Nothing that speaks of tools, unless the conversation does: the API refuses past calls where it is told of no tools.
fn withheld<'a>(mut list: Vec<Tool<'a>>, transcript: &Transcript<'_>) -> Tools<'a> {
    if transcript.called().next().is_none() {
        return Tools { list: Vec::new(), choice: None };
    }
    if list.is_empty() {
        for name in transcript.called() {
            if !list.iter().any(|tool| tool.name == name) {
                list.push(Tool { name: name.to_owned().into(), description: None, input_schema: schema(None), cache_control: None });
            }
        }
    }
    Tools { list, choice: Some(ToolChoice::None) }
}

fn list(json: &[u8]) -> Result<Vec<Tool<'_>>, Error> {
    let given: Vec<Given<'_>> = serde_json::from_slice(json).map_err(|error| invalid("tools", format!("Not a list of tools: {error}.")))?;
    given.into_iter().map(tool).collect()
}

fn tool(given: Given<'_>) -> Result<Tool<'_>, Error> {
    let function = given.function.ok_or_else(|| invalid("tools", "The backend takes only tools that are functions."))?;
    let Function { name, description, parameters } = function;
    Ok(Tool { name: name.0, description, input_schema: schema(parameters), cache_control: None })
}

/// The schema of the arguments, which the API wants to be told is one of an object.
fn schema(parameters: Option<&RawValue>) -> Cow<'_, RawValue> {
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Option<&'a RawValue>,
    }
    let given = parameters.map_or("{}", RawValue::get);
    let is_open = given.starts_with('{') && serde_json::from_str::<Schema<'_>>(given).is_ok_and(|schema| schema.kind.is_none());
    let Some(parameters) = parameters.filter(|_| !is_open) else {
        let rest = given.trim_start_matches('{').trim_start();
        let comma = if rest == "}" { "" } else { "," };
        let typed = RawValue::from_string(format!(r#"{{"type":"object"{comma}{rest}"#));
        return Cow::Owned(typed.unwrap_or_default());
    };
    Cow::Borrowed(parameters)
}

/// The tools that may be called, of those that there are.
struct Allowed<'a> {
    mode: Option<Text<'a>>,
    names: Vec<Text<'a>>,
}

/// Reads OpenAI's `allowed_tools`. `None` for another choice, which is left out.
fn allowed(prompt: &Prompt) -> Result<Option<Allowed<'_>>, Error> {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow, default)]
        allowed_tools: Option<List<'a>>,
    }
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow, default)]
        mode: Option<Text<'a>>,
        #[serde(borrow)]
        tools: Vec<Given<'a>>,
    }
    let Some(choice) = prompt.request.field("tool_choice").filter(|choice| choice.starts_with(b"{")) else { return Ok(None) };
    let choice: Choice<'_> = serde_json::from_slice(choice).map_err(|_| invalid("tool_choice", "The choice cannot be read."))?;
    Ok(choice.allowed_tools.map(|List { mode, tools }| {
        let names = tools.into_iter().filter_map(|tool| tool.function).map(|function| function.name).collect();
        Allowed { mode, names }
    }))
}
