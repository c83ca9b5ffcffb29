//! The stretches of text that hold calls, and the text that is left when they are taken out.

use std::ops::Range;

use super::Call;

/// A stretch of text that is nothing but calls: one call, or a wrapper with all its calls.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) span: Range<usize>,
    pub(super) calls: Vec<Call>,
}

/// Units with only separators, fences and wrapper tags between them; they stand or fall together.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) span: Range<usize>,
    pub(super) calls: Vec<Call>,
    /// Whether an odd number of fences stands between the units.
    flips_fence: bool,
}

/// Joins neighbouring units.
pub(super) fn blocks(text: &str, units: Vec<Unit>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for unit in units {
        if let Some(last) = blocks.last_mut() {
            let gap = text.get(last.span.end..unit.span.start).unwrap_or_default();
            if is_packaging(gap) {
                last.flips_fence ^= has_odd_fences(gap);
                last.span.end = unit.span.end;
                last.calls.extend(unit.calls);
                continue;
            }
        }
        blocks.push(Block { span: unit.span, calls: unit.calls, flips_fence: false });
    }
    blocks
}

/// The text without the blocks, the fences they leave empty and the tags that wrapped them.
pub(super) fn text_around(text: &str, blocks: &[Block]) -> String {
    let mut content = String::new();
    let first = blocks.first().map_or(text.len(), |block| block.span.start);
    let mut left = text.get(..first).unwrap_or_default();
    let (mut in_fence, mut separator) = (false, "");
    for (index, block) in blocks.iter().enumerate() {
        let next = blocks.get(index + 1).map_or(text.len(), |block| block.span.start);
        let right = text.get(block.span.end..next).unwrap_or_default();
        let opens = in_fence ^ has_odd_fences(left);
        let closes = opens ^ block.flips_fence;
        let after = without_leading_tags(right);
        let tagless = without_trailing_tags(left);
        let fenceless = without_opening_fence(tagless);
        // A fence goes only as a whole: it stays if other text stands in it beside the calls.
        let is_pair = closes && (!opens || fenceless.len() < tagless.len());
        let fence_rest = after.strip_prefix(FENCE).filter(|_| is_pair);
        let is_emptied = opens && (!closes || fence_rest.is_some() || !right.contains(FENCE));
        let before = if is_emptied { fenceless } else { tagless };
        append(&mut content, separator, before);
        in_fence = closes && fence_rest.is_none();
        let rest = fence_rest.map_or(after, without_leading_tags);
        let dropped = [left.strip_prefix(before), right.strip_suffix(rest)];
        let broke_line = dropped.iter().flatten().any(|space| space.contains('\n'));
        separator = if broke_line { "\n" } else { " " };
        left = rest;
    }
    append(&mut content, separator, left.trim_end());
    content.truncate(content.trim_end().len());
    content.drain(..content.len() - content.trim_start().len());
    content
}

/// The text between two calls without separators, fences with a one-word label, and tags.
pub(super) fn is_packaging(gap: &str) -> bool {
    let mut rest = gap;
    loop {
        rest = rest.trim_start_matches(|char: char| char.is_whitespace() || char == ',');
        if rest.is_empty() {
            return true;
        }
        if let Some(after) = rest.strip_prefix(FENCE) {
            rest = after.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || char == '_');
        } else if let Some(after) = strip_tag(rest) {
            rest = after;
        } else {
            return false;
        }
    }
}

/// What is left of a text that follows a call when the packaging at its start is gone.
pub(super) fn without_leading_tags(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(after) = strip_tag(rest) {
        rest = after.trim_start();
    }
    rest
}

fn without_trailing_tags(text: &str) -> &str {
    let mut rest = text.trim_end();
    while let Some(before) = WRAPPERS.iter().find_map(|tag| rest.strip_suffix(tag)) {
        rest = before.trim_end();
    }
    rest
}

/// A text that ends inside a fence, without that fence's opening line if nothing follows it.
fn without_opening_fence(text: &str) -> &str {
    match text.rsplit_once(FENCE) {
        Some((before, label)) if !label.contains(['\n', '`']) => without_trailing_tags(before),
        _ => text,
    }
}

fn append(content: &mut String, separator: &str, piece: &str) {
    if !content.is_empty() && !piece.is_empty() {
        content.push_str(separator);
    }
    content.push_str(piece);
}

fn strip_tag(text: &str) -> Option<&str> {
    WRAPPERS.iter().find_map(|tag| text.strip_prefix(tag))
}

fn has_odd_fences(text: &str) -> bool {
    text.matches(FENCE).count() % 2 == 1
}

pub(super) const FENCE: &str = "```";

/// What templates put around calls: Hermes and Qwen, Granite, Llama 3, Mistral.
const WRAPPERS: [&str; 8] =
    ["<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "<|tool_call|>", "<|python_tag|>", "[TOOL_CALLS]", "[/TOOL_CALLS]"];
