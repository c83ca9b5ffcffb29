//! Calls behind Mistral's `[TOOL_CALLS]` token.
//!
//! The formats of the vendor's tokenizer versions, from its model cards and chat templates: v3 and
//! v7 write `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, v11 writes `[TOOL_CALLS]name{…}` or
//! `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, v13 `[TOOL_CALLS]name[ARGS]{…}`.

use crate::inference::offer::Offer;

use super::page::Page;
use super::scan::{is_name_byte, run, skip_space};
use super::unit::Unit;
use super::{Call, json};

/// Reads the calls behind the marker at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let body = skip_space(page.bytes(), page.after(mark, "[TOOL_CALLS]")?);
    if let Some(end) = page.container_end(body) {
        let calls = json::calls_in(page, &(body..end), offer);
        return (!calls.is_empty()).then_some(Unit { span: mark..end, calls });
    }
    let (mut end, mut calls) = (body, Vec::new());
    // Further calls may follow without a marker of their own.
    while let Some((call, call_end)) = named(page, skip_space(page.bytes(), end), offer) {
        end = call_end;
        calls.push(call);
    }
    (!calls.is_empty()).then_some(Unit { span: mark..end, calls })
}

fn named(page: &mut Page<'_>, start: usize, offer: &Offer) -> Option<(Call, usize)> {
    let name_end = start + run(page.bytes(), start, is_name_byte);
    let tool = offer.find(page.slice(start..name_end))?;
    let mut at = skip_space(page.bytes(), name_end);
    if let Some(id) = page.after(at, "[CALL_ID]") {
        at = skip_space(page.bytes(), id + run(page.bytes(), id, is_name_byte));
    }
    let at = skip_space(page.bytes(), page.after(at, "[ARGS]").unwrap_or(at));
    if page.byte(at) != Some(b'{') {
        return None;
    }
    let end = page.container_end(at)?;
    let arguments = page.slice(at..end).to_owned();
    Some((Call { name: tool.name.clone(), arguments }, end))
}
