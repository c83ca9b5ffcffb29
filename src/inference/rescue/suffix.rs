//! How much of a running text is certainly no part of a call, so that it can be shown while the model goes on.
//!
//! What may be the beginning of a call is held, and let go as soon as it cannot be one. What holds is coarser than what reads: text that
//! is held too long is only shown late, and a call that was let go is text for the reader too, which is told how much was shown. The
//! outcome depends on the text alone, not on the pieces in which it came.

use super::page::Page;
use super::place::{LABELS, PROGRAM_LABELS};
use super::scan::{is_name_byte, run};
use super::unit::{FENCE, Unit, is_label_char};
use super::{OPENINGS, Readers, offered, rescue};
use crate::inference::offer::Offer;

/// Follows one text.
#[derive(Debug)]
pub(crate) struct Suffix {
    /// So much of the text is no part of a call. The rest is held.
    free: usize,
    /// So much was read.
    at: usize,
    state: State,
    /// No letter or digit has come in this line.
    line_is_blank: bool,
    held_max: usize,
    second_looks: usize,
}

#[derive(Debug)]
enum State {
    /// What is held is at most the packaging of a call, or the beginning of its first token.
    Open,
    /// In a fence with a program, opened by so many backticks: nothing in there is a call.
    Code(usize),
    /// In a fence with what may be calls in the form of a program, up to its closing backticks, which are no sooner than at this byte.
    Program(usize),
    /// In the brackets of what may be a call.
    Brackets(Brackets),
    /// Behind what looks like a whole call, which ended at `end`. What follows tells whether it is quoted: looked at when there is text up to
    /// `look_at`.
    Behind { end: usize, look_at: usize },
    /// In a call whose first token says that it is one.
    Call,
}

#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// What to do at a place of the text.
enum Step {
    /// It can be told only when more text is there.
    Wait,
    /// So much is text.
    Free(usize),
    /// So much may be packaging: it is free if what follows is.
    Hold(usize),
    /// What follows is held in another way.
    Enter(State),
    /// So much is text, and ends what was held so far.
    Leave(usize, State),
}

impl Suffix {
    /// Nothing read yet. No more than `held_max` bytes are held: what is longer is text.
    pub(crate) fn new(held_max: usize) -> Self {
        Self { free: 0, at: 0, state: State::Open, line_is_blank: true, held_max, second_looks: 0 }
    }

    /// How much of the text is free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// Reads on in `text`, which begins with all that was read before. Returns how much of it is free.
    pub(crate) fn advance(&mut self, text: &str, offer: &Offer) -> usize {
        loop {
            let limit = text.floor_char_boundary(self.free.saturating_add(self.held_max));
            let readable = text.get(..limit).unwrap_or(text);
            if self.advance_to(readable, offer) {
                continue;
            }
            if limit == text.len() {
                return self.free;
            }
            self.let_go(limit);
        }
    }

    /// Takes one step, if the text allows one.
    fn advance_to(&mut self, text: &str, offer: &Offer) -> bool {
        let step = match &mut self.state {
            State::Open => open(text, self.at, self.line_is_blank, offer),
            State::Code(ticks) => code(text, self.at, *ticks),
            State::Brackets(brackets) => match brackets.close(text.as_bytes(), &mut self.at) {
                false => Step::Wait,
                true => self.behind(text, self.at, offer),
            },
            State::Program(closing) => match closing_fence(text, closing) {
                None => Step::Wait,
                Some(end) => {
                    self.pass(text, end - self.at);
                    self.behind(text, end, offer)
                }
            },
            State::Behind { end, look_at } if *look_at <= text.len() && self.second_looks < SECOND_LOOKS_MAX => {
                self.second_looks += 1;
                let (end, seen) = (*end, text.get(..text.floor_char_boundary(*look_at)).unwrap_or_default());
                *look_at += *look_at - end;
                if rescue(seen, self.free, offer).is_none() {
                    self.let_go(end);
                }
                return true;
            }
            State::Behind { .. } | State::Call => Step::Wait,
        };
        match step {
            Step::Wait => return false,
            Step::Hold(length) => self.pass(text, length),
            Step::Enter(state) => self.state = state,
            Step::Free(length) => {
                self.pass(text, length);
                self.free = self.at;
            }
            Step::Leave(length, state) => {
                self.pass(text, length);
                self.free = self.at;
                self.state = state;
            }
        }
        true
    }

