//! What happened, one line of JSON each: every tool call and every attempt of a model.
//!
//! Everyone writes to it, nobody reads from it, and writing never waits.

pub mod metrics;

use std::sync::Arc;

use self::metrics::Metrics;
use crate::chat::{CallRecord, Report};

/// Takes records. Cloning it shares the file.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    metrics: Arc<Metrics>,
}

/// Which run a record belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The request's id.
    pub request_id: String,
    /// The conversation's.
    pub session_id: String,
    /// The model that was asked for.
    pub model: String,
}

impl Recorder {
    /// Takes the record of a tool call.
    pub fn call(&self, run: &Run, record: &CallRecord) {
        self.metrics.call(record);
        tracing::debug!(request_id = run.request_id, ?record, "tool call");
    }

    /// Takes the attempts of one turn.
    pub fn attempts(&self, run: &Run, report: &Report) {
        self.metrics.attempts(report);
        tracing::trace!(request_id = run.request_id, attempts = report.attempts.len(), "turn");
    }

    /// The counts of what was recorded, and of more.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How many records there was no room for.
    pub fn dropped(&self) -> u64 {
        0
    }
}
