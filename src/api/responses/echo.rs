//! What a response repeats of its request: every field that the specification has in it, with its default where the request has none.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    object::{Object, array},
    tools::Tools,
};

/// The fields of `request` as the inside of a JSON object, without its braces.
pub(super) fn fields(request: &[(String, Bytes)], tools: &Tools) -> String {
    let field = |name: &str| super::decode::field(request, name);
    let mut object = Object::default()
        .with("instructions", field("instructions").unwrap_or("null"))
        .with("tools", &array(&tools.echo))
        .with("text", &text(field("text")))
        .with("reasoning", &reasoning(field("reasoning")));
    for (name, default) in DEFAULTS {
        object = object.with(name, field(name).unwrap_or(default));
    }
    for name in OPTIONAL {
        object = object.with_some(name, field(name));
    }
    let json = object.with("previous_response_id", "null").with("store", "false").with("background", "false").json();
    json.strip_prefix('{').and_then(|json| json.strip_suffix('}')).unwrap_or_default().to_owned()
}

fn text(given: Option<&str>) -> String {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, default)]
        format: Option<&'a RawValue>,
        #[serde(borrow, default)]
        verbosity: Option<&'a RawValue>,
    }
    let given: Option<Wire<'_>> = given.and_then(|given| serde_json::from_str(given).ok());
    let (format, verbosity) = given.map_or((None, None), |given| (given.format, given.verbosity));
    let text = Object::default().with("format", format.map_or(r#"{"type":"text"}"#, RawValue::get));
    text.with_some("verbosity", verbosity.map(RawValue::get)).json()
}

fn reasoning(given: Option<&str>) -> String {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, default)]
        effort: Option<&'a RawValue>,
        #[serde(borrow, default)]
        summary: Option<&'a RawValue>,
    }
    let given: Option<Wire<'_>> = given.and_then(|given| serde_json::from_str(given).ok());
    let (effort, summary) = given.map_or((None, None), |given| (given.effort, given.summary));
    let or_null = |raw: Option<&RawValue>| raw.map_or("null", RawValue::get).to_owned();
    Object::default().with("effort", &or_null(effort)).with("summary", &or_null(summary)).json()
}

/// What is repeated as it is, and what OpenAI's API assumes where it is absent.
const DEFAULTS: [(&str, &str); 15] = [
    ("tool_choice", "\"auto\""),
    ("parallel_tool_calls", "true"),
    ("temperature", "1"),
    ("top_p", "1"),
    ("presence_penalty", "0"),
    ("frequency_penalty", "0"),
    ("top_logprobs", "0"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("truncation", "\"disabled\""),
    ("service_tier", "\"default\""),
    ("metadata", "{}"),
    ("safety_identifier", "null"),
    ("prompt_cache_key", "null"),
    ("user", "null"),
];

/// What is repeated only where it was sent.
const OPTIONAL: [&str; 1] = ["prompt_cache_retention"];