    /// Behind what ended at `end` and may be a call.
    fn behind(&self, text: &str, end: usize, offer: &Offer) -> Step {
        match text.get(self.free..end) {
            Some(held) if holds_call(held, offer) => Step::Enter(State::Behind { end, look_at: end + SECOND_LOOK_BYTES }),
            _ => Step::Leave(0, State::Open),
        }
    }

    fn pass(&mut self, text: &str, length: usize) {
        for byte in text.as_bytes().get(self.at..self.at + length).unwrap_or_default() {
            self.line_is_blank = *byte == b'\n' || (self.line_is_blank && !is_word(*byte));
        }
        self.at += length;
    }

    fn let_go(&mut self, up_to: usize) {
        (self.free, self.at, self.state, self.line_is_blank) = (up_to, up_to, State::Open, false);
    }
}

impl Brackets {
    /// Reads on from `at` to where the first bracket closes. Returns whether it did.
    fn close(&mut self, bytes: &[u8], at: &mut usize) -> bool {
        for byte in bytes.get(*at..).unwrap_or_default() {
            *at += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' | b'(' => self.depth += 1,
                b'}' | b']' | b')' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}

/// Where nothing is held but packaging.
fn open(text: &str, at: usize, line_is_blank: bool, offer: &Offer) -> Step {
    let bytes = text.as_bytes();
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(&byte) = rest.first() else { return Step::Wait };
    let in_word = is_name_byte(byte) && at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|before| is_name_byte(*before));
    for opening in OPENINGS.iter().filter(|opening| !in_word && (line_is_blank || !opening.begins_line)) {
        if let Some(behind) = rest.strip_prefix(opening.text.as_bytes()) {
            return if opening.begins_line { named_in_line(behind, opening.text.len(), offer) } else { Step::Enter(State::Call) };
        }
        if opening.text.as_bytes().starts_with(rest) {
            return Step::Wait;
        }
    }
    match byte {
        b' ' | b'\t' | b'\r' | b'\n' => Step::Hold(1),
        b'`' => fence(text, at, line_is_blank, offer),
        b'{' | b'[' => brackets(bytes, at, offer),
        _ if is_name_byte(byte) => name(bytes, at, offer),
        _ => Step::Free(text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)),
    }
}

/// Behind a word that people begin lines with, too, the line must name a tool.
fn named_in_line(behind: &[u8], opening: usize, offer: &Offer) -> Step {
    let Some(end) = behind.iter().position(|byte| *byte == b'\n') else { return Step::Wait };
    let line = behind.get(..end).and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let name = line.trim().trim_matches(['`', '"', '*', '\'']);
    // Or the call stands in the lines below.
    let is_call =
        name.is_empty() || name == EVERYBODY || line.contains("```") || line.contains(['{', '[']) || offered(offer, name).is_some();
    if is_call { Step::Enter(State::Call) } else { Step::Free(opening) }
}

fn fence(text: &str, at: usize, line_is_blank: bool, offer: &Offer) -> Step {
    let bytes = text.as_bytes();
    let ticks = run(bytes, at, |byte| byte == b'`');
    let begin = at + ticks + run(bytes, at + ticks, |byte| matches!(byte, b' ' | b'\t'));
    let end = begin + run(bytes, begin, |byte| is_label_char(byte.into()));
    let label = text.get(begin..end).unwrap_or_default();
    let labels = || LABELS.iter().chain(&PROGRAM_LABELS);
    if ticks < 3 || !line_is_blank {
        return if at + ticks == bytes.len() { Step::Wait } else { Step::Hold(ticks) };
    }
    if end == bytes.len() && labels().any(|known| known.get(..label.len()).is_some_and(|known| known.eq_ignore_ascii_case(label))) {
        return Step::Wait;
    }
    if !labels().any(|known| known.eq_ignore_ascii_case(label)) {
        return Step::Leave(ticks, State::Code(ticks));
    }
    let body = skip_blank(bytes, end);
    let word = text.get(body..body + run(bytes, body, is_name_byte)).unwrap_or_default();
    if body + word.len() == bytes.len() {
        return Step::Wait;
    }
    let bare = word.strip_prefix("default_api.").unwrap_or(word);
    if PROGRAM_WORDS.contains(&word) || (!word.is_empty() && offered(offer, bare).is_some()) {
        return Step::Enter(State::Program(body));
    }
    if LABELS.iter().any(|known| known.eq_ignore_ascii_case(label)) { Step::Hold(end - at) } else { Step::Leave(ticks, State::Code(ticks)) }
}

/// Where the backticks end that close a program; they are no sooner than at `from`, which moves on.
fn closing_fence(text: &str, from: &mut usize) -> Option<usize> {
    let rest = text.get(*from..)?;
    let Some(at) = rest.find(FENCE) else {
        *from += rest.len() - rest.len().min(FENCE.len() - 1);
        *from = text.floor_char_boundary(*from);
        return None;
    };
    let end = *from + at + run(text.as_bytes(), *from + at, |byte| byte == b'`');
    // More backticks may come.
    (end < text.len()).then_some(end)
}

/// A bracket begins a call if a key, a list of objects, or an offered name with its arguments follows.
fn brackets(bytes: &[u8], at: usize, offer: &Offer) -> Step {
    let inside = skip_blank(bytes, at + 1);
    match (bytes.get(at), bytes.get(inside)) {
        (_, None) => Step::Wait,
        (Some(b'{'), Some(b'"')) | (Some(b'['), Some(b'{')) => Step::Enter(State::Brackets(Brackets::default())),
        (_, Some(b'{' | b'[')) => Step::Hold(inside - at),
        (Some(b'['), Some(&byte)) if is_name_byte(byte) => match name(bytes, inside, offer) {
            Step::Free(_) => Step::Free(1),
            step => step,
        },
        _ => Step::Free(1),
    }
}

/// A name in front of a bracket.
fn name(bytes: &[u8], at: usize, offer: &Offer) -> Step {
    let length = run(bytes, at, is_name_byte);
    let end = at + length;
    if at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|before| is_name_byte(*before)) {
        return Step::Free(length);
    }
    let name = bytes.get(at..end).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    let begins_name = || {
        let begins = |known: &str| known.starts_with(name);
        let bare = name.strip_prefix(NAMESPACE).unwrap_or(name);
        NAMES.into_iter().any(begins) || offer.tools.iter().any(|tool| tool.name.starts_with(bare))
    };
    if end == bytes.len() {
        return if begins_name() { Step::Wait } else { Step::Free(length) };
    }
    if !NAMES.contains(&name) && offered(offer, name).is_none() {
        return Step::Free(length);
    }
    let rest = bytes.get(skip_blank(bytes, end)..).unwrap_or_default();
    match rest.first() {
        None => Step::Wait,
        Some(b'[') if MARKERS.iter().any(|marker| rest.starts_with(marker.as_bytes())) => Step::Enter(State::Call),
        Some(b'[') if MARKERS.iter().any(|marker| marker.as_bytes().starts_with(rest)) => Step::Wait,
        Some(b'{' | b'[' | b'(') => Step::Enter(State::Brackets(Brackets::default())),
        Some(_) => Step::Free(length),
    }
}

