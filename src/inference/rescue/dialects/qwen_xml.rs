//! Calls written as `<function=name><parameter=key>value</parameter></function>`.
//!
//! The format of Qwen3-Coder's chat template, which Seed-OSS shares: values are raw text with a
//! newline on either side, typed only by the tool's schema. The templates of Llama 3.1 and
//! Functionary 3.1 have `<function=name>{…}</function>`, the JSON being the arguments; it is read
//! here too.

use super::Form;
use crate::inference::offer::{Offer, Tool};
use crate::inference::rescue::page::Page;
use crate::inference::rescue::scan::{is_name_byte, run, skip_space};
use crate::inference::rescue::unit::{Candidate, Marker, Unit, is_loose_packing};
use crate::inference::rescue::{arguments, coerce, offered};

/// Reads the function element at `mark`; none unless it is closed, or whole at the end of the text.
pub(super) fn read(page: &mut Page<'_>, mark: usize, offer: &Offer) -> Option<Unit> {
    let (name, inside) = tag(page, mark, FUNCTION)?;
    let tool = offered(offer, name);
    if name.is_empty() || (tool.is_none() && !name.bytes().all(is_name_byte)) {
        return None;
    }
    let body = json_body(page, inside).or_else(|| parameters(page, inside, tool))?;
    let closed = page.after(skip_space(page.bytes(), body.end), FUNCTION_END);
    let end = closed.or_else(|| (body.is_whole && ends_text(page, body.end)).then_some(body.end))?;
    let candidates = vec![Candidate::full(name, body.arguments, offer)];
    Some(Unit { span: mark..end, candidates, marker: Marker::Token, form: body.form })
}

/// The arguments in a function element.
struct Body {
    arguments: String,
    form: Form,
    end: usize,
    /// Whether something stands there and nothing of it is cut off: it needs no end tag.
    is_whole: bool,
}

fn ends_text(page: &Page<'_>, at: usize) -> bool {
    is_loose_packing(page.slice(at..page.bytes().len()))
}

/// The value and the end of a tag such as `<function=value>`.
fn tag<'t>(page: &Page<'t>, at: usize, opening: &str) -> Option<(&'t str, usize)> {
    let start = page.after(at, opening)?;
    let end = start + run(page.bytes(), start, |byte| !matches!(byte, b'<' | b'>' | b'\n'));
    (page.byte(end) == Some(b'>')).then(|| (page.slice(start..end).trim(), end + 1))
}

fn json_body(page: &mut Page<'_>, inside: usize) -> Option<Body> {
    let start = skip_space(page.bytes(), inside);
    let end = match page.byte(start)? {
        b'{' | b'[' => page.container_end(start)?,
        b'<' => return None,
        _ => start + run(page.bytes(), start, |byte| byte != b'<'),
    };
    let written = page.slice(start..end).trim_end();
    // A number or a literal may be cut off and still be JSON.
    let is_whole = written.ends_with(['}', ']', '"']);
    arguments::is_json(written).then(|| Body { arguments: arguments::from_json(written), form: Form::FunctionTag, end, is_whole })
}

/// The parameters from `at` on as an object.
fn parameters(page: &mut Page<'_>, mut at: usize, tool: Option<&Tool>) -> Option<Body> {
    let (mut members, mut is_whole) = (arguments::Members::default(), false);
    loop {
        at = skip_space(page.bytes(), at);
        let Some((key, inside)) = tag(page, at, PARAMETER) else {
            break;
        };
        let (end, next) = value_end(page, at, inside)?;
        is_whole = next > end;
        members.insert(key, coerce::value(without_newlines(page.slice(inside..end)), key, tool));
        at = next;
    }
    Some(Body { arguments: members.to_json(), form: Form::QwenXml, end: at, is_whole })
}

/// Where the value ends and where reading goes on. A value without its own closing tag ends at the
/// next parameter or at the function's end; one with it may hold `</function>` as data.
fn value_end(page: &mut Page<'_>, parameter: usize, inside: usize) -> Option<(usize, usize)> {
    if let Some(closing) = page.raw_value_closing(parameter) {
        return Some((closing.start, closing.end));
    }
    let mut at = inside;
    loop {
        at += run(page.bytes(), at, |byte| byte != b'<');
        page.byte(at)?;
        if page.after(at, PARAMETER).or_else(|| page.after(at, FUNCTION_END)).is_some() {
            return Some((at, at));
        }
        if page.after(at, FUNCTION).is_some() {
            return None;
        }
        at += 1;
    }
}

fn without_newlines(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or(value.strip_prefix('\n')).unwrap_or(value);
    value.strip_suffix("\r\n").or(value.strip_suffix('\n')).unwrap_or(value)
}

const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
