//! A text with what is known about its JSON: where each object and array ends, found in linear
//! time, and the walk that every form uses to look for calls only where a call may stand.

use std::collections::HashMap;
use std::ops::Range;

use super::raw_value::RawValues;
use super::scan::{run, scalar_end, skip_space, string_end};
use super::unit::Unit;

/// A text and what has been learnt about it so far.
///
/// **Every bracket is read once per lexical state.** A read that starts at a bracket settles all
/// the brackets it meets outside strings, closed or not, and those are never read again. Only a
/// bracket that lay inside a string can start a second read over the same bytes; the two reads
/// have opposite string states, and neither survives a backslash of the other, so a byte is read
/// at most twice, whatever the text is.
pub(super) struct Page<'t> {
    text: &'t str,
    /// Per byte: `UNREAD`, `BROKEN`, `TORN` (see `torn`), or the end of the object or array that starts there.
    ends: Vec<u32>,
    torn: HashMap<usize, Torn>,
    /// The brackets that a read has open; empty between reads, kept for its memory.
    open: Vec<Frame>,
    raw_values: RawValues,
}

/// The bytes at which a call, a tag or a value may begin.
#[derive(Debug, Clone)]
pub(super) struct Marks([bool; 256]);

/// An object whose JSON breaks after it named its arguments: a call that cannot be read.
struct Torn {
    broken_at: usize,
    depth: usize,
}

/// A member of an object: its key without the quotes, as written, and where its value stands.
pub(super) struct Member<'t> {
    pub(super) key: &'t str,
    pub(super) value: Range<usize>,
}

struct Frame {
    start: usize,
    key: Option<usize>,
    is_object: bool,
}

enum Expect {
    Value,
    FirstElement,
    Key,
    FirstKey,
    Separator,
}

// === impl Page ===

