//! The stretches of text that hold calls, and the text that is left when they are taken out.

use std::ops::Range;

use super::dialects::Form;
use super::place::{Place, Spot};
use super::wrapper::{strip_end_of_turn, strip_tag, strip_tag_behind};
use super::{Call, offered};
use crate::inference::offer::Offer;

/// A stretch of text that has the shape of calls and nothing else: one call, or a wrapper with all
/// its calls.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) span: Range<usize>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) marker: Marker,
    pub(super) form: Form,
}

/// What has the shape of a call; where it stands decides whether it is one.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) call: Call,
    pub(super) is_offered: bool,
    /// Whether arguments were written.
    pub(super) is_full: bool,
}

/// What a unit itself has to say that it is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// Its shape only, which data may have too.
    None,
    /// The form of a program's code, which holds nothing but calls of offered tools.
    Program,
    /// A token between name and arguments.
    Args,
    /// A token or a tag around it all, as good as a tag beside it.
    Token,
}

/// Units with only separators, fences and wrapper tags between them; they stand or fall together.
#[derive(Debug)]
pub(super) struct Block {
    /// With the fences around the units.
    pub(super) span: Range<usize>,
    pub(super) calls: Vec<Call>,
    /// How the first of them is written.
    pub(super) form: Form,
    /// Whether a part of it stands bare in prose, where it is more easily quoted than meant.
    pub(super) is_in_prose: bool,
    /// Whether a part of it is a program, which is more easily shown than meant.
    pub(super) is_program: bool,
    /// Whether there is nothing else in the text.
    pub(super) is_whole: bool,
}

// === impl Unit ===

impl Unit {
    /// A call that says it is one and cannot be read. It is none, and nothing in it may run in its place.
    pub(super) fn torn(span: Range<usize>, form: Form) -> Self {
        Self { span, candidates: Vec::new(), marker: Marker::Token, form }
    }

    /// Whether it is a call by its marker, or by the name of an offered tool.
    pub(super) fn is_plausible(&self) -> bool {
        self.marker != Marker::None || self.candidates.iter().any(|candidate| candidate.is_offered)
    }

    /// Its calls, given where it stands; none if it is text there.
    fn calls_at(self, place: Place) -> Vec<Call> {
        let is_marked = place == Place::Tag || self.marker != Marker::None;
        let is_stray = self.marker == Marker::Program && place == Place::Prose;
        if place == Place::Code || is_stray || !(is_marked || self.is_plausible()) {
            return Vec::new();
        }
        // Beside an offered tool any other is a mistake; a bare name may as well be data.
        let counts = |it: &Candidate| is_marked || it.is_offered || it.is_full;
        let counted: Vec<_> = self.candidates.into_iter().filter(counts).collect();
        // In prose a bare name is a record's or a list's more often than a call's.
        if place == Place::Prose && counted.iter().any(|it| !it.is_full) {
            return Vec::new();
        }
        counted.into_iter().map(|it| it.call).collect()
    }
}

// === impl Candidate ===

impl Candidate {
    /// A call with its arguments; the name is the offered tool's where it names one.
    pub(super) fn full(name: &str, arguments: String, offer: &Offer) -> Self {
        let tool = offered(offer, name);
        let name = tool.map_or(name, |tool| &tool.name).to_owned();
        Self { call: Call { name, arguments }, is_offered: tool.is_some(), is_full: true }
    }
}

/// Joins neighbouring units, each given with its spot, and drops those that are text there.
pub(super) fn blocks(text: &str, units: impl Iterator<Item = (Unit, Spot)>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (unit, Spot { place, span, wrapper }) in units {
        let form = wrapper.filter(|_| unit.form.is_common()).unwrap_or(unit.form);
        let calls = unit.calls_at(place);
        if calls.is_empty() {
            continue;
        }
        let (is_in_prose, is_program) = (place == Place::Prose, place == Place::Program);
        if let Some(last) = blocks.last_mut() {
            // There is no gap between the units of one fence.
            let gap = text.get(last.span.end..span.start).unwrap_or_default();
            if is_packing(gap) {
                last.span.end = span.end;
                last.calls.extend(calls);
                last.is_in_prose |= is_in_prose;
                last.is_program |= is_program;
                continue;
            }
        }
        blocks.push(Block { span, calls, form, is_in_prose, is_program, is_whole: place == Place::Whole });
    }
    blocks
}

