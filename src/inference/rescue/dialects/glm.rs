//! Calls written as `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`.
//!
//! The format of GLM 4.5's chat template, with line breaks between the parts, and of GLM 4.6's and
//! later, without. Values are raw text where they are strings, else JSON; which, the tool's schema says.

use super::Form;
use crate::inference::offer::Offer;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit, is_loose_packing};
use crate::inference::rescue::{arguments, coerce, offered};

/// Reads the call whose tag is at `mark`; none unless it is closed, or whole at the end of the text.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let start = skip_space(page.bytes(), page.after(mark, "<tool_call>")?);
    let name_end = start + run(page.bytes(), start, is_name_byte);
    let name = Some(page.slice(start..name_end)).filter(|name| !name.is_empty())?;
    let first = skip_space(page.bytes(), name_end);
    let has_arguments = page.after(first, ARG_KEY).is_some();
    // A word between two tags is a call only if it is a tool.
    if !has_arguments && (offered(offer, name).is_none() || page.after(first, CALL_END).is_none()) {
        return None;
    }
    let Some((arguments, end)) = arguments(page, first, name, offer) else {
        let rest = page.slice(first..page.bytes().len());
        let end = rest.find(CALL_END).map_or(page.bytes().len(), |offset| first + offset);
        return Some(Unit::torn(mark..end, Form::Glm));
    };
    let candidates = vec![Candidate::full(name, arguments, offer)];
    Some(Unit { span: mark..end, candidates, marker: Marker::Token, form: Form::Glm })
}

/// The arguments from `at` on, and the end of the call.
fn arguments(page: &mut Page<'_>, mut at: usize, name: &str, offer: &Offer) -> Option<(String, usize)> {
    let (mut members, tool) = (arguments::Members::default(), offered(offer, name));
    while let Some(key) = page.after(at, ARG_KEY) {
        let key_end = key + run(page.bytes(), key, |byte| !matches!(byte, b'<' | b'\n'));
        let value = skip_space(page.bytes(), page.after(key_end, "</arg_key>")?);
        let closing = page.raw_value_closing(value)?;
        let (key, written) = (page.slice(key..key_end).trim(), page.slice(value + ARG_VALUE.len()..closing.start));
        members.insert(key, coerce::value(written, key, tool));
        at = skip_space(page.bytes(), closing.end);
    }
    let closed = page.after(at, CALL_END);
    let end = closed.or_else(|| is_loose_packing(page.slice(at..page.bytes().len())).then_some(at))?;
    Some((members.to_json(), end))
}

const ARG_KEY: &str = "<arg_key>";
const ARG_VALUE: &str = "<arg_value>";
const CALL_END: &str = "</tool_call>";