impl<'t> Page<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, ends: vec![UNREAD; text.len()], torn: HashMap::new(), open: Vec::new(), raw_values: RawValues::default() }
    }

    pub(super) fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.bytes().get(at).copied()
    }

    /// The text of a range; empty when it is none.
    pub(super) fn slice(&self, range: Range<usize>) -> &'t str {
        self.text.get(range).unwrap_or_default()
    }

    /// The last position up to `at` that is no middle of a character.
    pub(super) fn floor_boundary(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at)
    }

    /// The position after `token` when it stands at `at`.
    pub(super) fn after(&self, at: usize, token: &str) -> Option<usize> {
        let rest = self.bytes().get(at..)?;
        rest.starts_with(token.as_bytes()).then_some(at + token.len())
    }

    /// The next mark from `at` on.
    pub(super) fn next_mark(&self, at: usize, marks: &Marks) -> Option<usize> {
        let at = at + run(self.bytes(), at, |byte| !marks.contain(byte));
        (at < self.text.len()).then_some(at)
    }

    /// Offers every mark to `read` that is not inside a JSON value, a raw value, a torn call or a
    /// unit already read. What stands in there is data, even if it looks like a call.
    pub(super) fn walk(&mut self, marks: &Marks, mut read: impl FnMut(&mut Self, usize) -> Option<Unit>) -> Vec<Unit> {
        let (mut units, mut at) = (Vec::new(), 0);
        while let Some(mark) = self.next_mark(at, marks) {
            at = if let Some(unit) = read(self, mark) {
                // A unit that was recognised by its middle may lie before the mark in part, never as a whole.
                let end = unit.span.end.max(mark + 1);
                units.push(unit);
                end
            } else {
                self.data_end(mark).or_else(|| self.torn_end(mark)).unwrap_or(mark + 1)
            };
        }
        units
    }

    /// The end of the JSON object or array, or of the closed raw value, that starts at `at`.
    pub(super) fn data_end(&mut self, at: usize) -> Option<usize> {
        match self.byte(at)? {
            b'<' => self.raw_value_end(at),
            _ => self.container_end(at),
        }
    }

    /// Where the raw value whose tag is at `at` is closed, if by its own tag: the positions before
    /// and behind the closing tag.
    pub(super) fn raw_value_closing(&mut self, at: usize) -> Option<Range<usize>> {
        self.raw_values.closing(self.text, at)
    }

    /// The end of the JSON object or array that starts at `at`; `None` when its JSON is broken.
    pub(super) fn container_end(&mut self, at: usize) -> Option<usize> {
        if !matches!(self.byte(at)?, b'{' | b'[') {
            return None;
        }
        if self.ends.get(at) == Some(&UNREAD) {
            self.settle(at);
        }
        self.known_end(at)
    }

    /// The members of an object that is known to be closed.
    pub(super) fn members(&self, object: usize) -> impl Iterator<Item = Member<'t>> {
        let mut at = object + 1;
        std::iter::from_fn(move || {
            let key = skip_space(self.bytes(), at);
            if self.byte(key) != Some(b'"') {
                return None;
            }
            let key_end = string_end(self.bytes(), key)?;
            let start = skip_space(self.bytes(), skip_space(self.bytes(), key_end) + 1);
            let end = self.known_end(start).or_else(|| scalar_end(self.bytes(), start))?;
            // The closing brace stays in view, so that the next step stops at it.
            at = skip_space(self.bytes(), end);
            at += usize::from(self.byte(at) == Some(b','));
            Some(Member { key: self.slice(key + 1..key_end - 1), value: start..end })
        })
    }

    /// Where the objects and arrays start that are elements of an array that is known to be closed.
    pub(super) fn elements(&self, array: usize) -> impl Iterator<Item = usize> {
        let mut at = array + 1;
        std::iter::from_fn(move || {
            loop {
                let start = skip_space(self.bytes(), at);
                let nested_end = self.known_end(start);
                let end = nested_end.or_else(|| scalar_end(self.bytes(), start))?;
                // The closing bracket stays in view, so that the next step stops at it.
                at = skip_space(self.bytes(), end);
                at += usize::from(self.byte(at) == Some(b','));
                if nested_end.is_some() {
                    return Some(start);
                }
            }
        })
    }

    fn raw_value_end(&mut self, at: usize) -> Option<usize> {
        self.raw_value_closing(at).map(|closing| closing.end)
    }

    fn known_end(&self, at: usize) -> Option<usize> {
        let end = *self.ends.get(at)?;
        (![UNREAD, BROKEN, TORN].contains(&end)).then_some(end as usize)
    }

    /// Where a torn call probably ends: where its braces balance, or at the end of the text. A
    /// call quoted in its broken string must not run in its place.
    fn torn_end(&self, at: usize) -> Option<usize> {
        if self.ends.get(at) != Some(&TORN) {
            return None;
        }
        let Torn { broken_at, mut depth } = *self.torn.get(&at)?;
        let rest = self.bytes().get(broken_at..)?;
        for (offset, byte) in rest.iter().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return Some(broken_at + offset + 1),
                b'}' => depth -= 1,
                _ => {}
            }
        }
        Some(self.text.len())
    }

    /// Reads from the bracket at `start` and notes what becomes of each bracket met.
    fn settle(&mut self, start: usize) {
        let mut open = std::mem::take(&mut self.open);
        if let Err(broken_at) = self.read_container(start, &mut open) {
            self.note_broken(broken_at, &open);
        }
        open.clear();
        self.open = open;
    }

    fn note_broken(&mut self, broken_at: usize, open: &[Frame]) {
        for frame in open {
            self.note(frame.start, BROKEN);
        }
        let names_arguments = |frame: &&Frame| frame.key.is_some_and(|key| self.is_arguments(key));
        let Some(call) = open.iter().find(names_arguments) else {
            return;
        };
        let inner = open.iter().filter(|frame| frame.start >= call.start);
        let depth = inner.filter(|frame| frame.is_object).count();
        self.note(call.start, TORN);
        self.torn.insert(call.start, Torn { broken_at, depth });
    }

    fn read_container(&mut self, start: usize, open: &mut Vec<Frame>) -> Result<(), usize> {
        let (bytes, mut at, mut expect) = (self.bytes(), start, Expect::Value);
        loop {
            at = skip_space(bytes, at);
            let byte = *bytes.get(at).ok_or(at)?;
            let in_object = open.last().is_some_and(|frame| frame.is_object);
            expect = match (expect, byte) {
                (Expect::Value | Expect::FirstElement, b'{' | b'[') => {
                    if open.len() == DEPTH_MAX {
                        return Err(at);
                    }
                    let is_object = byte == b'{';
                    open.push(Frame { start: at, key: None, is_object });
                    at += 1;
                    if is_object { Expect::FirstKey } else { Expect::FirstElement }
                }
                (Expect::Key | Expect::FirstKey, b'"') => {
                    let key_end = string_end(bytes, at).ok_or(at)?;
                    if let Some(frame) = open.last_mut() {
                        frame.key = Some(at);
                    }
                    at = skip_space(bytes, key_end);
                    if bytes.get(at) != Some(&b':') {
                        return Err(at);
                    }
                    at += 1;
                    Expect::Value
                }
                (Expect::Separator, b',') => {
                    at += 1;
                    if in_object { Expect::Key } else { Expect::Value }
                }
                (Expect::FirstKey, b'}') | (Expect::FirstElement, b']') => self.close(&mut at, open),
                (Expect::Separator, b'}') if in_object => self.close(&mut at, open),
                (Expect::Separator, b']') if !in_object => self.close(&mut at, open),
                (Expect::Value | Expect::FirstElement, _) => {
                    at = scalar_end(bytes, at).ok_or(at)?;
                    Expect::Separator
                }
                _ => return Err(at),
            };
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    fn close(&mut self, at: &mut usize, open: &mut Vec<Frame>) -> Expect {
        *at += 1;
        if let Some(frame) = open.pop() {
            self.note(frame.start, u32::try_from(*at).unwrap_or(BROKEN));
        }
        Expect::Separator
    }

    fn note(&mut self, at: usize, end: u32) {
        if let Some(slot) = self.ends.get_mut(at) {
            *slot = end;
        }
    }

    fn is_arguments(&self, key: usize) -> bool {
        let end = string_end(self.bytes(), key).unwrap_or(key);
        ARGUMENT_KEYS.contains(&self.slice(key + 1..end.saturating_sub(1)))
    }
}

// === impl Marks ===

impl Marks {
    /// The given bytes, and those with which JSON and tags begin.
    pub(super) fn new(bytes: impl Iterator<Item = u8>) -> Self {
        let mut marks = [false; 256];
        for byte in bytes.chain(*b"{[<") {
            if let Some(mark) = marks.get_mut(usize::from(byte)) {
                *mark = true;
            }
        }
        Self(marks)
    }

    fn contain(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).is_some_and(|mark| *mark)
    }
}

/// The keys under which models write a call's arguments, the usual one first.
pub(super) const ARGUMENT_KEYS: [&str; 3] = ["arguments", "args", "parameters"];

/// serde_json refuses deeper nesting, so a deeper call could not be validated anyway.
const DEPTH_MAX: usize = 127;

const UNREAD: u32 = 0;
const BROKEN: u32 = u32::MAX;
const TORN: u32 = u32::MAX - 1;
