//! A run and the one record that it leaves, however it ends.

use std::time::Instant;

use futures_core::Stream;
use futures_util::StreamExt;

use super::Run;
use crate::{
    chat::{Event, Problem},
    trace::Recorder,
};

/// The run whose events are `events`, counted in `trace`.
pub(super) fn recorded<E>(events: impl Stream<Item = Result<Event, E>> + Send + 'static, trace: Recorder) -> Run
where
    E: std::error::Error + Into<Problem> + 'static,
{
    let mut record = Record { outcome: Outcome::Cancelled, attempts: 0, guardrail: "", begun: Instant::now(), trace };
    Box::pin(events.map(move |event| {
        record.note(&event);
        let event = event.map_err(Into::into);
        record.count(&event);
        event
    }))
}

/// What is logged about a run when it is dropped.
struct Record {
    outcome: Outcome,
    attempts: usize,
    guardrail: &'static str,
    begun: Instant,
    trace: Recorder,
}

/// How a run ended. It counts as cancelled until something else is known.
#[derive(Debug)]
enum Outcome {
    Cancelled,
    Completed,
    Failed,
}

impl Record {
    /// Counts the replies that it took.
    fn count(&self, event: &Result<Event, Problem>) {
        let report = match event {
            Ok(Event::Settled(report)) => Some(report),
            Err(problem) => problem.report.as_deref(),
            Ok(_) => None,
        };
        if let Some(report) = report {
            self.trace.metrics().attempts(report);
        }
    }

    fn note<E: std::error::Error + 'static>(&mut self, event: &Result<Event, E>) {
        match event {
            Ok(Event::Settled(report)) => {
                self.attempts = report.attempts.len();
                self.guardrail = report.guardrail.as_str();
            }
            Ok(Event::Finished(_)) => self.outcome = Outcome::Completed,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = error as &dyn std::error::Error, "run failed");
                self.outcome = Outcome::Failed;
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Self { outcome, attempts, guardrail, begun, trace } = self;
        trace.metrics().run(match outcome {
            Outcome::Cancelled => "cancelled",
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
        });
        tracing::debug!(?outcome, attempts, guardrail, latency_ms = begun.elapsed().as_millis(), "run closed");
    }
}
