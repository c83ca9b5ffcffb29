//! Calls written as JSON objects.
//!
//! The formats of the vendors' chat templates and model cards: Hermes 2 Pro and Qwen 2.5
//! (`<tool_call>{"name": …, "arguments": {…}}</tool_call>`), Llama 3.1 (`{"name": …,
//! "parameters": {…}}`), Granite (a list of such objects), OpenAI's own `{"type": "function",
//! "function": {…}}` and `{"tool_calls": […]}`, and `{"tool": …, "args": {…}}` of many agent
//! prompts. They come bare, fenced, tagged, in lists and in prose.

use std::ops::Range;

use crate::inference::offer::Offer;

use super::page::{ARGUMENT_KEYS, Page};
use super::scan::string_end;
use super::unit::Unit;
use super::{Call, arguments, quote};

/// Reads the outermost JSON object or array at `mark`, if it holds calls.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let span = mark..page.container_end(mark)?;
    // These are the arguments of a tool that is not offered: the earlier form declined it.
    if page.slice(0..mark).trim_end().ends_with("[ARGS]") {
        return None;
    }
    let calls = calls_in(page, &span, offer);
    (!calls.is_empty()).then_some(Unit { span, calls })
}

/// The calls in a JSON value, in order, without looking into strings or into arguments.
pub(super) fn calls_in(page: &mut Page<'_>, span: &Range<usize>, offer: &Offer) -> Vec<Call> {
    let (mut calls, mut at) = (Vec::new(), span.start);
    while at < span.end {
        let end = match page.byte(at) {
            Some(b'"') => string_end(page.bytes(), at),
            Some(b'{') => match object(page, at, offer) {
                Object::Call(call) => {
                    calls.push(call);
                    page.container_end(at)
                }
                Object::Closed => page.container_end(at),
                Object::Wrapper => None,
            },
            _ => None,
        };
        at = end.unwrap_or(at + 1);
    }
    calls
}

/// What an object is to somebody who looks for calls.
enum Object {
    Call(Call),
    /// A call of a tool that is not offered, or a tool's definition: nothing in it is a call.
    Closed,
    /// Anything else; it may hold calls.
    Wrapper,
}

fn object(page: &Page<'_>, start: usize, offer: &Offer) -> Object {
    let mut names: [Option<&str>; NAME_KEYS.len()] = [None; NAME_KEYS.len()];
    let mut written: [Option<&str>; ARGUMENT_KEYS.len()] = [None; ARGUMENT_KEYS.len()];
    let mut has_data = false;
    for member in page.members(start) {
        let value = page.slice(member.value);
        if let Some(name) = slot(&NAME_KEYS, &mut names, member.key).filter(|_| is_string(value)) {
            *name = Some(value);
        } else if let Some(arguments) = slot(&ARGUMENT_KEYS, &mut written, member.key) {
            *arguments = Some(value);
        } else {
            has_data |= !LABEL_KEYS.contains(&member.key);
        }
    }
    let is_named = names.iter().any(Option::is_some);
    let mut names = names.iter().flatten().filter_map(|name| serde_json::from_str(name).ok());
    let tool = names.find_map(|name: String| offer.find(&name));
    let written_arguments = written.iter().flatten().next().copied();
    match (tool, written_arguments) {
        (Some(tool), Some(arguments)) if quote::is_definition(arguments, tool) => Object::Closed,
        (Some(tool), Some(arguments)) => Object::Call(Call { name: tool.name.clone(), arguments: arguments::from_json(arguments) }),
        // With other keys beside the name this is a record, or arguments in a form not known here.
        (Some(tool), None) if !has_data => Object::Call(Call { name: tool.name.clone(), arguments: arguments::NONE.to_owned() }),
        (None, Some(_)) if is_named => Object::Closed,
        _ => Object::Wrapper,
    }
}

fn slot<'s, T>(keys: &[&str], slots: &'s mut [T], key: &str) -> Option<&'s mut T> {
    let index = keys.iter().position(|known| *known == key)?;
    slots.get_mut(index)
}

fn is_string(value: &str) -> bool {
    value.starts_with('"')
}

/// The keys under which models write a call's name, the usual one first.
const NAME_KEYS: [&str; 3] = ["name", "tool", "function"];

/// Keys that label a call and carry none of its arguments.
const LABEL_KEYS: [&str; 5] = ["id", "type", "index", "call_id", "tool_call_id"];
