//! Calls written as ReAct prompts ask for them: `Action: name` and `Action Input: {…}` on lines of
//! their own.
//!
//! The form of the ReAct paper as agent frameworks spread it. The input is an object; for a tool with
//! one parameter it may be that parameter's text. A model that does not stop there writes an
//! `Observation:`, which no tool made: nothing behind it counts.

use super::Form;
use super::pythonic::only_parameter;
use crate::inference::offer::{Offer, Tool};
use crate::inference::rescue::page::Page;
use crate::inference::rescue::place::{first_line, last_line};
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, FENCE, Marker, Unit, is_label_char};
use crate::inference::rescue::{arguments, coerce, offered, python};

/// Reads the call whose `Action:` is at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let after = page.after(mark, "Action:")?;
    let from = page.floor_boundary(mark.saturating_sub(INDENT_MAX));
    let before = page.slice(from..mark);
    let has_start = from == 0 || before.contains('\n');
    if !has_start || !last_line(before).trim_start().is_empty() {
        return None;
    }
    let line = first_line(page.slice(after..page.bytes().len()));
    let name = line.trim().trim_matches('`');
    let tool = offered(offer, name).filter(|_| name.bytes().all(is_name_byte))?;
    let input = page.after(skip_space(page.bytes(), after + line.len()), "Action Input:")?;
    let (arguments, end) = object(page, input).or_else(|| text(page, input, tool))?;
    let candidates = vec![Candidate::full(name, arguments, offer)];
    Some(Unit { span: mark..observation_end(page, end), candidates, marker: Marker::Args, form: Form::React })
}

/// An object, bare or in a fence, as JSON or as Python's; nothing else may stand behind it in its line.
fn object(page: &mut Page<'_>, input: usize) -> Option<(String, usize)> {
    let mut start = skip_space(page.bytes(), input);
    let fence = page.after(start, FENCE);
    if let Some(label) = fence {
        start = skip_space(page.bytes(), label + run(page.bytes(), label, |byte| is_label_char(byte.into())));
    }
    if page.byte(start) != Some(b'{') {
        return None;
    }
    let (arguments, mut end) = match page.container_end(start) {
        Some(end) => (page.slice(start..end).to_owned(), end),
        None => {
            let line = first_line(page.slice(start..page.bytes().len())).trim_end();
            (python::to_json(line)?, start + line.len())
        }
    };
    if fence.is_some() {
        end = page.after(skip_space(page.bytes(), end), FENCE)?;
    }
    first_line(page.slice(end..page.bytes().len())).trim().is_empty().then_some((arguments, end))
}

/// A line of text for the only parameter of a tool.
fn text(page: &Page<'_>, input: usize, tool: &Tool) -> Option<(String, usize)> {
    let line = first_line(page.slice(input..page.bytes().len()));
    let written = line.trim();
    let is_none = NONE.iter().any(|none| written.eq_ignore_ascii_case(none));
    let is_text = !written.is_empty() && !is_none && !written.starts_with(['{', '[', '`']);
    let key = only_parameter(tool).filter(|_| is_text)?;
    let quoted = serde_json::from_str::<String>(written).ok();
    let mut members = arguments::Members::default();
    members.insert(key, coerce::value(quoted.as_deref().unwrap_or(written), key, Some(tool)));
    Some((members.to_json(), input + line.trim_end().len()))
}

/// What models write where a tool has no input; as an argument it would be invented.
const NONE: [&str; 5] = ["none", "null", "n/a", "nil", "empty"];

/// The end of a call with what the model made up behind it.
fn observation_end(page: &Page<'_>, end: usize) -> usize {
    let next = skip_space(page.bytes(), end);
    page.after(next, "Observation:").map_or(end, |_| page.bytes().len())
}

/// Room for an indent or a list's mark; bounded, because it is read before every `Action:`.
const INDENT_MAX: usize = 16;
