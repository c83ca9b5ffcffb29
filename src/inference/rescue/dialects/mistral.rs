//! Calls behind Mistral's `[TOOL_CALLS]` token.
//!
//! The formats of the vendor's tokenizer versions, from its model cards and chat templates: v3 and
//! v7 write `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, v11 writes `[TOOL_CALLS]name{…}` or
//! `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, v13 `[TOOL_CALLS]name[ARGS]{…}`.

use super::{Form, json};
use crate::inference::offer::Offer;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit};

/// Reads the calls behind the marker at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let body = skip_space(page.bytes(), page.after(mark, "[TOOL_CALLS]")?);
    let (mut end, mut candidates) = (body, Vec::new());
    if let Some(list_end) = page.container_end(body) {
        end = list_end;
        candidates = json::find(page, body, offer).candidates;
    } else if let Some(first) = named(page, body, offer) {
        end = first.end;
        candidates.push(first.candidate);
        // Further calls may follow without a marker of their own; then a word before a brace is
        // not enough.
        while let Some(next) = named(page, skip_space(page.bytes(), end), offer).filter(|it| it.candidate.is_offered || it.is_marked) {
            end = next.end;
            candidates.push(next.candidate);
        }
    }
    (!candidates.is_empty()).then_some(Unit { span: mark..end, candidates, marker: Marker::Token, form: Form::Mistral })
}

struct Named {
    candidate: Candidate,
    end: usize,
    /// Whether `[ARGS]` stands before the arguments.
    is_marked: bool,
}

fn named(page: &mut Page<'_>, start: usize, offer: &Offer) -> Option<Named> {
    let name_end = start + run(page.bytes(), start, is_name_byte);
    let name = page.slice(start..name_end);
    let mut at = skip_space(page.bytes(), name_end);
    if let Some(id) = page.after(at, "[CALL_ID]") {
        at = skip_space(page.bytes(), id + run(page.bytes(), id, is_name_byte));
    }
    let marked = page.after(at, "[ARGS]");
    let at = skip_space(page.bytes(), marked.unwrap_or(at));
    if name.is_empty() || page.byte(at) != Some(b'{') {
        return None;
    }
    let end = page.container_end(at)?;
    let candidate = Candidate::full(name, page.slice(at..end).to_owned(), offer);
    Some(Named { candidate, end, is_marked: marked.is_some() })
}
