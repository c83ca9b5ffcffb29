//! Calls written as `>>>name`, a line break, and the arguments.
//!
//! The format of Functionary 3.2's chat template: every part of a reply has its recipient in front,
//! `all` for the user. The first `>>>` belongs to the prompt, so a reply may begin with a name.

use super::Form;
use crate::inference::offer::Offer;
use crate::inference::rescue::offered;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit, is_packing};

/// Reads the part whose `>>>`, or else the first part whose brace, is at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let name = match page.after(mark, PART) {
        Some(name) => name,
        None if mark <= NAME_BYTES_MAX && page.byte(mark) == Some(b'{') => 0,
        None => return None,
    };
    let name_end = name + run(page.bytes(), name, is_name_byte);
    let line_end = name_end + run(page.bytes(), name_end, |byte| matches!(byte, b' ' | b'\r'));
    let start = skip_space(page.bytes(), line_end);
    let tool = offered(offer, page.slice(name..name_end))?;
    if page.byte(line_end) != Some(b'\n') || page.byte(start) != Some(b'{') || start < mark {
        return None;
    }
    let end = page.container_end(start)?;
    let rest = page.slice(end..page.bytes().len());
    let is_followed = rest.trim_start().starts_with(PART);
    // Alone, a name and its arguments are another form's.
    if !is_followed && (name == 0 || !is_packing(rest)) {
        return None;
    }
    let candidates = vec![Candidate::full(&tool.name, page.slice(start..end).to_owned(), offer)];
    Some(Unit { span: name.min(mark)..end, candidates, marker: Marker::Args, form: Form::Functionary })
}

const PART: &str = ">>>";

/// Room for a tool's name.
const NAME_BYTES_MAX: usize = 128;
