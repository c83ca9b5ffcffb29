//! One tool call that toolgate ran itself, or refused to run: what an answer explains and the trace writes.

use serde::Serialize;

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
    /// Whether the model was told the tool's schema, to call again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub corrective_retry: bool,
    /// What was not as it should be about the choice of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The server of a call that none served.
pub const NO_SERVER: &str = "-";