/// In a program, up to the backticks that end it.
fn code(text: &str, at: usize, ticks: usize) -> Step {
    let rest = text.get(at..).unwrap_or_default();
    let before = rest.find('`').unwrap_or(rest.len());
    if before > 0 {
        return Step::Free(before);
    }
    let here = rest.len() - rest.trim_start_matches('`').len();
    match rest.get(here..).and_then(|rest| rest.chars().next()) {
        None => Step::Wait,
        Some(next) if here >= ticks && !next.is_alphanumeric() => Step::Leave(here, State::Open),
        Some(_) => Step::Free(here),
    }
}

/// Whether there is what a reader takes for a call, wherever it stands.
fn holds_call(text: &str, offer: &Offer) -> bool {
    let Some(readers) = Readers::of(text) else { return false };
    let units = Page::new(text).walk(&readers.marks, |page, mark| readers.read(page, mark, offer));
    units.iter().any(Unit::is_plausible)
}

fn skip_blank(bytes: &[u8], at: usize) -> usize {
    at + run(bytes, at, |byte| byte.is_ascii_whitespace())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// To whom Functionary's models say what the user reads.
const EVERYBODY: &str = "all";

/// OpenAI's namespace for tools, which models write in front of their names.
const NAMESPACE: &str = "functions.";

/// What stands in front of a bracket beside the names of tools: the namespace, and Phi-4's word for a list of calls.
const NAMES: [&str; 2] = [NAMESPACE, "functools"];

/// What stands between the name of a tool and its arguments in Mistral's forms.
const MARKERS: [&str; 2] = ["[ARGS]", "[CALL_ID]"];

/// With what a program that is nothing but calls begins, beside the name of a tool: what prints the result, and YAML's keys for the name.
const PROGRAM_WORDS: [&str; 4] = ["print", "name", "tool", "function"];

/// A sentence or two: so much behind a call shows that it is quoted.
const SECOND_LOOK_BYTES: usize = 256;

/// Each reads the whole text.
const SECOND_LOOKS_MAX: usize = 8;
