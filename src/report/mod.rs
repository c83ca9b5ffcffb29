//! What was spent, by the traces and by the ledger, side by side.
//!
//! Both are written apart: the trace says of each call what it cost, and the ledger what was settled for it. They must agree to the
//! microcent; where they do not, this says by how much and for which requests.

mod call;
mod compare;
mod files;
mod json;
mod lines;
mod table;
mod time;

pub use self::call::{Call, Line, What};
pub use self::compare::{Comparison, MARGIN_MS, Odd, Sums};
pub use self::files::{Source, all_of};
pub use self::lines::{Ending, Lines};
pub use self::table::{Ledger, Page};
pub use self::time::{Range, at};

use std::io::{self, BufRead};

use serde::Serialize;

/// What the calls are told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The day in UTC.
    #[default]
    Day,
    /// The API key that asked.
    Key,
    /// The model; all tools are one.
    Model,
    /// The tool; all models are one.
    Tool,
}

impl By {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Key => "key",
            Self::Model => "model",
            Self::Tool => "tool",
        }
    }
}

/// What is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// The time of the calls.
    pub range: Range,
    /// How they are grouped.
    pub by: By,
    /// Whether calls that were not made are left out: refusals, rehearsals, models that could not be reached.
    pub executed_only: bool,
}

/// How many lines of traces were read, and what they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counted {
    /// All of them.
    pub lines: u64,
    /// Those that are no line of a trace, or a damaged one.
    pub malformed: u64,
    /// Those that tell of something else than a call.
    pub other: u64,
    /// The ends of files that were still being written, or cut off.
    pub unfinished: u64,
}

impl Counted {
    /// Takes all lines of `from` into `comparison`. Fails where it cannot be read on; what was read until then is in.
    pub fn read(&mut self, from: impl BufRead, comparison: &mut Comparison) -> io::Result<()> {
        let (mut lines, mut line) = (Lines::new(from), Vec::new());
        while let Some(ending) = lines.next(&mut line)? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.lines += 1;
            match (Line::read(&line), ending) {
                (Line::Call(call), Ending::Whole | Ending::Missing) => comparison.trace(*call),
                (Line::Other, Ending::Whole | Ending::Missing) => self.other += 1,
                (Line::Malformed, Ending::Missing) => self.unfinished += 1,
                (Line::Malformed, Ending::Whole) | (_, Ending::TooLong) => self.malformed += 1,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
