//! A whole answer as a `message`, a problem as an `error`.

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{json, value::RawValue};

use crate::chat::{Call, FinishReason, Meta, Problem, Reply, Report, Usage, id, problem::Kind};

/// What the answer is about, from the request.
#[derive(Debug, Clone)]
pub(super) struct About {
    /// The model asked for, named where the backend names none.
    pub(super) model: String,
    /// Whether the client wants to see the model's reasoning.
    pub(super) shows_thinking: bool,
    /// The calls that the conversation holds already.
    pub(super) call_ids: HashSet<String>,
    /// Whether the client wants to see what the guardrails did.
    pub(super) explain: bool,
}

impl About {
    /// The id of a call. Clients find a result by it: one that the conversation holds already, as of a server that counts anew in every
    /// reply, is replaced.
    pub(super) fn id_of<'a>(&self, call: &'a Call) -> Cow<'a, str> {
        if self.call_ids.contains(&call.id) { Cow::Owned(id::mint("toolu_")) } else { Cow::Borrowed(&call.id) }
    }
}

/// The JSON of a whole answer.
pub(super) fn message(reply: &Reply, about: &About) -> Bytes {
    let thinking = Some(reply.reasoning.as_str()).filter(|text| about.shows_thinking && !text.is_empty());
    let mut content: Vec<Block<'_>> = thinking.map(Block::thinking).into_iter().collect();
    content.extend([&reply.content, &reply.refusal].into_iter().filter(|text| !text.trim().is_empty()).map(|text| Block::text(text)));
    content.extend(reply.calls.iter().map(|call| Block::call(call, about.id_of(call))));
    let message = Message {
        content,
        stop_reason: Some(stop_reason(reply.finish.unwrap_or(FinishReason::Stop), !reply.refusal.is_empty())),
        usage: reply.usage.into(),
        toolgate: reply.report.as_ref().filter(|report| report.is_shown(about.explain)),
        ..Message::begun(&reply.meta, about)
    };
    // Structs of strings and numbers always serialise.
    serde_json::to_vec(&message).unwrap_or_default().into()
}

/// The word for why an answer ended.
pub(super) fn stop_reason(finish: FinishReason, refused: bool) -> &'static str {
    match finish {
        _ if refused => "refusal",
        FinishReason::Stop => "end_turn",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::ContentFilter => "refusal",
    }
}

/// The body of an error answer, and of an error event in a stream. With `explain` it tells what the guardrails tried.
pub(super) fn error(problem: &Problem, request_id: Option<&str>, explain: bool) -> Bytes {
    let mut error = json!({
        "type": "error",
        "error": {"type": error_type(problem.kind), "message": message_of(problem)},
        "request_id": request_id,
    });
    if let (Some(report), Some(fields)) = (problem.report.as_ref().filter(|report| report.is_shown(explain)), error.as_object_mut()) {
        fields.insert("toolgate".to_owned(), json!(report));
    }
    error.to_string().into()
}

/// Clients know by the sentence that it is time to shorten the conversation.
fn message_of(problem: &Problem) -> String {
    let too_long = [&problem.upstream_type, &problem.code].into_iter().flatten().any(|word| TOO_LONG.contains(&word.as_str()));
    if too_long { format!("prompt is too long: {}", problem.message) } else { problem.message.clone() }
}

/// What servers call a prompt that exceeds the context.
const TOO_LONG: [&str; 2] = ["exceed_context_size_error", "context_length_exceeded"];

fn error_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid | Kind::Slow | Kind::Conflict | Kind::Method(_) => "invalid_request_error",
        Kind::TooLarge | Kind::Upstream(413) => "request_too_large",
        Kind::NotFound | Kind::Upstream(404) => "not_found_error",
        Kind::Unauthorized | Kind::Upstream(401) => "authentication_error",
        Kind::Forbidden | Kind::Upstream(403) => "permission_error",
        Kind::Spent => "billing_error",
        Kind::Upstream(429) => "rate_limit_error",
        Kind::Upstream(400..=499) => "invalid_request_error",
        Kind::Timeout | Kind::Upstream(504) => "timeout_error",
        Kind::NotReady | Kind::Upstream(503 | 529) => "overloaded_error",
        Kind::Upstream(_) | Kind::Unreachable | Kind::RetriesExhausted => "api_error",
    }
}

/// A `message`. The fields that are always null here are required by the specification.
#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: String,
    content: Vec<Block<'a>>,
    stop_reason: Option<&'static str>,
    stop_sequence: (),
    stop_details: (),
    container: (),
    usage: WireUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolgate: Option<&'a Report>,
}

impl Message<'_> {
    /// One that says nothing yet.
    pub(super) fn begun(meta: &Meta, about: &About) -> Self {
        Self {
            // Never the backend's: clients take two messages of one id for one, and some servers give all the same.
            id: id::mint("msg_"),
            kind: "message",
            role: "assistant",
            model: meta.model.clone().unwrap_or_else(|| about.model.clone()),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: (),
            stop_details: (),
            container: (),
            usage: Usage::default().into(),
            toolgate: None,
        }
    }
}

