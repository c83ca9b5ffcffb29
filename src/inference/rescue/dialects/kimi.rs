//! Calls between Kimi K2's tokens.
//!
//! From the vendor's chat template: `<|tool_calls_section_begin|><|tool_call_begin|>functions.name:0
//! <|tool_call_argument_begin|>{…}<|tool_call_end|><|tool_calls_section_end|>` without the space;
//! what stands before the arguments is the call's id, which holds its name.

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
    let id_end = inside + run(page.bytes(), inside, |byte| !matches!(byte, b'<' | b'\n'));
    let arguments = token_end(page, id_end, "tool_call_argument_begin")?;
    let id = page.slice(inside..id_end).trim();
    let name = match id.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => id,
    };
    Some(Header { name, arguments: skip_space(page.bytes(), arguments) })
}

const TOKENS: Tokens = Tokens {
    form: Form::Kimi,
    section_begin: "tool_calls_section_begin",
    section_end: "tool_calls_section_end",
    call_begin: "tool_call_begin",
    call_end: "tool_call_end",
};
