//! A request body read: Anthropic's fields become OpenAI's. An error names the field as Anthropic does: `messages.0.content`.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{messages, tools};
use crate::{
    chat::{Problem, Request, problem::Kind},
    wire::fields,
};

/// Fields that mean the same under the same name. The last three are no part of the API: local servers read them.
const SAME: [&str; 6] = ["temperature", "top_p", "top_k", "seed", "min_p", "chat_template_kwargs"];

/// OpenAI refuses a longer `user`; local servers have no use for one.
const USER_BYTES_MAX: usize = 64;

/// A request and what its answer depends on.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) request: Request,
    /// Whether the client wants to see the model's reasoning.
    pub(super) shows_thinking: bool,
    /// The calls that the conversation holds already.
    pub(super) call_ids: HashSet<String>,
}

/// Reads a request for a message.
pub(super) fn request(body: &Bytes) -> Result<Decoded, Problem> {
    let given = fields::object(body).map_err(|error| not_an_object(body, &error))?;
    let given = Given(given);
    let model: Option<Cow<'_, str>> = given.read("model", "a string")?;
    let (messages, seen) = messages::read(given.raw("system"), given.raw("messages"))?;
    let tools = tools::read(given.raw("tools"), &seen)?;
    let choice = tools::choice(given.raw("tool_choice"), &tools)?;
    let mut fields: Vec<(String, Bytes)> = Vec::with_capacity(given.0.len() + 2);
    fields.extend(given.raw("model").map(|model| ("model".to_owned(), model.clone())));
    fields.push(("messages".to_owned(), messages.clone()));
    if !tools.list.is_empty() {
        fields.push(("tools".to_owned(), tools.json.clone()));
        fields.extend(choice.json.map(|json| ("tool_choice".to_owned(), json)));
        if !choice.parallel {
            fields.push(("parallel_tool_calls".to_owned(), Bytes::from_static(b"false")));
        }
    }
    let thinking: Option<Thinking<'_>> = given.read("thinking", "an object with a `type`")?;
    limits(&given, &mut fields)?;
    reasoning(&given, thinking.as_ref(), &mut fields)?;
    answer_format(&given, &mut fields)?;
    user(&given, &mut fields)?;
    let request = Request {
        messages,
        tools_json: tools.json,
        tools: tools.list,
        tool_choice: choice.wanted,
        parallel_tool_calls: choice.parallel,
        stream: given.read("stream", "a boolean")?.unwrap_or(false),
        include_usage: true,
        dry_run: given.read("dry_run", "a boolean")?.unwrap_or(false),
        model: model.map(Cow::into_owned).unwrap_or_default(),
        fields,
        ..Request::default()
    };
    Ok(Decoded { request, shows_thinking: thinking.is_some_and(|thinking| thinking.is_shown()), call_ids: seen.call_ids })
}

/// The fields of a request; those that are null count as absent.
struct Given(Vec<(String, Bytes)>);

impl Given {
    fn raw(&self, name: &str) -> Option<&Bytes> {
        self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| value).filter(|value| value.as_ref() != b"null")
    }

    fn read<'a, T: Deserialize<'a>>(&'a self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_slice(raw).map(Some).map_err(|_| wrong(name, expected))
    }
}

/// The field at `place` is something else than what is `expected`.
pub(super) fn wrong(place: &str, expected: &str) -> Problem {
    Problem::invalid(place, format!("`{place}` must be {expected}."))
}

/// There is no field at `place`.
pub(super) fn missing(place: &str) -> Problem {
    Problem::invalid(place, format!("`{place}` is missing."))
}

fn not_an_object(body: &[u8], error: &serde_json::Error) -> Problem {
    let message = if body.trim_ascii().is_empty() {
        "The request body is empty; a JSON object is expected.".to_owned()
    } else if serde_json::from_slice::<&RawValue>(body).is_ok() {
        "The request body must be a JSON object.".to_owned()
    } else {
        format!("The request body is not valid JSON: {error}.")
    };
    Problem::new(Kind::Invalid, message).with_code("invalid_json")
}

