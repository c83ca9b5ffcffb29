//! What DeepSeek's and Kimi's dialects share: calls between tokens, one by one or in a section.

use std::ops::Range;

use super::Form;
use crate::inference::offer::Offer;
use crate::inference::rescue::offered;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit, is_label_char};

/// The tokens of a dialect, by their names: between bars, with low lines.
pub(super) struct Tokens {
    pub(super) form: Form,
    pub(super) section_begin: &'static str,
    pub(super) section_end: &'static str,
    pub(super) call_begin: &'static str,
    pub(super) call_end: &'static str,
}

/// A call's name and where its arguments begin.
pub(super) struct Header<'t> {
    pub(super) name: &'t str,
    pub(super) arguments: usize,
}

/// Reads the section, or the calls without one, whose first token is at `mark`. `header` reads a
/// call up to its arguments from behind the token with which it begins.
pub(super) fn read<'t>(
    page: &mut Page<'t>,
    mark: usize,
    offer: &Offer,
    tokens: &Tokens,
    header: fn(&Page<'t>, usize) -> Option<Header<'t>>,
) -> Option<Unit> {
    let section = token_end(page, mark, tokens.section_begin);
    let (mut end, mut candidates) = (section.unwrap_or(mark), Vec::new());
    while let Some(inside) = token_end(page, skip_space(page.bytes(), end), tokens.call_begin) {
        let Some(Header { name, arguments }) = header(page, inside) else { break };
        let is_name = !name.is_empty() && (offered(offer, name).is_some() || name.bytes().all(is_name_byte));
        let call = is_name.then(|| call(page, arguments, tokens)).flatten();
        let Some((arguments, call_end)) = call else {
            // Calls read before stay calls; the walk comes back to this one.
            return if candidates.is_empty() {
                Some(torn(page, mark, arguments, tokens))
            } else {
                Some(unit(mark..end, candidates, tokens))
            };
        };
        candidates.push(Candidate::full(name, arguments, offer));
        end = call_end;
    }
    if candidates.is_empty() {
        return None;
    }
    let end = token_end(page, skip_space(page.bytes(), end), tokens.section_end).unwrap_or(end);
    Some(unit(mark..end, candidates, tokens))
}

/// The position behind the token called `name` at `at`. Full-width bars and blocks may have become
/// their ASCII look-alikes on the way.
pub(super) fn token_end(page: &Page<'_>, at: usize, name: &str) -> Option<usize> {
    let text = page.slice(at..page.bytes().len());
    let mut rest = strip_bar(text.strip_prefix('<')?)?;
    for (index, word) in name.split('_').enumerate() {
        if index > 0 {
            rest = rest.strip_prefix("\\_").or_else(|| rest.strip_prefix(['▁', '_', ' ']))?;
        }
        rest = rest.strip_prefix(word)?;
    }
    let rest = strip_bar(rest)?.strip_prefix('>')?;
    Some(at + text.len() - rest.len())
}

fn strip_bar(text: &str) -> Option<&str> {
    text.strip_prefix(['｜', '|'])
}

/// The arguments from `at` on, which may be fenced, and the end of the call. Its last token may be
/// missing where the next one shows that it is complete.
fn call(page: &mut Page<'_>, at: usize, tokens: &Tokens) -> Option<(String, usize)> {
    let fence = page.after(at, "```").map(|label| label + run(page.bytes(), label, |byte| is_label_char(byte.into())));
    let start = skip_space(page.bytes(), fence.unwrap_or(at));
    if page.byte(start) != Some(b'{') {
        return None;
    }
    let arguments_end = page.container_end(start)?;
    let mut end = skip_space(page.bytes(), arguments_end);
    if fence.is_some() {
        end = skip_space(page.bytes(), page.after(end, "```").unwrap_or(end));
    }
    let closed = token_end(page, end, tokens.call_end);
    let is_followed =
        || page.byte(end).is_none() || [tokens.call_begin, tokens.section_end].iter().any(|name| token_end(page, end, name).is_some());
    let end = closed.or_else(|| is_followed().then_some(end))?;
    Some((page.slice(start..arguments_end).to_owned(), end))
}

/// A call that cannot be read, up to its last token: nothing in it may run in its place.
fn torn(page: &Page<'_>, start: usize, arguments: usize, tokens: &Tokens) -> Unit {
    let rest = page.slice(arguments..page.bytes().len());
    let closing = rest.match_indices('<').find_map(|(offset, _)| token_end(page, arguments + offset, tokens.call_end));
    Unit::torn(start..closing.unwrap_or(page.bytes().len()), tokens.form)
}

fn unit(span: Range<usize>, candidates: Vec<Candidate>, tokens: &Tokens) -> Unit {
    Unit { span, candidates, marker: Marker::Token, form: tokens.form }
}
