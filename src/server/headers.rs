//! toolgate's own headers, and the few of the client's that it reads.

use hyper::{
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    http::request::Parts,
};

use crate::{
    agent::Guardrails,
    chat::{Problem, Report, Request, Servers, id},
    secret::Secret,
};

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const EXPLAIN: HeaderName = HeaderName::from_static("x-toolgate-explain");
const DISABLE: HeaderName = HeaderName::from_static("x-toolgate-disable");
const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
const DRY_RUN: HeaderName = HeaderName::from_static("x-toolgate-dry-run");
const MCP: HeaderName = HeaderName::from_static("x-toolgate-mcp");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-toolgate-attempts");
const GUARDRAIL: HeaderName = HeaderName::from_static("x-toolgate-guardrail");
const CONTEXT: HeaderName = HeaderName::from_static("x-toolgate-context");
const HALT: HeaderName = HeaderName::from_static("x-toolgate-halt");
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const CONTINUATION: HeaderName = HeaderName::from_static("x-toolgate-continuation");

/// A longer id is not taken over from a client: it would end up in every log line.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The id of a request, on its way through the server.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) HeaderValue);

/// The client's request id if it sent a usable one, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let usable = |id: &&HeaderValue| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic);
    let own = || HeaderValue::from_str(&id::mint("req_")).unwrap_or(HeaderValue::from_static("req_"));
    headers.get(REQUEST_ID).filter(usable).cloned().unwrap_or_else(own)
}

/// The caller's credential, as `Authorization` has it; Anthropic's clients send the bare key in `x-api-key`.
pub(super) fn credential(headers: &HeaderMap) -> Option<Secret> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    text(AUTHORIZATION).map(Secret::new).or_else(|| text(API_KEY).map(|key| Secret::new(&format!("Bearer {key}"))))
}

/// What may be a key of toolgate's own, wherever clients send one.
pub(super) fn shown_keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::trim);
    let bearer = text(AUTHORIZATION).and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    [bearer.map(|(_, key)| key.trim()), text(API_KEY)].into_iter().flatten().filter(|key| !key.is_empty())
}

/// Whether the answer shall tell what the guardrails did.
pub(super) fn explain(headers: &HeaderMap) -> bool {
    headers.get(EXPLAIN).is_some_and(|value| matches!(value.as_bytes(), b"1" | b"true"))
}

/// `guardrails` without those that the request switches off. Fails for a name that is none, which would be left on unnoticed.
pub(super) fn guardrails(headers: &HeaderMap, guardrails: Guardrails) -> Result<Guardrails, Problem> {
    let mut guardrails = guardrails;
    for value in headers.get_all(DISABLE) {
        let names = value.to_str().unwrap_or("?").split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in names {
            match name {
                "respond" => guardrails.respond = false,
                "rescue" => guardrails.rescue = false,
                "validate" => guardrails.validate = false,
                "nudge" => guardrails.nudge = false,
                "all" => guardrails = Guardrails::NONE,
                _ => {
                    let message = format!("`{name}` is no guardrail: use respond, rescue, validate, nudge or all.");
                    return Err(Problem::invalid(DISABLE.as_str(), message));
                }
            }
        }
    }
    Ok(guardrails)
}

/// Puts what the headers say of a run into `request`: its id, its conversation, whose tools it may use, whether it is a rehearsal.
pub(super) fn order(head: &Parts, request: &mut Request) -> Result<(), Problem> {
    let headers = &head.headers;
    id_of(head).clone_into(&mut request.id);
    if let Some(session) = session(headers) {
        request.session = Some(session.to_owned());
    }
    request.dry_run |= headers.get(DRY_RUN).is_some_and(|value| matches!(value.as_bytes(), b"1" | b"true"));
    if headers.contains_key(MCP) {
        request.servers = servers(headers)?;
    }
    Ok(())
}

/// The id of a request, once it has one.
pub(super) fn id_of(head: &Parts) -> &str {
    head.extensions.get().and_then(|RequestId(id)| id.to_str().ok()).unwrap_or_default()
}

/// The conversation that the request is part of, where it says so.
pub(super) fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID).and_then(|value| value.to_str().ok()).map(str::trim).filter(|session| !session.is_empty())
}

fn servers(headers: &HeaderMap) -> Result<Servers, Problem> {
    let mut ids = Vec::new();
    for value in headers.get_all(MCP) {
        let value = value.to_str().map_err(|_| Problem::invalid(MCP.as_str(), "The names of MCP servers are text."))?;
        ids.extend(value.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned));
    }
    // An empty list names nobody: nobody's tools are offered.
    Ok(if ids.is_empty() || ids.iter().any(|id| id == "off") { Servers::Off } else { Servers::Only(ids) })
}

/// Tells in `headers` how the answer was reached.
pub(super) fn report(headers: &mut HeaderMap, report: &Report) {
    headers.insert(ATTEMPTS, HeaderValue::from(report.attempts.len()));
    headers.insert(GUARDRAIL, HeaderValue::from_static(report.guardrail.as_str()));
    if let Some(reason) = report.halt_reason {
        headers.insert(HALT, HeaderValue::from_static(reason.as_str()));
    }
    if report.truncated.is_some() {
        headers.insert(CONTEXT, HeaderValue::from_static("truncated"));
    }
}

/// Tells in `headers` whether something is gone that the client did not see of its conversation.
pub(super) fn continuation(headers: &mut HeaderMap, is_lost: bool) {
    if is_lost {
        headers.insert(CONTINUATION, HeaderValue::from_static("lost"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disable(value: &'static str) -> Result<Guardrails, Problem> {
        let headers = HeaderMap::from_iter([(DISABLE, HeaderValue::from_static(value))]);
        guardrails(&headers, Guardrails::ALL)
    }

    #[test]
    fn guardrails_switch_off_by_name() {
        assert_eq!(disable("").unwrap(), Guardrails::ALL);
        assert_eq!(disable("rescue, nudge").unwrap(), Guardrails { rescue: false, nudge: false, ..Guardrails::ALL });
        assert_eq!(disable("all").unwrap(), Guardrails::NONE);
        assert!(disable("rescues").unwrap_err().message.contains("`rescues`"));
    }

    #[test]
    fn only_a_harmless_request_id_is_taken_over() {
        let id = |value: &str| {
            let headers = HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_str(value).unwrap())]);
            request_id(&headers).to_str().unwrap().to_owned()
        };
        assert_eq!(id("abc-1"), "abc-1");
        assert!(id("with space").starts_with("req_"));
        assert!(id(&"x".repeat(129)).starts_with("req_"));
        assert!(id("").starts_with("req_"));
    }
}
