//! Tools and the choice among them. A schema keeps the client's bytes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use super::{
    decode::{missing, wrong},
    messages::Seen,
};
use crate::{
    chat::{Problem, Tool, ToolChoice},
    wire::fields,
};

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// OpenAI's list of them; empty bytes when there are none.
    pub(super) json: Bytes,
    /// The same, as far as toolgate looks at them.
    pub(super) list: Vec<Tool>,
    /// How many were left out.
    left_out: usize,
}

/// Which call is wanted.
#[derive(Debug)]
pub(super) struct Choice {
    /// As toolgate has it.
    pub(super) wanted: ToolChoice,
    /// As OpenAI has it, where there is something to say.
    pub(super) json: Option<Bytes>,
    /// Whether several calls are.
    pub(super) parallel: bool,
}

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(default)]
    defer_loading: Option<bool>,
}

/// A tool in OpenAI's words.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawValue>,
    parameters: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// Reads the list of tools. Those that only Anthropic's servers or models know are left out, and those that the model is to learn of
/// later in the conversation stand behind the others: what it has read of them already need not be read again.
pub(super) fn read(list: Option<&Bytes>, seen: &Seen) -> Result<Tools, Problem> {
    let Some(list) = list else { return Ok(Tools::default()) };
    let elements: Vec<&RawValue> = serde_json::from_slice(list).map_err(|_| wrong("tools", "a list of tools"))?;
    let (mut left_out, mut searches) = (0, false);
    let mut own = Vec::with_capacity(elements.len());
    for (index, raw) in elements.into_iter().enumerate() {
        let tool: Given<'_> = serde_json::from_str(raw.get()).map_err(|_| wrong(&format!("tools.{index}"), "a tool"))?;
        if let Some(kind) = tool.kind.as_deref().filter(|kind| *kind != "custom") {
            tracing::warn!(kind, "the tool is left out: only Anthropic's servers and models know it");
            left_out += 1;
            searches |= kind.starts_with("tool_search_");
            continue;
        }
        let name = tool.name.filter(|name| !name.is_empty()).ok_or_else(|| missing(&format!("tools.{index}.name")))?;
        let schema = tool.input_schema.ok_or_else(|| missing(&format!("tools.{index}.input_schema")))?;
        if !schema.get().starts_with('{') {
            return Err(wrong(&format!("tools.{index}.input_schema"), "a JSON schema"));
        }
        let description = tool.description.filter(|description| description.get().starts_with('"'));
        let function = Function { name, description, parameters: schema, strict: tool.strict };
        own.push((Written { kind: "function", function }, tool.defer_loading.unwrap_or(false)));
    }
    // Nobody else would find them.
    own.iter_mut().for_each(|(_, deferred)| *deferred &= !searches);
    let written = offered(own, seen);
    let tool =
        |tool: &Written<'_>| Tool { name: tool.function.name.to_string(), parameters: fields::slice(list, tool.function.parameters) };
    let list = written.iter().map(tool).collect();
    // Strings and raw JSON always serialise.
    let json = if written.is_empty() { Bytes::new() } else { serde_json::to_vec(&written).unwrap_or_default().into() };
    Ok(Tools { json, list, left_out })
}

/// The tools that the model may call at this point of the conversation. Each comes with whether it is deferred.
fn offered<'a>(tools: Vec<(Written<'a>, bool)>, seen: &Seen) -> Vec<Written<'a>> {
    let mention = |tool: &Written<'_>| seen.tools.iter().rfind(|(name, _)| *name == tool.function.name).map(|(_, offered)| *offered);
    let may_be_called = |(tool, deferred): &(Written<'_>, bool)| mention(tool).unwrap_or(!deferred);
    let (mut later, mut offered): (Vec<_>, Vec<_>) = tools.into_iter().filter(may_be_called).partition(|(_, deferred)| *deferred);
    later.sort_by_key(|(tool, _)| seen.tools.iter().position(|(name, _)| *name == tool.function.name));
    offered.append(&mut later);
    offered.into_iter().map(|(tool, _)| tool).collect()
}

/// Reads which of `tools` is to be called.
pub(super) fn choice(raw: Option<&Bytes>, tools: &Tools) -> Result<Choice, Problem> {
    #[derive(Deserialize)]
    struct Given<'a> {
        #[serde(borrow, rename = "type", default)]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        name: Option<Cow<'a, str>>,
        #[serde(default)]
        disable_parallel_tool_use: Option<bool>,
    }
    let Some(raw) = raw else { return Ok(Choice { wanted: ToolChoice::Auto, json: None, parallel: true }) };
    let given: Given<'_> = serde_json::from_slice(raw).map_err(|_| wrong("tool_choice", "an object with a `type`"))?;
    let parallel = !given.disable_parallel_tool_use.unwrap_or(false);
    let (wanted, json) = match given.kind.as_ref() {
        "auto" => (ToolChoice::Auto, None),
        "none" => (ToolChoice::None, Some(json!("none"))),
        // A call cannot be due of tools that are not there.
        "any" if tools.list.is_empty() && tools.left_out > 0 => (ToolChoice::Auto, None),
        "any" if tools.list.is_empty() => return Err(Problem::invalid("tool_choice", "`tool_choice` is `any`, but no tools are given.")),
        "any" => (ToolChoice::Required, Some(json!("required"))),
        "tool" => {
            let name = given.name.ok_or_else(|| missing("tool_choice.name"))?.into_owned();
            if !tools.list.iter().any(|tool| tool.name == name) {
                let message = format!("`tool_choice.name` is `{name}`, which is not among the tools that the model can be given.");
                return Err(Problem::invalid("tool_choice.name", message));
            }
            let json = json!({"type": "function", "function": {"name": name}});
            (ToolChoice::Named(name), Some(json))
        }
        _ => return Err(wrong("tool_choice.type", "`auto`, `any`, `tool` or `none`")),
    };
    Ok(Choice { wanted, json: json.map(|json| json.to_string().into()), parallel })
}
