//! One tool call that toolgate ran itself, or refused to run: what an answer explains and the trace writes.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::cost;

/// What became of a call. Absent fields are not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallRecord {
    /// Which call of the run it is, from 1, in the order in which the model made them.
    pub step: usize,
    /// The id of the server that served it, `-` where none did.
    pub server: String,
    /// The tool, as its server calls it.
    pub tool: String,
    /// SHA-256 of the arguments' canonical JSON (RFC 8785's order and spacing), 64 hexadecimal digits.
    pub arguments_hash: String,
    /// The arguments. Only in a plan, and in a trace that is verbose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<serde_json::Value>,
    /// How long the call took, in milliseconds, its retries included.
    pub latency_ms: u64,
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// Whether a server was asked.
    pub executed: bool,
    /// Whether the run is a rehearsal.
    pub dry_run: bool,
    /// By which rule the server was chosen.
    pub selection_rule: &'static str,
    /// The other servers that might have served it, in the rule's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
    /// How often a server was asked, or would have been, had it been there.
    pub attempt: u32,
    /// How often it was asked again.
    pub retries: u32,
    /// Why it was asked again, the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_reason: Option<String>,
    /// What went wrong, as the model was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it cost, in microcents, where it has a price.
    #[serde(rename = "cost_usd", skip_serializing_if = "Option::is_none", serialize_with = "cost::serialize_some")]
    pub cost: Option<u64>,
    /// Whether the model was told the tool's schema, to call again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub corrective_retry: bool,
    /// What was not as it should be about the choice of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The server of a call that none served.
pub const NO_SERVER: &str = "-";

/// A call as one JSON object: a line of the trace, and what a stream of `/chat` tells of it. What is not known is not written.
#[derive(Debug, Clone, Serialize)]
pub struct Line<'a> {
    /// The version of these fields.
    pub schema_version: &'static str,
    /// What the line is about.
    pub kind: &'static str,
    /// When the call ended.
    #[serde(serialize_with = "timestamp")]
    pub timestamp: SystemTime,
    /// The request's id.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub request_id: &'a str,
    /// The conversation's.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub session_id: &'a str,
    /// As in [`CallRecord`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// As in [`CallRecord`].
    pub server: &'a str,
    /// As in [`CallRecord`].
    pub tool: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    arguments_hash: &'a str,
    /// The arguments, where they are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<&'a RawValue>,
    /// How long they are, where they are too long to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<usize>,
    latency_ms: u64,
    success: bool,
    executed: bool,
    dry_run: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    selection_rule: &'a str,
    alternatives: &'a [String],
    attempt: u32,
    retries: u32,
    /// As in [`CallRecord`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_reason: Option<&'a str>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    corrective_retry: bool,
    #[serde(rename = "cost_usd", skip_serializing_if = "Option::is_none", serialize_with = "cost::serialize_some")]
    cost: Option<u64>,
    /// The name of the API key that asked.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub key: &'a str,
}

/// The version of the trace's fields.
pub const SCHEMA_VERSION: &str = "1";

impl<'a> Line<'a> {
    /// What `record` tells, without the arguments, of a call that ended at `timestamp`.
    pub fn new(record: &'a CallRecord, timestamp: SystemTime) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            kind: "tool_call",
            timestamp,
            request_id: "",
            session_id: "",
            step: (record.step > 0).then_some(record.step),
            server: &record.server,
            tool: &record.tool,
            arguments_hash: &record.arguments_hash,
            arguments: None,
            arguments_bytes: None,
            latency_ms: record.latency_ms,
            success: record.success,
            executed: record.executed,
            dry_run: record.dry_run,
            selection_rule: record.selection_rule,
            alternatives: &record.alternatives,
            attempt: record.attempt,
            retries: record.retries,
            retry_reason: record.retry_reason.as_deref(),
            error: record.error.as_deref(),
            corrective_retry: record.corrective_retry,
            cost: record.cost,
            key: "",
        }
    }
}

/// Writes a time as ISO 8601 with microseconds, in UTC as `+00:00`.
pub fn timestamp<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&DateTime::<Utc>::from(*at).to_rfc3339_opts(SecondsFormat::Micros, false))
}

/// A call that was not run because it was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The tool, as the model named it.
    pub tool: String,
    /// The JSON text of the arguments, as the model wrote it.
    pub arguments: String,
    /// Whether there is no such tool.
    pub is_unknown: bool,
    /// What was wrong.
    pub error: String,
}
