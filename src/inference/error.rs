//! How getting a correct reply fails.

use crate::{
    backend,
    budget::Denial,
    chat::{Problem, Report, problem::Kind},
};

/// A run of attempts that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] backend::Error),
    /// One reply is longer than may be kept.
    #[error("reply exceeds {0} bytes")]
    ReplyTooLong(usize),
    /// The model was corrected as often as allowed and still called wrongly.
    #[error("no correct tool call in {} attempts", report.attempts.len())]
    RetriesExhausted {
        /// The attempts made.
        report: Box<Report>,
        /// What was wrong with the last reply.
        last_fault: String,
    },
    /// The model may not be asked: nothing was asked before.
    #[error(transparent)]
    Denied(Denial),
}

impl Error {
    /// What went wrong with its cause, for the trace.
    pub(super) fn with_cause(&self) -> String {
        let said = match self {
            Self::Backend(backend::Error::Status(refusal)) => refusal.body.message.clone(),
            _ => std::error::Error::source(self).map(ToString::to_string),
        };
        said.map_or_else(|| self.to_string(), |said| format!("{self}: {said}"))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Backend(error) => error.into(),
            Error::ReplyTooLong(limit) => {
                Self::new(Kind::Unreachable, format!("The model's reply exceeds {limit} bytes.")).with_code("reply_too_long")
            }
            Error::RetriesExhausted { report, last_fault } => {
                let attempts = report.attempts.len();
                let message = format!("The model made no correct tool call in {attempts} attempts. The last fault: {last_fault}.");
                Self { report: Some(report), ..Self::new(Kind::RetriesExhausted, message).with_code("retries_exhausted") }
            }
            Error::Denied(denial) => denial.into(),
        }
    }
}
