//! Reads the tool calls that a model wrote as text instead of making them.
//!
//! Promises: without a tag or a token that says so, only offered tools are called; nothing inside
//! reasoning, inside another call's arguments, in code or merely quoted in an answer is a call;
//! arguments are never invented; and the time is linear in the text, whatever stands in it.

use crate::inference::offer::{Offer, Tool};

mod json;
mod mistral;
mod qwen_xml;
mod rehearsal;

mod arguments;
mod coerce;
mod page;
mod place;
mod quote;
pub(super) mod reasoning;
mod scan;
pub(crate) mod suffix;
mod unit;

#[cfg(test)]
mod linear_time;
#[cfg(test)]
mod tests;

use self::page::Page;
use self::reasoning::Visible;
use self::unit::Unit;

/// The way of writing a call that was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object with a name and arguments.
    Json,
    /// `[TOOL_CALLS]name{…}` or `[TOOL_CALLS][{…}]`.
    Mistral,
    /// `name[ARGS]{…}` without the marker in front, or `name{…}` as the whole text.
    Rehearsal,
    /// `<function=name><parameter=key>value</parameter></function>`.
    QwenXml,
}

impl Form {
    /// The stable name, for logs, metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Mistral => "mistral",
            Self::Rehearsal => "rehearsal",
            Self::QwenXml => "qwen_xml",
        }
    }
}

/// One call read out of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The name of an offered tool, or the name as written where a tag or a token says that this
    /// is a call, so that validation can say which tools there are.
    pub name: String,
    /// The JSON text of the arguments, byte for byte as written. A string-encoded object is
    /// decoded to the object's text; `{}` stands only where no arguments were written (key absent,
    /// null, or an empty string). Anything else is kept raw, for validation to complain about.
    pub arguments: String,
}

/// What was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescued {
    /// The calls in the order written, duplicates included; never empty.
    pub calls: Vec<Call>,
    /// The text around the calls, trimmed at its end, without reasoning, emptied fences and wrapper tags.
    pub content: String,
    /// How the calls were written.
    pub form: Form,
}

/// Reads the calls out of `text`; `None` when it holds none. The first `shown` bytes are text whatever they look like, and the content
/// begins with them; it is not trimmed there.
pub fn rescue(text: &str, shown: usize, offer: &Offer) -> Option<Rescued> {
    let whole = Visible::of(text);
    let (visible, floor) = (whole.text.as_ref(), whole.position(shown));
    let mut page = Page::new(visible);
    FORMS.iter().find_map(|&(form, token, read)| {
        // Most texts hold no token at all and cost no walk.
        if !visible.contains(token) {
            return None;
        }
        let units = page.walk(|page, mark| read(page, mark, offer));
        let spots = place::spots(visible, &units);
        let mut blocks = unit::blocks(visible, units.into_iter().zip(spots));
        blocks.retain(|block| block.span.start >= floor);
        quote::retain_calls(visible, &mut blocks);
        if blocks.is_empty() {
            return None;
        }
        let mut content = unit::text_around(visible, &blocks, floor);
        content.replace_range(..floor, text.get(..shown).unwrap_or_default());
        let calls = blocks.into_iter().flat_map(|block| block.calls).collect();
        Some(Rescued { calls, content, form })
    })
}

/// The offered tool that a model means by `name`. `functions.` is OpenAI's namespace for tools,
/// which models write in front of the names that they were given without it.
fn offered<'o>(offer: &'o Offer, name: &str) -> Option<&'o Tool> {
    offer.find(name).or_else(|| offer.find(name.strip_prefix("functions.")?))
}

/// Reads the unit of one form that begins at (or is recognised by) the byte at the given position.
type Read = fn(&mut Page<'_>, usize, &Offer) -> Option<Unit>;

/// The forms, each with a token that it cannot do without, from the least to the most ambiguous; the first that finds a call wins.
///
/// 1. Mistral's marker is a control token that ordinary text does not contain, and what follows it
///    may hold `[ARGS]` or JSON call objects, which the later forms would misread.
/// 2. `name[ARGS]{…}` has a marker too, and its arguments may look like a JSON call.
/// 3. XML parameters may hold any JSON, so JSON comes after it.
/// 4. A JSON object has no marker at all.
///
/// The reverse nesting (a marker inside a JSON string or a parameter) is excluded by `Page::walk`.
const FORMS: [(Form, &str, Read); 4] = [
    (Form::Mistral, "[TOOL_CALLS]", mistral::read),
    (Form::Rehearsal, "{", rehearsal::read),
    (Form::QwenXml, "<function=", qwen_xml::read),
    (Form::Json, "{", json::read),
];

/// A string with which the packaging of a call begins, and which says that it is one.
struct Opening {
    text: &'static str,
    /// Whether it counts only where no word stands before it in its line.
    begins_line: bool,
}

/// What a running text is held for. Brackets, fences and the names of tools are looked at more closely in `suffix`.
const OPENINGS: &[Opening] = &[
    Opening { text: "[TOOL_CALLS]", begins_line: false },
    Opening { text: "<tool_call>", begins_line: false },
    Opening { text: "<tool_calls>", begins_line: false },
    Opening { text: "<tools>", begins_line: false },
    Opening { text: "<|tool_call|>", begins_line: false },
    Opening { text: "<|python_tag|>", begins_line: false },
    Opening { text: "<function=", begins_line: false },
];
