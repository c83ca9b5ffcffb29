//! Each call of the traces beside its line of the books.
//!
//! A call has no name that both know, but both know its request, whether it was a model's or a tool's, which, and what it cost; two that are
//! equal in all of that may stand for each other. The books come first and are kept, the traces pass by: what is kept of them is sums, and
//! what has no counterpart of its own cost yet.
//!
//! **A call that both tell of counts where the books put it**: at their time, for their key, by their name. The trace tells of it some
//! milliseconds earlier or later, so that midnight, or the end of what is reported, may lie between the two. That is no difference.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{By, Call, Terms, What, time};

/// The books and the traces, as far as they were taken.
#[derive(Debug)]
pub struct Comparison {
    terms: Terms,
    books: Option<Books>,
    /// Lines whose request has lines of the books left, but none of that cost.
    postponed: Vec<Call>,
    groups: BTreeMap<String, Sums>,
    odd: Vec<Odd>,
    odd_count: u64,
    traced: Option<(u64, u64)>,
}

/// The books.
#[derive(Debug)]
struct Books {
    calls: Vec<Option<Call>>,
    /// Those that no line of a trace was found for, the oldest first.
    open: HashMap<Link, VecDeque<usize>>,
    span: Option<(u64, u64)>,
}

/// What a call and its line of the books have in common.
type Link = (String, What, String);

/// What a group comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// How many calls the traces tell of.
    pub calls: u64,
    /// The tokens that models read, by the traces.
    pub tokens_in: u64,
    /// The tokens that they wrote.
    pub tokens_out: u64,
    /// What it cost by the traces.
    pub traced: u64,
    /// How many lines the books have.
    pub booked_calls: u64,
    /// The tokens that models read and wrote, by the books.
    pub booked_tokens: u64,
    /// What it cost by the books.
    pub booked: u64,
}

/// A call that only one of the two tells of, or of which they tell different costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// The request.
    pub request_id: String,
    /// A model's or a tool's.
    pub what: What,
    /// Which.
    pub name: String,
    /// What it cost by the traces, where they tell of it.
    pub traced: Option<u64>,
    /// What it cost by the books, where they tell of it.
    pub booked: Option<u64>,
}

/// How many calls are named that are not in both.
const ODD_MAX: usize = 20;
/// How much sooner a trace may tell of a call than the books, or later: a ledger that cannot be reached is tried again for a while.
pub const MARGIN_MS: u64 = 60 * 60 * 1000;

impl Comparison {
    /// Nothing of the traces yet, beside `books`, which are of the time of `terms` and [`MARGIN_MS`] more. Without books there is nothing to
    /// compare.
    pub fn new(terms: Terms, books: Option<Vec<Call>>) -> Self {
        let mut groups: BTreeMap<String, Sums> = BTreeMap::new();
        let books = books.map(|calls| {
            let (mut open, mut span): (HashMap<Link, VecDeque<usize>>, _) = (HashMap::new(), None);
            for (at, call) in calls.iter().enumerate() {
                open.entry(link(call)).or_default().push_back(at);
                if terms.range.contains(call.at_ms) {
                    groups.entry(group(terms.by, call)).or_default().book(call);
                    extend(&mut span, call.at_ms);
                }
            }
            Books { calls: calls.into_iter().map(Some).collect(), open, span }
        });
        Self { terms, books, postponed: Vec::new(), groups, odd: Vec::new(), odd_count: 0, traced: None }
    }

    /// Takes what the traces tell of a call.
    pub fn trace(&mut self, call: Call) {
        if !self.terms.range.widened(MARGIN_MS).contains(call.at_ms) {
            return;
        }
        // What was not made and cost nothing is not in any books.
        let is_booked = call.executed || call.microcents > 0;
        let Some(books) = self.books.as_mut().filter(|_| is_booked) else { return self.count_alone(&call) };
        match books.take(&call, |booked| booked.microcents == call.microcents) {
            Taken::Call(booked) => self.count(&call, &booked),
            Taken::NotYet => self.postponed.push(call),
            Taken::Never => self.count_alone(&call),
        }
    }

    /// Settles what had no counterpart yet. To be asked when all was taken.
    pub fn finish(&mut self) {
        for call in std::mem::take(&mut self.postponed) {
            let taken = self.books.as_mut().map(|books| books.take(&call, |_| true));
            match taken {
                Some(Taken::Call(booked)) => self.count(&call, &booked),
                Some(Taken::NotYet | Taken::Never) | None => self.count_alone(&call),
            }
        }
        let left = self.books.as_mut().map(|books| std::mem::take(&mut books.calls)).unwrap_or_default();
        for booked in left.into_iter().flatten() {
            if booked.microcents > 0 && self.terms.range.contains(booked.at_ms) {
                self.note(Odd { traced: None, booked: Some(booked.microcents), ..Odd::of(&booked) });
            }
        }
    }

