//! How a run fails.

use crate::{
    chat::{Problem, Report},
    inference,
};

/// A turn that came to nothing, and what the run had done before.
#[derive(Debug, thiserror::Error)]
#[error("turn {turn} of the run")]
pub(super) struct Error {
    source: Box<inference::Error>,
    turn: usize,
    /// Absent where the run had done nothing.
    before: Option<Box<Report>>,
}

impl Error {
    /// `source` ended the turn of that number, after `before`.
    pub(super) fn new(source: inference::Error, turn: usize, before: &Report) -> Self {
        let is_empty = before.attempts.is_empty() && before.calls.is_empty() && before.notes.is_empty() && !before.is_plan;
        Self { source: Box::new(source), turn, before: (!is_empty).then(|| Box::new(before.clone())) }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let mut problem = Self::from(*error.source);
        if let Some(mut whole) = error.before {
            if let Some(last) = problem.report.take() {
                whole.add(*last);
            }
            problem.report = Some(whole);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{CallRecord, report::Attempt};

    #[test]
    fn a_failure_tells_the_whole_run() {
        let attempts = |count| vec![Attempt::default(); count];
        let before = Report { attempts: attempts(1), calls: vec![CallRecord::default()], ..Report::default() };
        let last = Report { attempts: attempts(2), ..Report::default() };
        let exhausted = inference::Error::RetriesExhausted { report: Box::new(last), last_fault: "text".to_owned() };
        let report = Problem::from(Error::new(exhausted, 2, &before)).report.unwrap();
        assert_eq!((report.attempts.len(), report.calls.len()), (3, 1));
        assert_eq!(Problem::from(Error::new(inference::Error::ReplyTooLong(1), 1, &Report::default())).report, None);
    }
}
