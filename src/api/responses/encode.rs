//! The response object: what is known of it from its beginning, and what it came to.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::json;

use super::{
    object::{Object, array, string},
    output::{self, Item, Status},
    tools::Tools,
};
use crate::chat::{FinishReason, Meta, Problem, Reply, Report, Usage, id, problem::Kind};

/// What the answer is about, from the request.
#[derive(Debug)]
pub(super) struct About {
    /// The model asked for, named where the backend names none.
    pub(super) model: String,
    /// Whether the client reads reasoning as a summary.
    pub(super) summary: bool,
    /// What is repeated of the request: fields of a JSON object without its braces.
    pub(super) echo: String,
    /// The tools, for the form of their calls.
    pub(super) tools: Tools,
    /// Whether the client wants to see what the guardrails did.
    pub(super) explain: bool,
}

/// What a response says about itself from its beginning.
#[derive(Debug, Default)]
pub(super) struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    /// The head of the response that `meta`'s completion becomes. It has an id of its own: a completion's is no response's.
    pub(super) fn of(meta: &Meta, about: &About) -> Self {
        Self {
            id: id::mint("resp_"),
            created: meta.created.unwrap_or_else(now),
            model: meta.model.clone().unwrap_or_else(|| about.model.clone()),
        }
    }
}

/// How far a response has come.
#[derive(Debug, Default)]
pub(super) struct Body<'a> {
    /// What was said.
    pub(super) items: &'a [Item],
    /// Why it ended.
    pub(super) finish: Option<FinishReason>,
    /// Why it failed.
    pub(super) problem: Option<&'a Problem>,
    /// What it cost.
    pub(super) usage: Option<Usage>,
    /// What the guardrails did.
    pub(super) report: Option<&'a Report>,
}

impl Body<'_> {
    /// The word for how far it has come.
    pub(super) fn status(&self) -> &'static str {
        match (self.problem, self.finish) {
            (Some(_), _) => "failed",
            (None, None) => "in_progress",
            (None, Some(FinishReason::Stop | FinishReason::ToolCalls)) => "completed",
            (None, Some(FinishReason::Length | FinishReason::ContentFilter)) => "incomplete",
        }
    }

    /// What it stopped at, where it is not whole.
    fn cut_by(&self) -> Option<&'static str> {
        match self.finish {
            Some(FinishReason::Length) => Some("max_output_tokens"),
            Some(FinishReason::ContentFilter) => Some("content_filter"),
            Some(FinishReason::Stop | FinishReason::ToolCalls) | None => None,
        }
    }
}

/// The JSON of a response.
pub(super) fn response(head: &Head, body: &Body<'_>, about: &About) -> String {
    let last = body.items.len().saturating_sub(1);
    let end = |index| if index == last { Status::at_the_end(body.finish) } else { Status::Completed };
    let items = body.items.iter().enumerate().map(|(index, item)| json_of(&item.wire(end(index))));
    let status = body.status();
    let completed_at = if status == "completed" { now().to_string() } else { "null".to_owned() };
    let incomplete = body.cut_by().map(|reason| json!({"reason": reason}).to_string());
    let failed = body.problem.map(|problem| json!({"code": code(problem), "message": problem.message}).to_string());
    let object = Object::default()
        .with_text("id", &head.id)
        .with("object", "\"response\"")
        .with("created_at", &head.created.to_string())
        .with("completed_at", &completed_at)
        .with_text("status", status)
        .with("error", failed.as_deref().unwrap_or("null"))
        .with("incomplete_details", incomplete.as_deref().unwrap_or("null"))
        .with_text("model", &head.model)
        .with("output", &array(items))
        .with("usage", &body.usage.map_or_else(|| "null".to_owned(), usage))
        .with_inside(&about.echo);
    let report = body.report.filter(|report| report.is_shown(about.explain)).map(json_of);
    object.with_some("toolgate", report.as_deref()).json()
}

/// The JSON of a whole answer.
pub(super) fn whole(reply: &Reply, about: &About) -> Bytes {
    let items = output::items(reply, &about.tools, about.summary);
    let body = Body {
        items: &items,
        finish: reply.finish.or(Some(FinishReason::Stop)),
        problem: None,
        usage: Some(reply.usage),
        report: reply.report.as_ref(),
    };
    response(&Head::of(&reply.meta, about), &body, about).into()
}

/// A stable word for what went wrong, in OpenAI's words where it has one.
pub(super) fn code(problem: &Problem) -> &str {
    match (&problem.code, problem.kind) {
        (Some(code), _) => code,
        (None, Kind::Upstream(429)) => "rate_limit_exceeded",
        (None, _) => "server_error",
    }
}

fn usage(usage: Usage) -> String {
    let counts = json!({
        "input_tokens": usage.prompt_tokens,
        // Official packages want both; no backend tells the second.
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens(),
    });
    counts.to_string()
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// The JSON of `value`.
fn json_of(value: &impl serde::Serialize) -> String {
    // Structs of strings and numbers always serialise.
    serde_json::to_string(value).unwrap_or_else(|_| string(""))
}
