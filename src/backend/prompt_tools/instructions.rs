//! What the system prompt says of the tools: which there are, how one is called, and whether a call is due.
//!
//! What depends on more than the tools stands at the end, so that the same tools have the same beginning. The one call that is shown is of
//! a tool that there is: what a model sees called, it calls.

use super::{
    call::{RESULT_START, block},
    example,
};
use crate::{
    chat::{Request, ToolChoice},
    wire::object::{Object, compact, elements, encoded},
};

/// The instructions for `tools`, a JSON array; `None` when there is no function among them. Other tools run on servers that know tools.
pub(super) fn of(tools: &str, request: &Request) -> Option<String> {
    let tools: Vec<Tool> = elements(tools)?.into_iter().filter_map(Tool::read).collect();
    // The synthetic tool to answer with, which is as good as no example, comes last.
    let Tool { name, parameters, .. } = tools.first()?;
    let lines: Vec<&str> = tools.iter().map(|tool| tool.line.as_str()).collect();
    let call = block(&encoded(name), &example::arguments(parameters.as_deref().unwrap_or("{}")).to_string());
    let mut text = format!("{TOOLS}\n<tools>\n{}\n</tools>\n\n{HOW} A call of `{name}` looks like this:\n{call}\n\n", lines.join("\n"));
    text.push_str(if request.parallel_tool_calls { SEVERAL } else { ONE });
    text.push_str(&format!("\nStop after that. The next message has the results in {RESULT_START} tags; never write them yourself."));
    match &request.tool_choice {
        ToolChoice::Required => text.push_str("\nYour answer must be a tool call."),
        ToolChoice::Named(name) => text.push_str(&format!("\nYour answer must be a call of `{name}`.")),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Other => {}
    }
    Some(text)
}

/// A tool as the model reads it.
struct Tool {
    name: String,
    /// The JSON text of its schema.
    parameters: Option<String>,
    line: String,
}

impl Tool {
    fn read(text: &str) -> Option<Self> {
        let tool = Object::read(text)?;
        if tool.get("type").is_some_and(|kind| kind != r#""function""#) {
            return None;
        }
        let function = Object::read(tool.get("function")?)?;
        let mut described = Object::default();
        for name in ["name", "description", "parameters"] {
            if let Some(value) = function.get(name) {
                described.set(name, compact(value));
            }
        }
        Some(Self { name: function.text("name")?, parameters: function.get("parameters").map(ToString::to_string), line: described.json() })
    }
}

const TOOLS: &str =
    "# Tools\n\nYou can call the tools below. Each line is the name of a tool, what it does, and the JSON schema of its arguments.";
const HOW: &str = "To call a tool, write its name and its arguments as one JSON object in <tool_call> tags.";
const SEVERAL: &str = "To make several calls at once, write a block of tags for each, one behind the other.";
const ONE: &str = "Make one call at a time: write exactly one block of tags.";
