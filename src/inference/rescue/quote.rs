//! The signals that a text merely quotes a call.
//!
//! A call that runs by mistake costs more than one that is missed, because a missed one is asked
//! for again; so each of these signals suffices to leave the call in the text. Small models lead
//! in and explain their calls at length, so only what is rare beside a call is a signal.

use memchr::memmem;
use serde_json::Value;

use super::place::{first_line, last_line};
use super::unit::{Block, FENCE, Unit, is_loose_packing, is_packing, without_leading_tags, without_trailing_tags};
use crate::inference::offer::Tool;

/// Keeps the blocks that are calls and drops those that are quoted.
pub(super) fn retain_calls(text: &str, blocks: &mut Vec<Block>) {
    let mut signs = signs(text, blocks).into_iter();
    blocks.retain(|_| !signs.next().unwrap_or(false));
    let end = blocks.last().map_or(0, |block| block.span.end);
    let ends_reply = is_loose_packing(text.get(end..).unwrap_or_default());
    // A program that is shown is spoken about; one that is meant comes last.
    blocks.retain(|block| !block.is_program || (ends_reply && block.span.end == end));
    if is_long_answer(text.get(end..).unwrap_or_default()) {
        blocks.retain(|block| !block.is_in_prose);
    }
}

/// Where the model goes on with a tool's result, which it can only make up: no call behind it is meant. The end of the text when it does not.
pub(super) fn made_up_from(text: &str, units: &[Unit]) -> usize {
    let is_outside = |at: &usize| {
        let next = units.partition_point(|unit| unit.span.end <= *at);
        units.get(next).is_none_or(|unit| *at < unit.span.start)
    };
    let first = |mark: &&str| memmem::find_iter(text.as_bytes(), mark.as_bytes()).find(is_outside);
    RESULTS.iter().filter_map(first).min().unwrap_or(text.len())
}

/// A tool's definition, repeated from the prompt, has the shape of a call with `parameters`: its
/// "arguments" are the schema itself.
pub(super) fn is_definition(arguments: &str, tool: Option<&Tool>) -> bool {
    if !arguments.contains("\"type\"") {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        return false;
    };
    let takes_properties = tool.is_some_and(|tool| tool.parameters.pointer("/properties/properties").is_some());
    let is_schema = value.get("type").is_some() && value.get("properties").is_some_and(Value::is_object);
    tool.is_some_and(|tool| value == tool.parameters) || (is_schema && !takes_properties)
}

/// Whether the text around each block says that it is quoted.
fn signs(text: &str, blocks: &[Block]) -> Vec<bool> {
    let gap = |index: usize| {
        let from = index.checked_sub(1).and_then(|last| blocks.get(last)).map_or(0, |block| block.span.end);
        let to = blocks.get(index).map_or(text.len(), |block| block.span.start);
        text.get(from..to).unwrap_or_default()
    };
    let (mut signs, mut line_ticks) = (Vec::new(), 0);
    while signs.len() < blocks.len() {
        let mut line = Line { lead: last_line(gap(signs.len())), words: 0, chars: 0, is_prose: false };
        let first = signs.len();
        // The blocks of one line stand or fall together.
        loop {
            let (before, after) = (gap(signs.len()), gap(signs.len() + 1));
            let (is_whole, is_program) = blocks.get(signs.len()).map_or((false, false), |block| (block.is_whole, block.is_program));
            line_ticks = match before.rsplit_once('\n') {
                Some((_, line)) => inline_ticks(line),
                None => line_ticks + inline_ticks(before),
            };
            let is_inline_code = !is_whole && line_ticks % 2 == 1 && inline_ticks(first_line(after)) > 0;
            let in_prose = blocks.get(signs.len()).is_some_and(|block| block.is_in_prose);
            // Assigned or in quotes, it is a program's or a command's.
            let is_value = in_prose && before.trim_end_matches(' ').ends_with(['=', '\'', '"']);
            signs.push(is_inline_code || is_value || is_announced_as_example(before, is_program));
            line.go_on(first_line(after));
            if after.contains('\n') || signs.len() == blocks.len() {
                break;
            }
        }
        if line.is_sentence() {
            let of_line = signs.iter_mut().zip(blocks).skip(first);
            of_line.for_each(|(sign, block)| *sign |= block.is_in_prose);
        }
    }
    signs
}

/// A line that holds blocks: what stands before the first, and between and behind them.
struct Line<'t> {
    lead: &'t str,
    words: usize,
    chars: usize,
    is_prose: bool,
}

impl Line<'_> {
    fn go_on(&mut self, text: &str) {
        let text = without_leading_tags(text).trim_end();
        self.words += text.split_whitespace().count();
        self.chars += text.chars().count();
        self.is_prose |= text.contains(char::is_alphanumeric);
    }

    /// A sentence that goes on behind a call speaks about the call; a closing word does not.
    fn is_sentence(&self) -> bool {
        let is_closing = self.words <= 1 && self.chars <= CLOSING_CHARS_MAX;
        self.is_prose && !is_closing && without_trailing_tags(self.lead).contains(char::is_alphanumeric)
    }
}

/// The prose just before says that an example follows, as answers about an API do. Just before is
/// the line of the call and the line of text before it, past fences and blank lines.
fn is_announced_as_example(before: &str, is_program: bool) -> bool {
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let line_above = above.lines().rev().find(|line| !is_packing(line) && !is_fence(line));
    [Some(line), line_above].into_iter().flatten().any(|line| {
        let line = line.to_ascii_lowercase();
        let of_programs = PROGRAM_ANNOUNCEMENTS.iter().filter(|_| is_program);
        ANNOUNCEMENTS.iter().chain(of_programs).any(|phrase| has_phrase(&line, phrase))
    })
}

/// Whether a phrase stands in a line as whole words: "counterexample" announces nothing.
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

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with(FENCE)
}

/// "Format" and "looks like" stand in the usual lead-ins of calls that are meant.
const ANNOUNCEMENTS: [&str; 4] = ["example", "for instance", "e.g.", "such as"];

/// A program is shown on demand, and a call in its form is not called one.
const PROGRAM_ANNOUNCEMENTS: [&str; 8] = ["how to", "like this", "python", "code", "script", "snippet", "program", "yaml"];

/// Room for "now", "please." and the like.
const CLOSING_CHARS_MAX: usize = 16;

/// Longer than a courtesy ("Let me know if you need anything else."), shorter than an explanation.
const PROSE_AFTER_MAX: usize = 160;

/// With what templates begin the result of a tool: Hermes and Qwen, Mistral, DeepSeek.
const RESULTS: [&str; 3] = ["<tool_response>", "[TOOL_RESULTS]", "<｜tool▁outputs▁begin｜>"];
