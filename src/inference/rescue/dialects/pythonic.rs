//! Calls written as Python's: `[f(a="b", c=1), g()]`, or one a line.
//!
//! The list is the format of Llama 4's and LFM2's model cards (in tags) and of ToolACE; `f.call(a="b")`
//! behind `<|python_tag|>` is Llama 3's for its built-in tools; Gemma's prompts ask for calls in a fence
//! labelled `tool_code`, where they are often printed or taken from `default_api`.

use super::Form;
use crate::inference::offer::{Offer, Tool};
use crate::inference::rescue::page::Page;
use crate::inference::rescue::place::is_program_label;
use crate::inference::rescue::python::{self, Reader};
use crate::inference::rescue::scan::run;
use crate::inference::rescue::unit::{
    Candidate, FENCE, Marker, Unit, is_label_char, is_loose_packing, is_packing, is_separator, without_packing,
};
use crate::inference::rescue::{arguments, coerce, offered, wrapper};

/// Reads the list of calls at `mark`.
pub(super) fn read_list(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let mut reader = Reader::new(page.slice(0..page.bytes().len()), page.after(mark, "[")?);
    let mut calls = Vec::new();
    while calls.is_empty() || !reader.eat("]") {
        calls.push(reader.call()?);
        if !reader.eat(",") {
            if !reader.eat("]") {
                return None;
            }
            break;
        }
    }
    // A link's text, not a list.
    if page.byte(reader.at) == Some(b'(') {
        return None;
    }
    // A call that cannot be expressed is none, nor are those beside it; but what stands in them is theirs.
    let candidates = calls.iter().map(|call| candidate(call, offer)).collect::<Option<_>>().unwrap_or_default();
    Some(Unit { span: mark..reader.at, candidates, marker: Marker::None, form: Form::Pythonic })
}

/// Reads the calls that are all of the text, the first of which has its parenthesis at `mark`.
pub(super) fn read_text(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    if mark > LEAD_BYTES_MAX {
        return None;
    }
    let lead = without_packing(page.slice(0..mark), is_separator);
    let unit = statements(page, mark - lead.len(), offer, Marker::None)?;
    is_loose_packing(page.slice(unit.span.end..page.bytes().len())).then_some(unit)
}

/// Reads the calls behind the tag at `mark`.
pub(super) fn read_tag(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let (inside, closing) = wrapper::opened_at(page.slice(mark..page.bytes().len()))?;
    let unit = statements(page, mark + inside, offer, Marker::None)?;
    let rest = page.slice(unit.span.end..page.bytes().len());
    let is_all = rest.trim_start().starts_with(closing) || is_packing(rest);
    is_all.then_some(unit)
}

/// Reads the calls that are all of the fence that opens at `mark`.
pub(super) fn read_fence(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let inside = fence_inside(page, mark)?;
    let unit = statements(page, inside, offer, Marker::Program)?;
    let rest = page.slice(unit.span.end..page.bytes().len()).trim_start();
    (rest.is_empty() || rest.starts_with(FENCE)).then_some(unit)
}

/// Where the lines begin in the fence that opens at `mark`, if it may hold calls in a program's form.
pub(super) fn fence_inside(page: &Page<'_>, mark: usize) -> Option<usize> {
    // The run of backticks is read once, at its start.
    if mark.checked_sub(1).and_then(|before| page.byte(before)) == Some(b'`') {
        return None;
    }
    let ticks = run(page.bytes(), mark, |byte| byte == b'`');
    let label = mark + ticks;
    let label_end = label + run(page.bytes(), label, |byte| is_label_char(byte.into()));
    let line_end = label_end + run(page.bytes(), label_end, |byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let is_fence = ticks >= FENCE.len() && is_program_label(page.slice(label..label_end)) && page.byte(line_end) == Some(b'\n');
    is_fence.then_some(line_end)
}

/// One or more calls of offered tools and nothing else.
fn statements(page: &Page<'_>, start: usize, offer: &Offer, marker: Marker) -> Option<Unit> {
    let mut reader = Reader::new(page.slice(0..page.bytes().len()), start);
    reader.skip_space();
    let (first, mut end, mut candidates) = (reader.at, start, Vec::new());
    while let Some(candidate) = statement(&mut reader, offer) {
        candidates.push(candidate);
        end = reader.at;
        while reader.eat(";") || reader.eat(",") {}
    }
    // What is a mere word's call elsewhere is one where nothing else stands.
    (!candidates.is_empty()).then_some(Unit { span: first..end, candidates, marker, form: Form::Pythonic })
}

/// A call of an offered tool, which may be printed, as in a program that shows its result.
fn statement(reader: &mut Reader<'_>, offer: &Offer) -> Option<Candidate> {
    let before = reader.at;
    let is_printed = reader.eat("print(") && offered(offer, "print").is_none();
    if !is_printed {
        reader.at = before;
    }
    let call = reader.call().and_then(|call| candidate(&call, offer));
    let call = call.filter(|call| call.is_offered && (!is_printed || reader.eat(")")));
    if call.is_none() {
        reader.at = before;
    }
    call
}

/// The call with its arguments by name; none where they cannot be told.
fn candidate(call: &python::Call<'_>, offer: &Offer) -> Option<Candidate> {
    let bare = |name: &'_ str| -> Option<String> {
        let name = name.strip_prefix("default_api.").unwrap_or(name);
        offered(offer, name).map(|tool| tool.name.clone())
    };
    let name = bare(call.name).or_else(|| bare(call.name.strip_suffix(".call")?)).unwrap_or_else(|| call.name.to_owned());
    let tool = offered(offer, &name);
    let mut members = arguments::Members::default();
    match call.positional.as_slice() {
        [] => {}
        // One value for one parameter leaves no doubt.
        [only] if call.keywords.is_empty() => {
            let key = only_parameter(tool?)?;
            members.insert(key, coerce::literal(only, key, tool));
        }
        _ => return None,
    }
    for (key, value) in &call.keywords {
        if members.contains(key) {
            return None;
        }
        members.insert(key, coerce::literal(value, key, tool));
    }
    let is_full = !(call.positional.is_empty() && call.keywords.is_empty());
    Some(Candidate { is_full, ..Candidate::full(&name, members.to_json(), offer) })
}

/// The parameter of a tool that has just one.
pub(super) fn only_parameter(tool: &Tool) -> Option<&str> {
    let properties = tool.parameters.get("properties")?.as_object()?;
    properties.keys().next().filter(|_| properties.len() == 1).map(String::as_str)
}

/// Room for tags, a fence and a name; bounded, because it is read before every parenthesis up to there.
const LEAD_BYTES_MAX: usize = 256;
