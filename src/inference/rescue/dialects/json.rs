//! Calls written as JSON objects.
//!
//! The formats of the vendors' chat templates and model cards: Hermes 2 Pro and Qwen 2.5
//! (`{"name": …, "arguments": {…}}`), Llama 3.1 (`{"name": …, "parameters": {…}}`), Granite (a list
//! of such objects), Phi-4-mini (`functools[{…}]`), Command R (`{"tool_name": …, "parameters":
//! {…}}`), OpenAI's own `{"type": "function", "function": {…}}` and `{"tool_calls": […]}`, and
//! `{"tool": …, "args": {…}}` of many agent prompts. They come bare, fenced, in lists, in prose and
//! in the tags of `wrapper`, which then say whose they are.

use super::Form;
use crate::inference::offer::Offer;
use crate::inference::rescue::page::{ARGUMENT_KEYS, Page};
use crate::inference::rescue::scan::is_name_byte;
use crate::inference::rescue::unit::{Candidate, Marker, Unit};
use crate::inference::rescue::{arguments, offered, quote};

/// Reads the outermost JSON object or array at `mark`, if it holds calls.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let end = page.container_end(mark)?;
    if end - mark < CALL_BYTES_MIN || is_argument(page, mark) {
        return None;
    }
    let Found { candidates, form } = find(page, mark, offer);
    if candidates.is_empty() {
        return None;
    }
    Some(match functools_start(page, mark) {
        Some(start) => Unit { span: start..end, candidates, marker: Marker::Token, form: Form::Phi },
        None => Unit { span: mark..end, candidates, marker: Marker::None, form },
    })
}

/// The calls in an object or array, and how they are written.
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    form: Form,
}

/// What has the shape of calls in the object or array at `start`, which is closed: in order, and
/// without looking into strings, into arguments or into the data of a record.
pub(super) fn find(page: &Page<'_>, start: usize, offer: &Offer) -> Found {
    let (mut candidates, mut waiting, mut form) = (Vec::new(), vec![start], Form::Json);
    while let Some(at) = waiting.pop() {
        let known = waiting.len();
        match page.byte(at) {
            // The messages of a conversation are not said now, nor are the calls in them.
            Some(b'[') if page.elements(at).any(|element| is_message(page, element)) => {}
            Some(b'[') => waiting.extend(page.elements(at)),
            Some(b'{') => match object(page, at, offer) {
                Object::Call(candidate) => candidates.push(candidate),
                Object::CohereCall(candidate) => {
                    form = Form::CommandR;
                    candidates.push(candidate);
                }
                Object::Definition => {}
                Object::Other => {
                    let wrapped = page.members(at).filter(|member| WRAPPER_KEYS.contains(&member.key));
                    waiting.extend(wrapped.map(|member| member.value.start));
                    if waiting.len() > known {
                        form = Form::OpenAi;
                    }
                }
            },
            _ => {}
        }
        // The last in is the next out.
        waiting.get_mut(known..).unwrap_or_default().reverse();
    }
    Found { candidates, form }
}

/// What an object is to somebody who looks for calls.
enum Object {
    Call(Candidate),
    /// A call under the key that only Command R's prompts ask for.
    CohereCall(Candidate),
    /// A tool's definition: nothing in it is a call.
    Definition,
    /// Anything else; it may wrap calls.
    Other,
}

