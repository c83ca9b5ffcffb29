//! Where calls stand in a text: in prose, in a fence, in a tag, or in code that is no call.
//!
//! The same object is a call in one place and a quotation, a record or a program's constant in
//! another. One pass over the text between the units finds the fences and the tags.

use std::ops::Range;

use super::dialects::Form;
use super::unit::{FENCE, Marker, Unit, is_label_char, is_loose_packing, is_packing};
use super::wrapper;

/// Where a unit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a fence of another language, or beside other text in its fence: it is no call.
    Code,
    /// In other text.
    Prose,
    /// There is nothing else in the text.
    Whole,
    /// In a fence of a program that holds calls only.
    Program,
    /// In a fence that holds calls only.
    Fence,
    /// Behind a tag or a token that nothing but a call follows.
    Tag,
}

/// The place of a unit, and its span with the fence that goes with it.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) place: Place,
    pub(super) span: Range<usize>,
    /// Whose tag it stands in.
    pub(super) wrapper: Option<Form>,
}

/// Where each unit stands.
pub(super) fn spots(text: &str, units: &[Unit]) -> Vec<Spot> {
    if units.is_empty() {
        return Vec::new();
    }
    let starts = units.iter().map(|unit| unit.span.start).chain([text.len()]);
    let ends = [0].into_iter().chain(units.iter().map(|unit| unit.span.end));
    let gaps: Vec<&str> = ends.zip(starts).map(|(end, start)| text.get(end..start).unwrap_or_default()).collect();
    let is_whole = units.iter().all(Unit::is_plausible) && is_all(&gaps);
    let bare = if is_whole { Place::Whole } else { Place::Prose };
    let mut survey = Survey { bare, spots: Vec::new(), fence: None, wrapper: None };
    let mut units = units.iter();
    for gap in gaps {
        let unit = units.next();
        survey.pass(gap, unit.map_or(text.len(), |unit| unit.span.start));
        if let Some(unit) = unit {
            survey.place(unit);
        }
    }
    survey.leave_fence(text.len());
    survey.spots
}

/// Whether the units are all of the text, by the text before, between and behind them. Backticks
/// around all of it are no quote; between the units they are.
fn is_all(gaps: &[&str]) -> bool {
    let [first, inner @ .., last] = gaps else {
        return false;
    };
    is_loose_packing(first) && is_loose_packing(last) && inner.iter().all(|gap| is_packing(gap))
}

struct Survey {
    /// The place of a unit that stands in no fence and in no tag.
    bare: Place,
    spots: Vec<Spot>,
    fence: Option<Fence>,
    /// The tag in which what was passed last stands.
    wrapper: Option<Form>,
}

struct Fence {
    /// How many backticks opened it; as many close it.
    ticks: usize,
    start: usize,
    /// The first unit in it.
    first: usize,
    label: Label,
    holds_calls_only: bool,
}

/// What a fence holds by its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// Calls, in any form.
    Calls,
    /// Data, which may be a call, or a program.
    Data,
    /// A program, whose every line may be a call.
    Program,
    /// Anything else.
    Other,
}

impl Survey {
    fn place(&mut self, unit: &Unit) {
        let is_tagged = self.wrapper.is_some() || unit.marker == Marker::Token;
        let is_program = unit.marker == Marker::Program;
        let label = self.fence.as_ref().map(|fence| fence.label);
        let place = match label {
            _ if is_tagged => Place::Tag,
            Some(Label::Data | Label::Program) if is_program => Place::Program,
            _ => self.bare,
        };
        self.spots.push(Spot { place, span: unit.span.clone(), wrapper: self.wrapper });
        let is_foreign = label == Some(Label::Program) && !is_program;
        if is_foreign || (!is_tagged && !unit.is_plausible()) {
            self.spoil();
        }
    }

