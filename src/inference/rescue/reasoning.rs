//! Takes the reasoning out of a text: what a model thinks is neither a call nor an answer.
//!
//! Reasoning stands in `<think>…</think>` (DeepSeek R1, Qwen3), `<thinking>…</thinking>` or
//! `[THINK]…[/THINK]` (Magistral), in any case. Unclosed, it goes to the end of the text; closed
//! without having been opened (the template opened it), it goes from the start. A tag inside the
//! JSON or the XML parameters of an answer is data and stays.

use std::borrow::Cow;

use super::page::Page;

/// The text without its reasoning.
pub(super) fn strip(text: &str) -> Cow<'_, str> {
    if !(0..text.len()).any(|at| tag_at(text, at).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut page = Page::new(text);
    let (mut visible, mut from, mut at) = (String::new(), 0, 0);
    while let Some(mark) = page.next_mark(at) {
        at = match tag_at(text, mark) {
            Some(Tag::Open { end, closing }) => {
                visible.push_str(page.slice(from..mark));
                from = closing_end(text, end, closing);
                from
            }
            Some(Tag::Close { end }) => {
                visible.clear();
                from = end;
                from
            }
            None => page.data_end(mark).unwrap_or(mark + 1),
        };
    }
    visible.push_str(page.slice(from..text.len()));
    Cow::Owned(visible)
}

enum Tag {
    Open { end: usize, closing: &'static str },
    Close { end: usize },
}

fn tag_at(text: &str, at: usize) -> Option<Tag> {
    if !matches!(text.as_bytes().get(at)?, b'<' | b'[') {
        return None;
    }
    TAGS.iter().find_map(|&(opening, closing)| {
        let open = end_of(text, at, opening).map(|end| Tag::Open { end, closing });
        open.or_else(|| end_of(text, at, closing).map(|end| Tag::Close { end }))
    })
}

fn closing_end(text: &str, from: usize, closing: &str) -> usize {
    (from..text.len()).find_map(|at| end_of(text, at, closing)).unwrap_or(text.len())
}

fn end_of(text: &str, at: usize, tag: &str) -> Option<usize> {
    let end = at + tag.len();
    let found = text.as_bytes().get(at..end)?;
    found.eq_ignore_ascii_case(tag.as_bytes()).then_some(end)
}

const TAGS: [(&str, &str); 3] = [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")];