fn object(page: &Page<'_>, start: usize, offer: &Offer) -> Object {
    let mut names: [Option<&str>; NAME_KEYS.len()] = [None; NAME_KEYS.len()];
    let mut written: [Option<&str>; ARGUMENT_KEYS.len()] = [None; ARGUMENT_KEYS.len()];
    let (mut others, mut is_described) = (Vec::new(), false);
    for member in page.members(start) {
        let value = page.slice(member.value);
        is_described |= member.key == "description";
        if let Some(name) = slot(&NAME_KEYS, &mut names, member.key).filter(|_| is_string(value)) {
            *name = Some(value);
        } else if let Some(arguments) = slot(&ARGUMENT_KEYS, &mut written, member.key) {
            *arguments = Some(value);
        } else {
            let is_label = LABEL_KEYS.contains(&member.key) || (member.key == "type" && TYPES.contains(&value));
            others.extend((!is_label).then_some(member.key));
        }
    }
    let is_cohere = names.last().is_some_and(Option::is_some);
    let call = if is_cohere { Object::CohereCall } else { Object::Call };
    let names = names.iter().flatten().filter_map(|name| serde_json::from_str(name).ok());
    let names: Vec<String> = names.filter(|name: &String| !name.is_empty()).collect();
    let Some(name) = names.iter().find(|name| offered(offer, name).is_some()).or(names.first()) else {
        return Object::Other;
    };
    let tool = offered(offer, name);
    // The definition of a tool, as a prompt has it.
    if is_described && written.last().is_some_and(Option::is_some) {
        return Object::Definition;
    }
    let mut given = written.iter().flatten().filter(|arguments| !is_empty(arguments));
    let arguments = match (given.next(), given.next()) {
        (Some(_), Some(_)) => return Object::Other,
        (Some(arguments), None) => Some(arguments),
        (None, _) => written.iter().flatten().next(),
    };
    // Arguments that stand beside the empty ones are not left out.
    let is_parameter =
        |key: &&str| tool.is_some_and(|tool| tool.parameters.get("properties").is_some_and(|known| known.get(key).is_some()));
    match arguments {
        Some(arguments) if quote::is_definition(arguments, tool) => Object::Definition,
        Some(arguments) if is_empty(arguments) && others.iter().any(is_parameter) => Object::Other,
        Some(arguments) => call(Candidate::full(name, arguments::from_json(arguments), offer)),
        // With other keys beside the name this is a record, or arguments in a form not known here.
        None if !others.is_empty() => Object::Other,
        None => call(Candidate { is_full: false, ..Candidate::full(name, arguments::NONE.to_owned(), offer) }),
    }
}

/// Whether an object is a message of somebody else than the model.
fn is_message(page: &Page<'_>, at: usize) -> bool {
    let is_role = |role: &str| ["\"user\"", "\"tool\"", "\"system\""].contains(&role);
    page.byte(at) == Some(b'{') && page.members(at).any(|member| member.key == "role" && is_role(page.slice(member.value)))
}

/// Whether a value says that there are no arguments.
fn is_empty(arguments: &str) -> bool {
    arguments == "null" || arguments == "\"\"" || arguments.strip_prefix('{').is_some_and(|rest| rest.trim() == "}")
}

/// Whether what starts at `mark` is the arguments of a call in another form, which that form's
/// reader declined.
fn is_argument(page: &Page<'_>, mark: usize) -> bool {
    let near = page.bytes().get(mark.saturating_sub(LOOK_BACK)..mark).unwrap_or_default().trim_ascii_end();
    let is_tag = |at: usize| near.get(at..).is_some_and(|tag| tag.starts_with(b"<function="));
    near.ends_with(b"[ARGS]") || (near.ends_with(b">") && near.iter().rposition(|byte| *byte == b'<').is_some_and(is_tag))
}

/// Where the `functools` in front of a list starts.
fn functools_start(page: &Page<'_>, mark: usize) -> Option<usize> {
    let start = mark.checked_sub("functools".len()).filter(|_| page.byte(mark) == Some(b'['))?;
    let is_word = start.checked_sub(1).and_then(|before| page.byte(before)).is_none_or(|byte| !is_name_byte(byte));
    (is_word && page.after(start, "functools").is_some()).then_some(start)
}

fn slot<'s, T>(keys: &[&str], slots: &'s mut [T], key: &str) -> Option<&'s mut T> {
    let index = keys.iter().position(|known| *known == key)?;
    slots.get_mut(index)
}

fn is_string(value: &str) -> bool {
    value.starts_with('"')
}

/// The keys under which models write a call's name, the usual one first and Command R's last.
const NAME_KEYS: [&str; 4] = ["name", "tool", "function", "tool_name"];

/// Keys that label a call and carry none of its arguments.
const LABEL_KEYS: [&str; 4] = ["id", "index", "call_id", "tool_call_id"];

/// What `type` says about a call. Any other type is a field's.
const TYPES: [&str; 4] = ["\"function\"", "\"tool_call\"", "\"tool_use\"", "\"tool\""];

/// The keys under which calls are wrapped. What is under any other key is data, whatever its shape.
const WRAPPER_KEYS: [&str; 5] = ["tool_calls", "tool_call", "function", "function_call", "calls"];

/// The length of `{"name":"f"}`, which most objects of a text full of brackets do not have.
const CALL_BYTES_MIN: usize = 12;

/// Room for a tag with a tool's name; bounded, because it is read before every object.
const LOOK_BACK: usize = 128;
