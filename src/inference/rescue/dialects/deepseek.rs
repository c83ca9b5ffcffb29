//! Calls between DeepSeek's tokens.
//!
//! From the vendor's chat templates: V3 and R1 write `<｜tool▁call▁begin｜>function<｜tool▁sep｜>name`
//! and the arguments in a JSON fence; V3.1 writes `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}`. Both end a
//! call with `<｜tool▁call▁end｜>` and put their calls between `<｜tool▁calls▁begin｜>` and
//! `<｜tool▁calls▁end｜>`.

use super::Form;
use super::section::{self, Header, Tokens, token_end};
use crate::inference::offer::Offer;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{run, skip_space};
use crate::inference::rescue::unit::Unit;

/// Reads the section or the calls whose first token is at `mark`.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    section::read(page, mark, offer, &TOKENS, header)
}

fn header<'t>(page: &Page<'t>, inside: usize) -> Option<Header<'t>> {
    let first_end = inside + run(page.bytes(), inside, |byte| !matches!(byte, b'<' | b'\n'));
    let first = page.slice(inside..first_end).trim();
    let second = token_end(page, first_end, "tool_sep")?;
    let second_end = second + run(page.bytes(), second, |byte| !matches!(byte, b'<' | b'\n' | b'{' | b'`'));
    // In V3 the kind of the call comes first, and the name stands where V3.1 has the arguments.
    let name = Some(page.slice(second..second_end).trim()).filter(|name| !name.is_empty()).unwrap_or(first);
    Some(Header { name, arguments: skip_space(page.bytes(), second_end) })
}

const TOKENS: Tokens = Tokens {
    form: Form::DeepSeek,
    section_begin: "tool_calls_begin",
    section_end: "tool_calls_end",
    call_begin: "tool_call_begin",
    call_end: "tool_call_end",
};