/// The text without the blocks, which begin at `floor` or behind it, and the tags that wrapped them. Up to `floor` it stays as it is.
pub(super) fn text_around(text: &str, blocks: &[Block], floor: usize) -> String {
    let (mut content, mut separator) = (text.get(..floor).unwrap_or_default().to_owned(), "");
    let first = blocks.first().map_or(text.len(), |block| block.span.start);
    let lead = text.get(floor..first).unwrap_or_default();
    // The header of a message may stand at the very start.
    let mut left = if floor == 0 { without_leading_tags(lead) } else { lead };
    for (index, block) in blocks.iter().enumerate() {
        let next = blocks.get(index + 1).map_or(text.len(), |block| block.span.start);
        let right = text.get(block.span.end..next).unwrap_or_default();
        let (before, after) = (without_trailing_tags(left), without_leading_tags(right));
        append(&mut content, separator, before);
        let dropped = [left.strip_prefix(before), right.strip_suffix(after)];
        let broke_line = dropped.iter().flatten().any(|space| space.contains('\n'));
        separator = if broke_line { "\n" } else { " " };
        left = after;
    }
    append(&mut content, separator, without_end_of_turn(left));
    if floor == 0 {
        return if is_loose_packing(&content) { String::new() } else { content.trim().to_owned() };
    }
    content.truncate(content.trim_end().len().max(floor));
    content
}

/// Whether a text is what may stand between two calls: separators, fences with a one-word label,
/// and tags.
pub(super) fn is_packing(text: &str) -> bool {
    without_packing(text, is_separator).is_empty()
}

/// Whether a text is nothing to somebody who reads it without its calls: packing, the brackets of
/// lists and templates that were not read as JSON, and backticks.
pub(super) fn is_loose_packing(text: &str) -> bool {
    without_packing(text, is_loose).is_empty()
}

/// What is left of a text when the packing at its start is gone.
pub(super) fn without_packing(text: &str, is_separator: fn(char) -> bool) -> &str {
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix(FENCE) {
            rest = after.trim_start_matches('`').trim_start_matches(is_label_char);
        } else if let Some(after) = strip_tag(rest) {
            rest = after;
        } else if rest.starts_with(is_separator) {
            rest = rest.strip_prefix(is_separator).unwrap_or(rest);
        } else {
            return rest;
        }
    }
}

/// What stands between calls; the semicolon is Llama 3's.
pub(super) fn is_separator(char: char) -> bool {
    char.is_whitespace() || matches!(char, ',' | ';')
}

/// Whether a character may stand in a fence's one-word label.
pub(super) fn is_label_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

/// What is left of a text that follows a call when the packaging at its start is gone.
pub(super) fn without_leading_tags(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(after) = strip_tag(rest) {
        rest = after.trim_start();
    }
    rest
}

/// What is left of a text before a call when the tags at its end are gone.
pub(super) fn without_trailing_tags(text: &str) -> &str {
    let mut rest = text.trim_end();
    while let Some(before) = strip_tag_behind(rest) {
        rest = before.trim_end();
    }
    rest
}

fn is_loose(char: char) -> bool {
    is_separator(char) || matches!(char, '{' | '}' | '[' | ']' | '(' | ')' | '`')
}

fn without_end_of_turn(text: &str) -> &str {
    let mut rest = text.trim_end();
    while let Some(before) = strip_end_of_turn(rest) {
        rest = before.trim_end();
    }
    rest
}

fn append(content: &mut String, separator: &str, piece: &str) {
    if !content.is_empty() && !piece.is_empty() {
        content.push_str(separator);
    }
    content.push_str(piece);
}

pub(super) const FENCE: &str = "```";
