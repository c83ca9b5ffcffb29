//! The report as a table for people.

use std::fmt::{self, Write};

use super::{Comparison, Counted, Odd, Sums, time};
use crate::chat::cost::usd;

/// A report, whole.
#[derive(Debug)]
pub struct Page<'a> {
    /// What was compared, finished.
    pub comparison: &'a Comparison,
    /// The traces' lines.
    pub counted: Counted,
    /// Where the traces are.
    pub traces: &'a [String],
    /// Where the books are.
    pub ledger: Ledger,
    /// What the reader should know besides.
    pub notes: &'a [String],
}

/// Where the books are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ledger {
    /// Here.
    At(String),
    /// There are none, for this reason.
    None(String),
}

/// The headings of what is told in any case.
const TRACED: [&str; 4] = ["calls", "tokens in", "tokens out", "traced USD"];
/// Those of what is told where there are books.
const BOOKED: [&str; 3] = ["booked", "ledger USD", "difference"];

impl fmt::Display for Page<'_> {
    /// The table: a line for each group, their total, and what is to be said about them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width =
            |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default();
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = width(column);
                match column {
                    0 => write!(line, "{cell:<width$}")?,
                    _ => write!(line, "  {cell:>width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f)?;
        self.remarks(f)
    }
}

impl Page<'_> {
    fn has_books(&self) -> bool {
        self.comparison.agrees().is_some()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let booked = if self.has_books() { &BOOKED[..] } else { &[] };
        let headings = [self.comparison.terms().by.as_str()].into_iter().chain(TRACED).chain(booked.iter().copied());
        let mut rows: Vec<Vec<String>> = vec![headings.map(str::to_owned).collect()];
        rows.extend(self.comparison.groups().map(|(name, sums)| self.row(name, sums)));
        rows.push(self.row("total", &self.comparison.total()));
        rows
    }

    fn row(&self, name: &str, sums: &Sums) -> Vec<String> {
        let Sums { calls, tokens_in, tokens_out, traced, booked_calls, booked, .. } = *sums;
        // A name is written by whoever asks: it may hold what moves a cursor.
        let name: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let mut row = vec![name, calls.to_string(), tokens_in.to_string(), tokens_out.to_string(), aligned(i128::from(traced))];
        if self.has_books() {
            row.extend([booked_calls.to_string(), aligned(i128::from(booked)), aligned(sums.difference())]);
        }
        row
    }

    fn remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted { lines, malformed, other, unfinished } = self.counted;
        let span = |span: Option<(u64, u64)>| {
            span.map_or_else(String::new, |(first, last)| format!(", {} to {}", time::written(first), time::written(last)))
        };
        if !self.traces.is_empty() {
            writeln!(f, "traces: {}: {lines} lines{}", self.traces.join(", "), span(self.comparison.traced_span()))?;
        }
        for (count, what) in [(malformed, "malformed"), (unfinished, "unfinished at the end of a file"), (other, "of something else")] {
            if count > 0 {
                writeln!(f, "left out: {count} lines {what}")?;
            }
        }
        match &self.ledger {
            Ledger::At(place) => writeln!(f, "ledger: {place}{}", span(self.comparison.booked_span()))?,
            Ledger::None(why) => writeln!(f, "ledger: {why}")?,
        }
        for note in self.notes {
            writeln!(f, "note: {note}")?;
        }
        match self.comparison.agrees() {
            Some(true) => writeln!(f, "traces and ledger agree"),
            Some(false) => self.disagreement(f),
            None => Ok(()),
        }
    }

    fn disagreement(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (odd, count) = self.comparison.odd();
        writeln!(f, "traces and ledger DISAGREE: by {} USD in all, about {count} calls", signed(self.comparison.total().difference()))?;
        for Odd { request_id, what, name, traced, booked } in odd {
            let said = match (traced, booked) {
                (Some(traced), Some(booked)) => format!("{} USD in the traces, {} USD in the ledger", usd(*traced), usd(*booked)),
                (Some(traced), None) => format!("{} USD in the traces only", usd(*traced)),
                (None, booked) => format!("{} USD in the ledger only", usd(booked.unwrap_or_default())),
            };
            writeln!(f, "  {} {} {}: {said}", request_id.escape_default(), what.as_str(), name.escape_default())?;
        }
        let shown = u64::try_from(odd.len()).unwrap_or(u64::MAX);
        if count > shown {
            writeln!(f, "  and {} more", count - shown)?;
        }
        Ok(())
    }
}

/// `microcents` as dollars with all digits.
pub(super) fn signed(microcents: i128) -> String {
    let amount = usd(u64::try_from(microcents.unsigned_abs()).unwrap_or(u64::MAX));
    if microcents < 0 { format!("-{amount}") } else { amount }
}

/// The same, with as many digits as any.
fn aligned(microcents: i128) -> String {
    let text = signed(microcents);
    let (dollars, part) = text.split_once('.').unwrap_or((&text, ""));
    format!("{dollars}.{part:0<8}")
}
