//! One line of the trace.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::value::RawValue;

use super::turn::Run;
use crate::{
    chat::{
        CallRecord, Usage,
        call::{self, SCHEMA_VERSION},
        cost,
        report::{Attempt, Fault, Guardrail},
    },
    secret::Secret,
};

/// A line as it waits to be written.
#[derive(Debug)]
pub(super) struct Line {
    /// JSON without a line end.
    pub(super) text: String,
    /// Whether something in it was said by others, who may have quoted a credential.
    pub(super) is_quoting: bool,
    /// The caller's credential.
    pub(super) credential: Option<Secret>,
}

/// A server, a tool or a reason is cut here: models make up some of them.
const NAME_BYTES_MAX: usize = 256;
/// An error is cut here.
const ERROR_BYTES_MAX: usize = 1024;
/// Longer arguments are left out.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;
/// Room for most lines.
const LINE_BYTES: usize = 640;

/// The line of a call, with its `arguments` where they are to be told.
pub(super) fn call(run: &Run, record: &CallRecord, arguments: Option<&RawValue>) -> Line {
    let mut line = call::Line::new(record, SystemTime::now());
    line.request_id = &run.request_id;
    line.session_id = &run.session_id;
    line.key = &run.key;
    line.server = head(line.server, NAME_BYTES_MAX);
    line.tool = head(line.tool, NAME_BYTES_MAX);
    line.retry_reason = line.retry_reason.map(|reason| head(reason, NAME_BYTES_MAX));
    line.error = line.error.map(|error| head(error, ERROR_BYTES_MAX));
    let is_told = |arguments: &&RawValue| arguments.get().len() <= ARGUMENTS_BYTES_MAX;
    line.arguments = arguments.filter(is_told);
    line.arguments_bytes = arguments.filter(|arguments| !is_told(arguments)).map(|arguments| arguments.get().len());
    made(run, &line, line.error.is_some() || line.arguments.is_some())
}

/// The line of one attempt of a model: the `attempt`th of the `turn`th turn.
pub(super) fn attempt(run: &Run, (turn, attempt): (usize, u32), latency_ms: u64, told: Told<'_>) -> Line {
    let Told { note, usage, error, is_made, cost } = told;
    let usage = Some(note.map_or(usage, |note| note.usage)).filter(|usage| *usage != Usage::default());
    let error = error.or_else(|| note.filter(|note| note.fault.is_some())?.detail.as_deref());
    let line = AttemptLine {
        schema_version: SCHEMA_VERSION,
        kind: "model_attempt",
        timestamp: SystemTime::now(),
        request_id: &run.request_id,
        session_id: &run.session_id,
        turn,
        attempt,
        model: &run.model,
        latency_ms,
        success: error.is_none(),
        executed: is_made,
        dry_run: run.dry_run,
        tokens_in: usage.map(|usage| usage.prompt_tokens),
        tokens_out: usage.map(|usage| usage.completion_tokens),
        guardrail: note.map(guardrail),
        fault: note.and_then(|note| note.fault),
        forced: note.map(|note| note.forced),
        cost,
        key: &run.key,
        error: error.map(|error| head(error, ERROR_BYTES_MAX)),
    };
    made(run, &line, line.error.is_some())
}

/// What is known of an attempt that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told<'a> {
    /// What was done to the reply, where there was one.
    pub(super) note: Option<&'a Attempt>,
    /// What it used, where that is all that is known of the reply.
    pub(super) usage: Usage,
    /// Why there was none.
    pub(super) error: Option<&'a str>,
    /// Whether the model was asked, as far as is known.
    pub(super) is_made: bool,
    /// What it cost, in microcents, where it has a price.
    pub(super) cost: Option<u64>,
}

/// What was done to this one reply. That others came before it the line says by its number.
fn guardrail(note: &Attempt) -> Guardrail {
    if !note.repaired.is_empty() || !note.coerced.is_empty() {
        Guardrail::Repaired
    } else if !note.rescued.is_empty() {
        Guardrail::Rescued
    } else {
        Guardrail::Clean
    }
}

#[derive(Serialize)]
struct AttemptLine<'a> {
    schema_version: &'static str,
    kind: &'static str,
    #[serde(serialize_with = "call::timestamp")]
    timestamp: SystemTime,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    session_id: &'a str,
    turn: usize,
    attempt: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    latency_ms: u64,
    success: bool,
    executed: bool,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guardrail: Option<Guardrail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forced: Option<bool>,
    #[serde(rename = "cost_usd", skip_serializing_if = "Option::is_none", serialize_with = "cost::serialize_some")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

fn made(run: &Run, line: &impl Serialize, is_quoting: bool) -> Line {
    let mut text = Vec::with_capacity(LINE_BYTES);
    // Structs of strings and numbers always serialise, and memory takes all that is written.
    serde_json::to_writer(&mut text, line).ok();
    let text = String::from_utf8(text).unwrap_or_default();
    Line { text, is_quoting, credential: run.credential.clone().filter(|_| is_quoting) }
}

/// The beginning of `text`, of `bytes_max` bytes at most.
pub(super) fn head(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}
