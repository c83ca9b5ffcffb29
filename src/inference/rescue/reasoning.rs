//! Takes the reasoning out of a text: what a model thinks is neither a call nor an answer.
//!
//! Reasoning stands in `<think>…</think>` (DeepSeek R1, Qwen3), in one of the other pairs of `TAGS`,
//! or on the analysis channel of harmony (gpt-oss), in any case. Unclosed, it goes to the end of the
//! text; closed without having been opened (the template opened it), it goes from the start, except
//! that harmony's `<|end|>` ends other messages too. A tag inside the JSON or the raw values of an
//! answer is data and stays.

use std::{borrow::Cow, ops::Range};

use super::page::{Marks, Page};

/// A text without its reasoning.
pub(super) struct Visible<'t> {
    pub(super) text: Cow<'t, str>,
    /// What was taken out, in order.
    cuts: Vec<Range<usize>>,
}

impl<'t> Visible<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let cuts = cuts(text);
        if cuts.is_empty() {
            return Self { text: Cow::Borrowed(text), cuts };
        }
        let (mut visible, mut from) = (String::with_capacity(text.len()), 0);
        for cut in &cuts {
            visible.push_str(text.get(from..cut.start).unwrap_or_default());
            from = cut.end;
        }
        visible.push_str(text.get(from..).unwrap_or_default());
        Self { text: Cow::Owned(visible), cuts }
    }

    /// Where the byte `at` of the whole text is found, or the next one that is left.
    pub(super) fn position(&self, at: usize) -> usize {
        at - self.cuts.iter().map(|cut| at.clamp(cut.start, cut.end) - cut.start).sum::<usize>()
    }
}

/// How much of a text is reasoning that was never opened, because the template had opened it; 0 when there is none.
pub(in crate::inference) fn unopened_end(text: &str) -> usize {
    cuts(text).first().filter(|cut| cut.start == 0 && !matches!(tag_at(text, 0), Some(Tag::Open { .. }))).map_or(0, |cut| cut.end)
}

/// Reasoning without the closing tag at its end.
pub(in crate::inference) fn without_tag(text: &str) -> &str {
    let start = |(_, closing): &(&str, &str)| text.len().checked_sub(closing.len()).filter(|at| end_of(text, *at, closing).is_some());
    TAGS.iter().find_map(start).and_then(|at| text.get(..at)).unwrap_or(text)
}

fn cuts(text: &str) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    if !(0..text.len()).any(|at| tag_at(text, at).is_some()) {
        return cuts;
    }
    let (mut page, marks, mut at) = (Page::new(text), Marks::new([].into_iter()), 0);
    while let Some(mark) = page.next_mark(at, &marks) {
        at = match tag_at(text, mark) {
            Some(Tag::Open { end, closing }) => {
                let end = closing_end(text, end, closing);
                cuts.push(mark..end);
                end
            }
            Some(Tag::Close { end }) => {
                cuts.clear();
                cuts.push(0..end);
                end
            }
            None => page.data_end(mark).unwrap_or(mark + 1),
        };
    }
    cuts
}

enum Tag {
    Open { end: usize, closing: &'static str },
    Close { end: usize },
}

fn tag_at(text: &str, at: usize) -> Option<Tag> {
    if !matches!(text.as_bytes().get(at)?, b'<' | b'[') {
        return None;
    }
    // Most marks begin another tag, as the next letter shows.
    if !matches!(text.as_bytes().get(at + 1)?.to_ascii_lowercase(), b't' | b'r' | b's' | b'/' | b'|') {
        return None;
    }
    let opened = || {
        let mut pairs = TAGS.iter().chain(&[ANALYSIS]);
        pairs.find_map(|&(opening, closing)| end_of(text, at, opening).map(|end| Tag::Open { end, closing }))
    };
    let closed = || TAGS.iter().find_map(|&(_, closing)| end_of(text, at, closing)).map(|end| Tag::Close { end });
    opened().or_else(closed)
}

fn closing_end(text: &str, from: usize, closing: &str) -> usize {
    (from..text.len()).find_map(|at| end_of(text, at, closing)).unwrap_or(text.len())
}

fn end_of(text: &str, at: usize, tag: &str) -> Option<usize> {
    let end = at + tag.len();
    let found = text.as_bytes().get(at..end)?;
    found.eq_ignore_ascii_case(tag.as_bytes()).then_some(end)
}

/// The tags of DeepSeek R1 and Qwen3, of prompts that ask for them, of Gemma's and other tunes, of
/// Magistral and of Seed-OSS.
pub(in crate::inference) const TAGS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
];
const ANALYSIS: (&str, &str) = ("<|channel|>analysis<|message|>", "<|end|>");
