//! The signals that a text merely quotes a call.
//!
//! A call that runs by mistake costs more than one that is missed, because a missed one is asked
//! for again; so each of these signals suffices to leave the call in the text.

use serde_json::Value;

use crate::inference::offer::Tool;

use super::unit::{Block, FENCE, is_packaging, without_leading_tags};

/// Keeps the blocks that are calls and drops those that are quoted.
pub(super) fn retain_calls(text: &str, blocks: &mut Vec<Block>) {
    let starts: Vec<usize> = blocks.iter().map(|block| block.span.start).collect();
    let mut next_starts = starts.into_iter().skip(1).chain([text.len()]);
    let (mut from, mut line_ticks) = (0, 0);
    blocks.retain(|block| {
        let before = text.get(from..block.span.start).unwrap_or_default();
        let next = next_starts.next().unwrap_or(text.len());
        let after = text.get(block.span.end..next).unwrap_or_default();
        from = block.span.end;
        line_ticks = match before.rsplit_once('\n') {
            Some((_, line)) => inline_ticks(line),
            None => line_ticks + inline_ticks(before),
        };
        let is_inline_code = line_ticks % 2 == 1 && inline_ticks(first_line(after)) > 0;
        !is_inline_code && !is_announced_as_example(before)
    });
    let end = blocks.last().map_or(0, |block| block.span.end);
    if is_long_answer(text.get(end..).unwrap_or_default()) {
        blocks.clear();
    }
}

/// A tool's definition, repeated from the prompt, has the shape of a call with `parameters`: its
/// "arguments" are the schema itself.
pub(super) fn is_definition(arguments: &str, tool: &Tool) -> bool {
    if !arguments.contains("\"properties\"") {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        return false;
    };
    let takes_properties = tool.parameters.pointer("/properties/properties").is_some();
    let is_schema = value.get("type").is_some() && value.get("properties").is_some_and(Value::is_object);
    value == tool.parameters || (is_schema && !takes_properties)
}

/// The prose just before says that an example follows, as answers about an API do. Just before is
/// the line of the call and the line of text before it, past fences and blank lines.
fn is_announced_as_example(before: &str) -> bool {
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let line_above = above.lines().rev().find(|line| !is_packaging(line) && !is_fence(line));
    [Some(line), line_above].into_iter().flatten().any(|line| {
        let line = line.to_ascii_lowercase();
        ANNOUNCEMENTS.iter().any(|phrase| has_phrase(&line, phrase))
    })
}

/// Whether a phrase stands in a line as whole words: "information" announces no format.
fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        let after = line.get(at + phrase.len()..).unwrap_or_default();
        let after = after.strip_prefix('s').unwrap_or(after).chars().next();
        let is_letter = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
        !is_letter(before) && (phrase.ends_with('.') || !is_letter(after))
    })
}

/// A model that goes on to write a paragraph chose to answer; one that calls stops after the call.
fn is_long_answer(after: &str) -> bool {
    let mut rest = without_leading_tags(after);
    while let Some(behind) = rest.strip_prefix(FENCE) {
        rest = without_leading_tags(behind);
    }
    rest.trim_end().chars().count() > PROSE_AFTER_MAX
}

/// How many runs of one or two backticks, which delimit inline code, a line has.
fn inline_ticks(line: &str) -> usize {
    let runs = line.split(|char| char != '`');
    runs.filter(|run| matches!(run.len(), 1 | 2)).count()
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or(text)
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with(FENCE)
}

const ANNOUNCEMENTS: [&str; 6] = ["example", "for instance", "e.g.", "such as", "looks like", "format"];

/// Longer than a courtesy ("Let me know if you need anything else."), shorter than an explanation.
const PROSE_AFTER_MAX: usize = 160;
