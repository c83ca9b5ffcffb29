//! Reads the tool calls that a model wrote as text instead of making them.
//!
//! Promises: without a tag or a token that says so, only offered tools are called; nothing inside
//! reasoning, inside another call's arguments, in code or merely quoted in an answer is a call, save
//! a program of nothing but calls at a reply's end; arguments are never invented; and the time is
//! linear in the text, whatever stands in it. docs/dialects.md has the forms.

use crate::inference::offer::{Offer, Tool};

mod dialects;

mod arguments;
mod coerce;
mod page;
mod place;
mod python;
mod quote;
mod raw_value;
pub(super) mod reasoning;
mod scan;
pub(crate) mod suffix;
mod unit;
mod wrapper;

#[cfg(test)]
mod linear_time;
#[cfg(test)]
mod tests;

pub use self::dialects::Form;
use self::dialects::Readers;
use self::page::Page;
use self::reasoning::Visible;

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
    /// How the first call was written.
    pub form: Form,
}

/// Reads the calls out of `text`; `None` when it holds none. The first `shown` bytes are text whatever they look like, and the content
/// begins with them; it is not trimmed there.
pub fn rescue(text: &str, shown: usize, offer: &Offer) -> Option<Rescued> {
    let whole = Visible::of(text);
    let (visible, floor) = (whole.text.as_ref(), whole.position(shown));
    let readers = Readers::of(visible)?;
    let mut units = Page::new(visible).walk(&readers.marks, |page, mark| readers.read(page, mark, offer));
    let end = quote::made_up_from(visible, &units).max(floor);
    let visible = visible.get(..end).unwrap_or(visible);
    units.retain(|unit| unit.span.end <= end);
    let spots = place::spots(visible, &units);
    let mut blocks = unit::blocks(visible, units.into_iter().zip(spots));
    blocks.retain(|block| block.span.start >= floor);
    quote::retain_calls(visible, &mut blocks);
    let form = blocks.first()?.form;
    let mut content = unit::text_around(visible, &blocks, floor);
    content.replace_range(..floor, text.get(..shown).unwrap_or_default());
    let calls = blocks.into_iter().flat_map(|block| block.calls).collect();
    Some(Rescued { calls, content, form })
}

/// The offered tool that a model means by `name`. `functions.` is OpenAI's namespace for tools,
/// which models write in front of the names that they were given without it.
fn offered<'o>(offer: &'o Offer, name: &str) -> Option<&'o Tool> {
    offer.find(name).or_else(|| offer.find(name.strip_prefix("functions.")?))
}

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
    Opening { text: "<TOOLCALL>", begins_line: false },
    Opening { text: "<｜tool", begins_line: false },
    Opening { text: "<|tool", begins_line: false },
    Opening { text: "<|python_tag|>", begins_line: false },
    Opening { text: "<|python_start|>", begins_line: false },
    Opening { text: "<|START_ACTION|>", begins_line: false },
    Opening { text: "<|channel|>", begins_line: false },
    Opening { text: "<|start|>", begins_line: false },
    Opening { text: "<function=", begins_line: false },
    Opening { text: "<function_calls>", begins_line: false },
    Opening { text: "<invoke name=", begins_line: false },
    Opening { text: "<minimax:tool_call>", begins_line: false },
    Opening { text: "<seed:tool_call>", begins_line: false },
    Opening { text: "<antml:", begins_line: false },
    Opening { text: "<steptml:", begins_line: false },
    Opening { text: "<｜DSML｜", begins_line: false },
    Opening { text: "to=functions.", begins_line: false },
    Opening { text: ">>>", begins_line: true },
    Opening { text: "Action:", begins_line: true },
];
