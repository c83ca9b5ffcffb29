//! Calls written as YAML, in a fence or a tag: `name: f`, `arguments:` and a line for each argument.
//!
//! No vendor's format; small models fall into it. Only plain mappings of an offered tool's parameters
//! are read, and only where nothing else stands in the fence or the tag.

use super::Form;
use super::pythonic::fence_inside;
use crate::inference::offer::{Offer, Tool};
use crate::inference::rescue::page::Page;
use crate::inference::rescue::place::first_line;
use crate::inference::rescue::scan::is_name_byte;
use crate::inference::rescue::unit::{Candidate, FENCE, Marker, Unit};
use crate::inference::rescue::{arguments, coerce, offered, wrapper};

/// Reads the call that is all of the fence or the tag that opens at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let text = page.slice(mark..page.bytes().len());
    let (inside, closing, marker) = match fence_inside(page, mark) {
        Some(inside) => (inside, FENCE, Marker::Program),
        None => wrapper::opened_at(text).map(|(inside, closing)| (mark + inside, closing, Marker::None))?,
    };
    let rest = page.slice(inside..page.bytes().len());
    let lead = rest.len() - rest.trim_start().len();
    let first = rest.trim_start();
    // A line may be as long as the text, and this is read before every tag.
    let name_line = first_line(first.get(..first.floor_char_boundary(NAME_LINE_BYTES_MAX))?);
    let (key, name) = entry(name_line)?;
    let tool = offered(offer, scalar(name)).filter(|_| NAME_KEYS.contains(&key))?;
    // Unclosed, the last line may be cut off.
    let body = rest.get(lead + name_line.len()..)?;
    let body = body.get(..length(body, closing)?)?;
    let arguments = arguments(body, tool)?;
    let (start, end) = (inside + lead, inside + lead + name_line.len() + body.trim_end().len());
    Some(Unit { span: start..end, candidates: vec![Candidate::full(&tool.name, arguments, offer)], marker, form: Form::Yaml })
}

/// How much stands in front of `closing`; none where something else than entries does. Line by line,
/// so that a tag that is opened again and again is not searched to the end of the text each time.
fn length(body: &str, closing: &str) -> Option<usize> {
    let mut length = 0;
    for line in body.split_inclusive('\n') {
        if let Some(at) = line.find(closing) {
            return Some(length + at);
        }
        // What is opened anew was not closed. Looking on would read the text again from each tag.
        if line.match_indices('<').any(|(at, _)| line.get(at..).is_some_and(|rest| wrapper::opened_at(rest).is_some())) {
            return None;
        }
        if !line.trim().is_empty() && entry(line.trim()).is_none() {
            return None;
        }
        length += line.len();
    }
    None
}

/// The arguments in the lines behind the name.
fn arguments(body: &str, tool: &Tool) -> Option<String> {
    let mut lines = body.lines().filter(|line| !line.trim().is_empty());
    let mut members = arguments::Members::default();
    let Some(first) = lines.next() else { return Some(members.to_json()) };
    let (_, written) = entry(first).filter(|(key, _)| ARGUMENT_KEYS.contains(key))?;
    if !written.is_empty() {
        let is_object = written.starts_with('{') && arguments::is_json(written);
        return (is_object && lines.next().is_none()).then(|| written.to_owned());
    }
    let mut indent = None;
    for line in lines {
        let (key, value) = entry(line.trim_start())?;
        let depth = line.len() - line.trim_start().len();
        // Deeper lines are a structure of their own; others belong to no argument.
        let is_argument = depth > 0 && *indent.get_or_insert(depth) == depth && has_parameter(tool, key);
        // Blocks, anchors and tags are more than a plain value.
        if !is_argument || members.contains(key) || value.is_empty() || value.starts_with(['|', '>', '&', '*', '!']) {
            return None;
        }
        members.insert(key, coerce::value(scalar(value), key, Some(tool)));
    }
    Some(members.to_json())
}

/// The key and the value of a line.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.bytes().all(is_name_byte);
    (is_key && (value.is_empty() || value.starts_with(' '))).then(|| (key, value.trim()))
}

/// A value without its quotes.
fn scalar(value: &str) -> &str {
    let unquoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    unquoted.filter(|inner| !inner.contains(['"', '\'', '\\'])).unwrap_or(value)
}

fn has_parameter(tool: &Tool, key: &str) -> bool {
    tool.parameters.get("properties").and_then(|properties| properties.get(key)).is_some()
}

/// Room for a key and a tool's name.
const NAME_LINE_BYTES_MAX: usize = 256;

const NAME_KEYS: [&str; 3] = ["name", "tool", "function"];
const ARGUMENT_KEYS: [&str; 3] = ["arguments", "args", "parameters"];
