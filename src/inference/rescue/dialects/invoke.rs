//! Calls written as `<invoke name="f"><parameter name="key">value</parameter></invoke>`.
//!
//! Anthropic's prompts describe the form, in `<function_calls>`; MiniMax M2's chat template has it in
//! `<minimax:tool_call>`, Step-3's with its own namespace, and DeepSeek V3.2's with one between bars,
//! which also says which values are strings. All other values are raw text, typed by the tool's schema.

use super::Form;
use crate::inference::offer::{Offer, Tool};
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit, is_loose_packing};
use crate::inference::rescue::{arguments, coerce, offered};

/// Reads the element at `mark`; none unless it is closed, or whole at the end of the text.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let (spelling, at) = SPELLINGS.iter().find_map(|spelling| Some((spelling, page.after(mark, spelling.invoke)?)))?;
    let Head { name, inside, .. } = head(page, at)?;
    let tool = offered(offer, name);
    if name.is_empty() || (tool.is_none() && !name.bytes().all(is_name_byte)) {
        return None;
    }
    let first = skip_space(page.bytes(), inside);
    let has_parameters = page.after(first, spelling.parameter).is_some();
    let body = object(page, first).or_else(|| parameters(page, first, spelling, tool));
    let unit = body.and_then(|(arguments, body_end)| {
        let closed = page.after(skip_space(page.bytes(), body_end), spelling.invoke_end);
        let is_whole = body_end > first && is_loose_packing(page.slice(body_end..page.bytes().len()));
        let end = closed.or_else(|| is_whole.then_some(body_end))?;
        Some(Unit { span: mark..end, candidates: vec![Candidate::full(name, arguments, offer)], marker: Marker::Token, form: Form::Invoke })
    });
    // A tag alone may be spoken of; with a parameter it is a call, readable or not.
    unit.or_else(|| {
        if !has_parameters {
            return None;
        }
        let rest = page.slice(first..page.bytes().len());
        let end = rest.find(spelling.invoke_end).map_or(page.bytes().len(), |offset| first + offset);
        Some(Unit::torn(mark..end, Form::Invoke))
    })
}

/// A tag behind `name=`.
struct Head<'t> {
    name: &'t str,
    /// Further attributes.
    rest: &'t str,
    inside: usize,
}

fn head<'t>(page: &Page<'t>, at: usize) -> Option<Head<'t>> {
    let quote = page.byte(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let name_end = at + 1 + run(page.bytes(), at + 1, |byte| byte != quote && !matches!(byte, b'<' | b'>' | b'\n'));
    let end = name_end + run(page.bytes(), name_end, |byte| !matches!(byte, b'<' | b'>' | b'\n'));
    let is_closed = page.byte(name_end) == Some(quote) && page.byte(end) == Some(b'>');
    is_closed.then(|| Head { name: page.slice(at + 1..name_end).trim(), rest: page.slice(name_end + 1..end), inside: end + 1 })
}

/// The arguments as one object, as some models write them in spite of their template.
fn object(page: &mut Page<'_>, at: usize) -> Option<(String, usize)> {
    let end = Some(at).filter(|at| page.byte(*at) == Some(b'{')).and_then(|at| page.container_end(at))?;
    Some((page.slice(at..end).to_owned(), end))
}

fn parameters(page: &mut Page<'_>, mut at: usize, spelling: &Spelling, tool: Option<&Tool>) -> Option<(String, usize)> {
    let mut members = arguments::Members::default();
    while let Some(attributes) = page.after(at, spelling.parameter) {
        let Head { name, rest, inside } = head(page, attributes)?;
        let closing = page.raw_value_closing(at)?;
        let written = without_line_breaks(page.slice(inside..closing.start));
        let value = match rest.trim() {
            r#"string="true""# => serde_json::Value::from(written).to_string(),
            r#"string="false""# if arguments::is_json(written) => written.trim().to_owned(),
            _ => coerce::value(written, name, tool),
        };
        members.insert(name, value);
        at = skip_space(page.bytes(), closing.end);
    }
    Some((members.to_json(), at))
}

/// A value on lines of its own, without the line breaks around it. A file's text has only the last.
fn without_line_breaks(value: &str) -> &str {
    let inner = value.strip_prefix('\n').and_then(|value| value.strip_suffix('\n'));
    inner.unwrap_or(value)
}

/// The tags of one namespace.
struct Spelling {
    invoke: &'static str,
    invoke_end: &'static str,
    parameter: &'static str,
}

const fn spelling(invoke: &'static str, invoke_end: &'static str, parameter: &'static str) -> Spelling {
    Spelling { invoke, invoke_end, parameter }
}

const SPELLINGS: [Spelling; 4] = [
    spelling("<invoke name=", "</invoke>", "<parameter name="),
    spelling("<antml:invoke name=", "</antml:invoke>", "<antml:parameter name="),
    spelling("<steptml:invoke name=", "</steptml:invoke>", "<steptml:parameter name="),
    spelling("<｜DSML｜invoke name=", "</｜DSML｜invoke>", "<｜DSML｜parameter name="),
];
