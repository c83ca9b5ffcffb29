//! Calls written `name[ARGS]{…}`.
//!
//! The form of Mistral's v13 tokenizer (model cards of Magistral and Devstral) when the
//! `[TOOL_CALLS]` token in front is lost or never written: the model rehearses the call as text.
//! Where `[ARGS]` is lost too, `name{…}` is a call only if there is nothing else in the text.

use std::ops::Range;

use super::{Form, json};
use crate::inference::offer::Offer;
use crate::inference::rescue::offered;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit, is_loose_packing, is_separator, without_packing};

/// Reads the call whose `[ARGS]`, or else whose brace, is at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    if page.byte(mark) == Some(b'{') {
        return whole_text(page, mark, offer);
    }
    let start = skip_space(page.bytes(), page.after(mark, "[ARGS]")?);
    if page.byte(start) != Some(b'{') {
        return None;
    }
    let mut name = name_before(page, mark);
    if let Some(id) = page.slice(0..name.start).strip_suffix("[CALL_ID]") {
        name = name_before(page, id.len());
    }
    let end = page.container_end(start)?;
    let span = name.start..end;
    let name = Some(page.slice(name)).filter(|name| !name.is_empty())?;
    let candidates = vec![Candidate::full(name, page.slice(start..end).to_owned(), offer)];
    Some(Unit { span, candidates, marker: Marker::Args, form: Form::Rehearsal })
}

/// The name that ends at `end`; empty when there is none.
fn name_before(page: &Page<'_>, end: usize) -> Range<usize> {
    let before = page.bytes().get(..end).unwrap_or_default();
    end - before.iter().rev().take_while(|byte| is_name_byte(**byte)).count()..end
}

fn whole_text(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    if mark > LEAD_BYTES_MAX {
        return None;
    }
    let lead = without_packing(page.slice(0..mark), is_separator);
    let (start, name) = (mark - lead.len(), lead.trim_end());
    offered(offer, name)?;
    let end = page.container_end(mark)?;
    // Some models write the name once more in front of a call in JSON.
    let is_call = json::find(page, mark, offer).candidates.iter().any(|it| it.is_offered && it.is_full);
    if is_call || !is_loose_packing(page.slice(end..page.bytes().len())) {
        return None;
    }
    let candidate = Candidate::full(name, page.slice(mark..end).to_owned(), offer);
    Some(Unit { span: start..end, candidates: vec![candidate], marker: Marker::None, form: Form::Rehearsal })
}

/// Room for tags, a fence and a name; bounded, because it is read before every brace up to there.
const LEAD_BYTES_MAX: usize = 256;
