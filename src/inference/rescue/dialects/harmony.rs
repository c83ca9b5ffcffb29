//! Calls in gpt-oss's harmony format.
//!
//! From OpenAI's description of it: `<|channel|>commentary to=functions.name <|constrain|>json
//! <|message|>{…}<|call|>` without the line break, where the recipient may also stand behind the
//! role: `<|start|>assistant to=functions.name<|channel|>…`. The role's beginning is part of the
//! prompt, so a reply may start in the middle of a header.

use super::Form;
use crate::inference::offer::Offer;
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit};

/// Reads the message whose header begins at `mark`, if it is sent to a tool.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let inside = page.after(mark, "<|start|>").or_else(|| page.after(mark, "<|channel|>"))?;
    let rest = page.slice(inside..page.bytes().len());
    let header = rest.get(..rest.floor_char_boundary(HEADER_BYTES_MAX))?.split("<|message|>").next()?;
    let body = page.after(inside + header.len(), "<|message|>")?;
    let (start, name) = match recipient(header) {
        Some(name) => (mark, name),
        None => recipient_before(page, mark)?,
    };
    let name = Some(name).filter(|name| !PEOPLE.contains(name))?;
    Some(match arguments(page, body) {
        Some((arguments, end)) => {
            Unit { span: start..end, candidates: vec![Candidate::full(name, arguments, offer)], marker: Marker::Token, form: Form::Harmony }
        }
        None => {
            let end = page.slice(body..page.bytes().len()).find("<|").map_or(page.bytes().len(), |offset| body + offset);
            Unit::torn(start..end, Form::Harmony)
        }
    })
}

/// To whom a message with this header is sent.
fn recipient(header: &str) -> Option<&str> {
    let (before, behind) = header.split_once(RECIPIENT)?;
    let is_word = before.is_empty() || before.ends_with([' ', '>', '\n']);
    let name = behind.get(..run(behind.as_bytes(), 0, is_name_byte))?;
    (is_word && !name.is_empty()).then_some(name)
}

/// The recipient at the very start of the text, in front of the channel at `mark`.
fn recipient_before<'t>(page: &Page<'t>, mark: usize) -> Option<(usize, &'t str)> {
    let header = Some(page.slice(0..mark)).filter(|header| header.len() <= HEADER_BYTES_MAX)?.trim();
    let name = header.strip_prefix("assistant").unwrap_or(header).trim_start().strip_prefix(RECIPIENT)?;
    (!name.is_empty() && name.bytes().all(is_name_byte)).then_some((0, name))
}

/// The arguments that are all of the message from `body` on, and their end.
fn arguments(page: &mut Page<'_>, body: usize) -> Option<(String, usize)> {
    let start = skip_space(page.bytes(), body);
    if page.after(start, "<|call|>").is_some() {
        return Some(("{}".to_owned(), start));
    }
    if page.byte(start) != Some(b'{') {
        return None;
    }
    let end = page.container_end(start)?;
    let behind = skip_space(page.bytes(), end);
    let is_all = page.byte(behind).is_none() || page.after(behind, "<|").is_some();
    is_all.then(|| (page.slice(start..end).to_owned(), end))
}

const RECIPIENT: &str = "to=";

/// Recipients that are no tools.
const PEOPLE: [&str; 4] = ["assistant", "user", "all", "system"];

/// Room for a role, a channel, a tool's name and a type.
const HEADER_BYTES_MAX: usize = 256;
