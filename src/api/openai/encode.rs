//! A whole answer as a `chat.completion`, a problem as an error object.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{json, value::RawValue};

use crate::chat::{Call, FinishReason, Meta, Problem, Reply, Report, Usage, id, problem::Kind};

/// What the answer is about, from the request.
#[derive(Debug, Clone)]
pub(super) struct About {
    /// The model asked for, named where the backend names none.
    pub(super) model: String,
    /// Whether the client wants to see what the guardrails did.
    pub(super) explain: bool,
}

/// The JSON of a whole answer, in OpenAI's complete shape.
pub(super) fn completion(reply: &Reply, about: &About) -> Bytes {
    let Meta { id, created, model, system_fingerprint } = Meta::clone(&reply.meta);
    let no_text = reply.content.is_empty() && (!reply.calls.is_empty() || !reply.refusal.is_empty());
    let body = WireCompletion {
        id: id.unwrap_or_else(|| id::mint("chatcmpl-")),
        object: "chat.completion",
        created: created.unwrap_or_else(now),
        model: model.unwrap_or_else(|| about.model.clone()),
        system_fingerprint,
        choices: [WireChoice {
            index: 0,
            message: WireMessage {
                role: "assistant",
                content: (!no_text).then_some(&reply.content),
                refusal: some(&reply.refusal),
                annotations: [],
                reasoning_content: some(&reply.reasoning),
                tool_calls: reply.calls.iter().map(WireCall::from).collect(),
            },
            logprobs: merge(&reply.logprobs),
            finish_reason: reply.finish.unwrap_or(FinishReason::Stop).as_str(),
        }],
        usage: WireUsage::from(reply.usage),
        timings: reply.timings.as_deref(),
        toolgate: reply.report.as_ref().filter(|report| report.is_shown(about.explain)),
    };
    json_bytes(&body)
}

/// The body of an error answer, and of an error event in a stream. With `explain` it tells what the guardrails tried.
pub(super) fn error(problem: &Problem, explain: bool) -> Bytes {
    let mut error = json!({"error": {
        "message": problem.message,
        "type": problem.upstream_type.as_deref().unwrap_or_else(|| error_type(problem.kind)),
        "param": problem.param,
        "code": problem.code,
    }});
    if let (Some(report), Some(fields)) = (problem.report.as_ref().filter(|report| report.is_shown(explain)), error.as_object_mut()) {
        fields.insert("toolgate".to_owned(), json!(report));
    }
    json_bytes(&error)
}

fn error_type(kind: Kind) -> &'static str {
    match kind {
        // OpenAI's own word for a key that is wrong.
        Kind::Unauthorized => "invalid_request_error",
        Kind::Invalid | Kind::TooLarge | Kind::Slow | Kind::NotFound | Kind::Conflict | Kind::Method(_) => "invalid_request_error",
        Kind::Upstream(401) => "authentication_error",
        Kind::Forbidden | Kind::Upstream(403) => "permission_error",
        Kind::Spent => "insufficient_quota",
        Kind::Upstream(404) => "not_found_error",
        Kind::Upstream(429) => "rate_limit_error",
        Kind::Upstream(400..=499) => "invalid_request_error",
        Kind::Upstream(_) => "server_error",
        Kind::Unreachable => "upstream_error",
        Kind::NotReady => "unavailable_error",
        Kind::Timeout => "timeout_error",
        Kind::RetriesExhausted => "tool_call_error",
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

fn json_bytes(value: &impl Serialize) -> Bytes {
    // Structs of strings and numbers always serialise.
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// Appends the JSON of `value`.
pub(super) fn json_into(to: &mut BytesMut, value: &impl Serialize) {
    // As above, and memory takes all that is written.
    serde_json::to_writer(to.writer(), value).ok();
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[derive(Serialize)]
struct WireCompletion<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<String>,
    choices: [WireChoice<'a>; 1],
    usage: WireUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolgate: Option<&'a Report>,
}

#[derive(Serialize)]
struct WireChoice<'a> {
    index: u32,
    message: WireMessage<'a>,
    logprobs: Option<Logprobs<'a>>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Option<&'a String>,
    refusal: Option<&'a str>,
    annotations: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> From<&'a Call> for WireCall<'a> {
    fn from(call: &'a Call) -> Self {
        let function = WireFunction { name: &call.name, arguments: &call.arguments };
        Self { id: &call.id, kind: "function", function }
    }
}

/// OpenAI's `usage` object.
#[derive(Serialize)]
pub(super) struct WireUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens(),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cached_tokens },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning_tokens },
        }
    }
}

/// OpenAI's `logprobs` object, its entries as the backend wrote them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Logprobs<'a> {
    #[serde(borrow, default, serialize_with = "null_if_empty")]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, serialize_with = "null_if_empty")]
    refusal: Option<Vec<&'a RawValue>>,
}

fn null_if_empty<S: Serializer>(list: &Option<Vec<&RawValue>>, to: S) -> Result<S::Ok, S::Error> {
    list.as_ref().filter(|list| !list.is_empty()).serialize(to)
}

/// The pieces of a stream as one object; `None` when there are none.
pub(super) fn merge(pieces: &[Box<RawValue>]) -> Option<Logprobs<'_>> {
    if pieces.is_empty() {
        return None;
    }
    let mut whole = Logprobs { content: Some(Vec::new()), refusal: Some(Vec::new()) };
    for piece in pieces {
        let piece: Logprobs<'_> = serde_json::from_str(piece.get()).unwrap_or_default();
        whole.content.get_or_insert_default().extend(piece.content.unwrap_or_default());
        whole.refusal.get_or_insert_default().extend(piece.refusal.unwrap_or_default());
    }
    Some(whole)
}