    /// Counts what both tell of.
    fn count(&mut self, call: &Call, booked: &Call) {
        if !self.terms.range.contains(booked.at_ms) {
            return;
        }
        extend(&mut self.traced, call.at_ms);
        self.groups.entry(group(self.terms.by, booked)).or_default().trace(call);
        if call.microcents != booked.microcents {
            self.note(Odd { traced: Some(call.microcents), booked: Some(booked.microcents), ..Odd::of(booked) });
        }
    }

    /// Counts what the traces alone tell of.
    fn count_alone(&mut self, call: &Call) {
        if !self.terms.range.contains(call.at_ms) || (self.terms.executed_only && !call.executed) {
            return;
        }
        extend(&mut self.traced, call.at_ms);
        self.groups.entry(group(self.terms.by, call)).or_default().trace(call);
        if self.books.is_some() && call.microcents > 0 {
            self.note(Odd { traced: Some(call.microcents), booked: None, ..Odd::of(call) });
        }
    }

    fn note(&mut self, odd: Odd) {
        self.odd_count += 1;
        if self.odd.len() < ODD_MAX {
            self.odd.push(odd);
        }
    }

    /// What was asked for.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Whether the two agree; `None` where there is nothing to compare.
    pub fn agrees(&self) -> Option<bool> {
        self.books.as_ref().map(|_| self.odd_count == 0 && self.groups.values().all(|sums| sums.difference() == 0))
    }

    /// The groups and what they come to, in order.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Sums)> {
        self.groups.iter().map(|(name, sums)| (&**name, sums))
    }

    /// What all groups come to.
    pub fn total(&self) -> Sums {
        self.groups.values().fold(Sums::default(), |total, sums| total.with(sums))
    }

    /// Calls that are not in both with the same cost: the first of them, and how many there are.
    pub fn odd(&self) -> (&[Odd], u64) {
        (&self.odd, self.odd_count)
    }

    /// When the first and the last call were that the traces tell of, in milliseconds since 1970.
    pub fn traced_span(&self) -> Option<(u64, u64)> {
        self.traced
    }

    /// The same of the books.
    pub fn booked_span(&self) -> Option<(u64, u64)> {
        self.books.as_ref().and_then(|books| books.span)
    }
}

/// What was found in the books.
enum Taken {
    /// This, which is not there for others any more.
    Call(Call),
    /// What is there may be another's.
    NotYet,
    /// Nothing.
    Never,
}

impl Books {
    /// The oldest open line for `call` that is `wanted`.
    fn take(&mut self, call: &Call, wanted: impl Fn(&Call) -> bool) -> Taken {
        let Some(open) = self.open.get_mut(&link(call)).filter(|open| !open.is_empty()) else { return Taken::Never };
        let is_wanted = |at: &usize| self.calls.get(*at).is_some_and(|booked| booked.as_ref().is_some_and(&wanted));
        let found = open.iter().position(is_wanted).and_then(|place| open.remove(place));
        let booked = found.and_then(|at| self.calls.get_mut(at)).and_then(Option::take);
        booked.map_or(Taken::NotYet, Taken::Call)
    }
}

impl Odd {
    fn of(call: &Call) -> Self {
        Self { request_id: call.request_id.clone(), what: call.what, name: call.name.clone(), traced: None, booked: None }
    }
}

impl Sums {
    /// How much more the traces tell of, in microcents.
    pub fn difference(&self) -> i128 {
        i128::from(self.traced) - i128::from(self.booked)
    }

    fn trace(&mut self, call: &Call) {
        self.calls += 1;
        self.tokens_in = self.tokens_in.saturating_add(call.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(call.tokens_out);
        self.traced = self.traced.saturating_add(call.microcents);
    }

    fn book(&mut self, call: &Call) {
        self.booked_calls += 1;
        self.booked_tokens = self.booked_tokens.saturating_add(call.tokens_out);
        self.booked = self.booked.saturating_add(call.microcents);
    }

    fn with(self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            traced: self.traced.saturating_add(other.traced),
            booked_calls: self.booked_calls + other.booked_calls,
            booked_tokens: self.booked_tokens.saturating_add(other.booked_tokens),
            booked: self.booked.saturating_add(other.booked),
        }
    }
}

fn link(call: &Call) -> Link {
    (call.request_id.clone(), call.what, call.name.clone())
}

/// The group that `call` is in.
fn group(by: By, call: &Call) -> String {
    match (by, call.what) {
        (By::Day, _) => time::day(call.at_ms),
        (By::Key, _) if call.key.is_empty() => "(no key)".to_owned(),
        (By::Key, _) => call.key.clone(),
        (By::Model, What::Tool) => "(tools)".to_owned(),
        (By::Tool, What::Model) => "(models)".to_owned(),
        (By::Model | By::Tool, _) => call.name.clone(),
    }
}

fn extend(span: &mut Option<(u64, u64)>, at_ms: u64) {
    let (first, last) = span.unwrap_or((at_ms, at_ms));
    *span = Some((first.min(at_ms), last.max(at_ms)));
}