/// A content block.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    /// Reasoning. There is no signature: nobody checks it on the way back.
    Thinking { thinking: &'a str, signature: &'static str },
    /// Text.
    Text { text: &'a str, citations: () },
    /// A call.
    ToolUse { id: Cow<'a, str>, name: &'a str, input: Input<'a>, caller: Caller },
}

/// The arguments of a call.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    /// An object in the model's spelling.
    Object(&'a RawValue),
    /// What the model wrote where it is none: only where the guardrails that see to it are off.
    Text(&'a str),
    /// Nothing.
    Empty {},
}

/// Who calls a tool: here always the model itself.
#[derive(Debug, Serialize)]
pub(super) struct Caller {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> Block<'a> {
    pub(super) fn thinking(thinking: &'a str) -> Self {
        Self::Thinking { thinking, signature: "" }
    }

    pub(super) fn text(text: &'a str) -> Self {
        Self::Text { text, citations: () }
    }

    /// A call with its arguments.
    fn call(call: &'a Call, id: Cow<'a, str>) -> Self {
        let object = serde_json::from_str::<&RawValue>(&call.arguments).ok().filter(|raw| raw.get().starts_with('{'));
        let input = match object {
            Some(object) => Input::Object(object),
            None if call.arguments.trim().is_empty() => Input::Empty {},
            None => Input::Text(&call.arguments),
        };
        Self::tool_use(call, id, input)
    }

    /// A call whose arguments follow.
    pub(super) fn call_begun(call: &'a Call, id: Cow<'a, str>) -> Self {
        Self::tool_use(call, id, Input::Empty {})
    }

    fn tool_use(call: &'a Call, id: Cow<'a, str>, input: Input<'a>) -> Self {
        Self::ToolUse { id, name: &call.name, input, caller: Caller { kind: "direct" } }
    }
}

/// The `usage` of a message. Tokens read from the cache are counted apart.
#[derive(Debug, Serialize)]
pub(super) struct WireUsage {
    #[serde(flatten)]
    counts: Counts,
    cache_creation: (),
    inference_geo: (),
    service_tier: (),
}

/// The `usage` of a stream's end.
#[derive(Debug, Serialize)]
pub(super) struct Counts {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
    output_tokens_details: (),
    server_tool_use: (),
}

impl From<Usage> for Counts {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.prompt_tokens.saturating_sub(usage.cached_tokens),
            output_tokens: usage.completion_tokens,
            cache_read_input_tokens: usage.cached_tokens,
            cache_creation_input_tokens: 0,
            output_tokens_details: (),
            server_tool_use: (),
        }
    }
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self { counts: usage.into(), cache_creation: (), inference_geo: (), service_tier: () }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn problems_have_anthropics_words() {
        let check = |kind: Kind, word: &str| {
            let body: Value = serde_json::from_slice(&error(&Problem::new(kind, "said"), Some("req_1"), false)).unwrap();
            let expected = json!({"type": "error", "error": {"type": word, "message": "said"}, "request_id": "req_1"});
            assert_eq!(body, expected, "{kind:?}");
        };
        check(Kind::Invalid, "invalid_request_error");
        check(Kind::TooLarge, "request_too_large");
        check(Kind::NotFound, "not_found_error");
        check(Kind::Upstream(401), "authentication_error");
        check(Kind::Upstream(403), "permission_error");
        check(Kind::Upstream(422), "invalid_request_error");
        check(Kind::Upstream(429), "rate_limit_error");
        check(Kind::Upstream(500), "api_error");
        check(Kind::Upstream(529), "overloaded_error");
        check(Kind::Unreachable, "api_error");
        check(Kind::NotReady, "overloaded_error");
        check(Kind::Timeout, "timeout_error");
        check(Kind::RetriesExhausted, "api_error");
    }

    #[test]
    fn a_prompt_that_exceeds_the_context_is_too_long() {
        let problem = Problem { upstream_type: Some("exceed_context_size_error".to_owned()), ..Problem::new(Kind::Upstream(400), "9 > 8") };
        let body: Value = serde_json::from_slice(&error(&problem, None, false)).unwrap();
        assert_eq!(body["error"]["message"], "prompt is too long: 9 > 8");
    }

    #[test]
    fn arguments_that_are_no_object_stay_text() {
        let input = |arguments: &str| {
            let call = Call { id: "c".to_owned(), name: "f".to_owned(), arguments: arguments.to_owned() };
            let body: Value = serde_json::from_slice(&message(&Reply { calls: vec![call], ..Reply::default() }, &about())).unwrap();
            body["content"][0]["input"].clone()
        };
        assert_eq!(input("{\"a\": 1}"), json!({"a": 1}));
        assert_eq!(input(""), json!({}));
        assert_eq!(input("[1]"), json!("[1]"));
        assert_eq!(input("{\"a\""), json!("{\"a\""));
    }

    #[test]
    fn ids_are_never_those_of_earlier_answers() {
        let about = About { call_ids: HashSet::from(["call_0".to_owned()]), ..about() };
        let call = |id: &str| Call { id: id.to_owned(), name: "f".to_owned(), arguments: String::new() };
        let reply = Reply { calls: vec![call("call_0"), call("call_1")], ..Reply::default() };
        let body: Value = serde_json::from_slice(&message(&reply, &about)).unwrap();
        assert!(body["id"].as_str().unwrap().starts_with("msg_"));
        assert!(body["content"][0]["id"].as_str().unwrap().starts_with("toolu_"));
        assert_eq!(body["content"][1]["id"], "call_1");
    }

    fn about() -> About {
        About { model: "m".to_owned(), shows_thinking: false, call_ids: HashSet::new(), explain: false }
    }
}