    /// Reads the text before a unit, or before the end of the text, which is at `end`.
    fn pass(&mut self, gap: &str, end: usize) {
        self.wrapper = wrapper_behind(gap, self.wrapper);
        let mut rest = gap;
        while let Some(at) = rest.find(FENCE) {
            let (before, fence) = rest.split_at(at);
            self.pass_text(before);
            let after = fence.trim_start_matches('`');
            let run = end - fence.len()..end - after.len();
            rest = self.pass_fence(before, run, after);
        }
        self.pass_text(rest);
    }

    fn pass_text(&mut self, text: &str) {
        if !is_packing(text) {
            self.spoil();
        }
    }

    /// Reads the run of backticks between the texts `before` and `after`; returns where to go on.
    fn pass_fence<'t>(&mut self, before: &str, run: Range<usize>, after: &'t str) -> &'t str {
        if let Some(fence) = &self.fence {
            // With a label it opens a fence, which this one then quotes.
            if run.len() >= fence.ticks && !after.starts_with(char::is_alphanumeric) {
                self.leave_fence(run.end);
            } else {
                self.spoil();
            }
            return after;
        }
        let labelled = after.trim_start_matches([' ', '\t']);
        let inside = labelled.trim_start_matches(is_label_char);
        let label = labelled.strip_suffix(inside).unwrap_or_default();
        // Backticks in the middle of a sentence open nothing. No further than to the next ones is
        // looked, which keeps the time linear.
        let begins_line = !last_line(before).contains(char::is_alphanumeric);
        let line = first_line(inside.split(FENCE).next().unwrap_or(inside));
        if begins_line || is_packing(line) {
            let label = Label::of(label);
            let holds_calls_only = label != Label::Other;
            self.fence = Some(Fence { ticks: run.len(), start: run.start, first: self.spots.len(), label, holds_calls_only });
            return inside;
        }
        after
    }

    fn spoil(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.holds_calls_only = false;
        }
    }

    /// Settles the units in the fence that ends at `end`; text behind them may have spoilt it.
    fn leave_fence(&mut self, end: usize) {
        let Some(fence) = self.fence.take() else { return };
        for spot in self.spots.iter_mut().skip(fence.first) {
            if !fence.holds_calls_only {
                spot.place = Place::Code;
                continue;
            }
            spot.span = fence.start..end;
            if !matches!(spot.place, Place::Tag | Place::Program) {
                spot.place = Place::Fence;
            }
        }
    }
}

impl Label {
    fn of(label: &str) -> Self {
        let is_one_of = |labels: &[&str]| labels.iter().any(|known| label.eq_ignore_ascii_case(known));
        match () {
            () if is_one_of(&CALL_LABELS) => Self::Calls,
            () if is_one_of(&LABELS) => Self::Data,
            () if is_one_of(&PROGRAM_LABELS) => Self::Program,
            () => Self::Other,
        }
    }
}

/// Whether a fence with this label may hold calls in the form of a program.
pub(super) fn is_program_label(label: &str) -> bool {
    Label::of(label) != Label::Other
}

/// The tag in which what follows `gap` stands, from the one in which what precedes it does.
fn wrapper_behind(gap: &str, before: Option<Form>) -> Option<Form> {
    let (inside, form) = wrapper::last_opened(gap).map_or((0, before), |(inside, form)| (inside, Some(form)));
    let inside = gap.get(inside..).unwrap_or_default();
    form.filter(|_| is_packing(inside) && !wrapper::is_closed_in(inside))
}

/// The text from the last line break on.
pub(super) fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}

/// The text up to the first line break.
pub(super) fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or(text)
}

/// The labels that say that a call follows.
const CALL_LABELS: [&str; 3] = ["tool_call", "tool_calls", "tool_code"];

/// The labels of the languages in which models write calls as programs, and nothing else.
pub(super) const PROGRAM_LABELS: [&str; 4] = ["python", "py", "yaml", "yml"];

/// The labels of fences in which models write calls. A call in another language is a program's.
pub(super) const LABELS: [&str; 10] = ["", "json", "jsonc", "json5", "xml", "tool_call", "tool_calls", "tool_code", "text", "plaintext"];