fn limits(given: &Given, fields: &mut Vec<(String, Bytes)>) -> Result<(), Problem> {
    if let Some(limit) = given.read::<u64>("max_tokens", "a positive integer")? {
        if limit == 0 {
            return Err(wrong("max_tokens", "a positive integer"));
        }
        fields.push(("max_tokens".to_owned(), limit.to_string().into()));
    }
    let stops: Vec<Cow<'_, str>> = given.read("stop_sequences", "a list of strings")?.unwrap_or_default();
    if !stops.is_empty() {
        fields.push(("stop".to_owned(), given.raw("stop_sequences").cloned().unwrap_or_default()));
    }
    for name in ["temperature", "top_p", "top_k"] {
        given.read::<f64>(name, "a number")?;
    }
    fields.extend(SAME.iter().filter_map(|name| Some(((*name).to_owned(), given.raw(name)?.clone()))));
    Ok(())
}

#[derive(Deserialize)]
struct Thinking<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    budget_tokens: Option<u64>,
    #[serde(borrow, default)]
    display: Option<Cow<'a, str>>,
}

impl Thinking<'_> {
    /// Whoever did not ask for it takes the first block of an answer for its text.
    fn is_shown(&self) -> bool {
        self.kind != "disabled" && self.display.as_deref() != Some("omitted")
    }
}

#[derive(Deserialize)]
struct OutputConfig<'a> {
    #[serde(borrow, default)]
    effort: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    format: Option<&'a RawValue>,
}

/// In the words of local servers. Thinking that is wanted, and an effort that is high, are what reasoning models do by themselves: to say
/// so would only make a server refuse that serves a model of another kind.
fn reasoning(given: &Given, thinking: Option<&Thinking<'_>>, fields: &mut Vec<(String, Bytes)>) -> Result<(), Problem> {
    let word = thinking.map(|thinking| thinking.kind.as_ref());
    if word == Some("disabled") && given.raw("chat_template_kwargs").is_none() {
        fields.push(("chat_template_kwargs".to_owned(), Bytes::from_static(br#"{"enable_thinking":false}"#)));
    }
    // llama-server's.
    if let Some(budget) = thinking.and_then(|thinking| thinking.budget_tokens).filter(|_| word == Some("enabled")) {
        fields.push(("thinking_budget_tokens".to_owned(), budget.to_string().into()));
    }
    let config: Option<OutputConfig<'_>> = given.read("output_config", "an object")?;
    let effort = config.and_then(|config| config.effort).filter(|effort| matches!(effort.as_ref(), "low" | "medium"));
    fields.extend(effort.map(|effort| ("reasoning_effort".to_owned(), json!(effort).to_string().into())));
    Ok(())
}

/// The form that the answer's text has, if it is to have one.
fn answer_format(given: &Given, fields: &mut Vec<(String, Bytes)>) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct Format<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        schema: Option<&'a RawValue>,
    }
    let config: Option<OutputConfig<'_>> = given.read("output_config", "an object")?;
    // `output_format` is its older name.
    let (place, raw) = match (config.and_then(|config| config.format), given.raw("output_format")) {
        (Some(format), _) => ("output_config.format", format.get().as_bytes()),
        (None, Some(format)) => ("output_format", format.as_ref()),
        (None, None) => return Ok(()),
    };
    let format: Format<'_> = serde_json::from_slice(raw).map_err(|_| wrong(place, "an object with a `type`"))?;
    if format.kind != "json_schema" {
        return Err(wrong(&format!("{place}.type"), "`json_schema`"));
    }
    let schema = format.schema.filter(|schema| schema.get().starts_with('{'));
    let schema = schema.ok_or_else(|| wrong(&format!("{place}.schema"), "a JSON schema"))?.get();
    let format = format!(r#"{{"type":"json_schema","json_schema":{{"name":"answer","strict":true,"schema":{schema}}}}}"#);
    fields.push(("response_format".to_owned(), format.into()));
    Ok(())
}

fn user(given: &Given, fields: &mut Vec<(String, Bytes)>) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, default)]
        user_id: Option<Cow<'a, str>>,
    }
    let metadata: Option<Metadata<'_>> = given.read("metadata", "an object whose `user_id` is a string")?;
    let user = metadata.and_then(|metadata| metadata.user_id).filter(|user| user.len() <= USER_BYTES_MAX);
    fields.extend(user.map(|user| ("user".to_owned(), json!(user).to_string().into())));
    Ok(())
}
