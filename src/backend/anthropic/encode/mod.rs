//! The request body for the server: the client's fields as far as the API has a word for them. The others are left out.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Config, form,
    refuse::invalid,
    thinking::{self, Plan, Wish},
    tools::{self, Force},
    transcript::Transcript,
};
use crate::{
    backend::{Error, Prompt},
    wire::anthropic::request::{CacheControl, Format, Metadata, OutputConfig, Request},
};

/// The JSON body of one upstream call. It always streams. Fails when the request asks what cannot be asked of the API.
pub(super) fn body(prompt: &Prompt, config: &Config) -> Result<Bytes, Error> {
    let request = &prompt.request;
    if request.choices != 1 {
        return Err(invalid("n", "The backend gives one reply to a request."));
    }
    let mut transcript = Transcript::of(&request.messages, &prompt.corrections)?;
    let field = |name| field(prompt, name);
    let limit = |name| field(name).and_then(number::<u64>).filter(|limit| *limit > 0);
    let wish = Wish {
        effort: field("reasoning_effort"),
        thinking: field("thinking"),
        budget: field("thinking_budget_tokens").and_then(number),
        limit: limit("max_completion_tokens").or_else(|| limit("max_tokens")),
    };
    let plan = thinking::plan(wish, transcript.lets_think(), config);
    let format = format(prompt, config)?;
    let force = match (&prompt.form, &format) {
        _ if plan.thinks() => Force::Never,
        (None, _) => Force::AsRequested,
        (Some(_), None) => Force::OneCall,
        // The form is in the text.
        (Some(_), Some(_)) => Force::Never,
    };
    let mut tools = tools::tools(prompt, &transcript, force)?;
    if config.cache {
        transcript.mark();
        tools.list.last_mut().into_iter().for_each(|tool| tool.cache_control = Some(CacheControl::EPHEMERAL));
    }
    let sampling = sampling(prompt, config, &plan);
    let config = (format.is_some() || plan.effort.is_some()).then_some(OutputConfig { effort: plan.effort, format });
    let body = Request {
        model: &request.model,
        max_tokens: plan.max_tokens,
        system: transcript.system,
        messages: transcript.messages,
        tools: tools.list,
        tool_choice: tools.choice,
        thinking: plan.thinking,
        output_config: config,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        stop_sequences: stop(field("stop")),
        metadata: field("user").and_then(|user| serde_json::from_slice(user).ok()).map(|user_id| Metadata { user_id }),
        stream: true,
    };
    serde_json::to_vec(&body).map(Bytes::from).map_err(|_| Error::Protocol("the request cannot be written"))
}

/// A top-level field as JSON, or what an attempt puts in its place. `null` is none.
fn field<'p>(prompt: &'p Prompt, name: &str) -> Option<&'p [u8]> {
    let instead = prompt.sampling.iter().find(|(replaced, _)| *replaced == name).map(|(_, value)| value);
    let value = instead.or_else(|| prompt.request.field(name))?;
    Some(value.as_ref()).filter(|value| *value != b"null")
}

fn number<'p, T: Deserialize<'p>>(json: &'p [u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

/// The form of the reply's text: the one that is forced, if the server can, else the client's.
fn format<'p>(prompt: &'p Prompt, config: &Config) -> Result<Option<Format<'p>>, Error> {
    #[derive(Deserialize)]
    struct ResponseFormat<'a> {
        #[serde(borrow, default)]
        json_schema: Option<JsonSchema<'a>>,
    }
    #[derive(Deserialize)]
    struct JsonSchema<'a> {
        #[serde(borrow, default)]
        schema: Option<&'a RawValue>,
    }
    if let Some(schema) = prompt.form.as_ref().filter(|_| config.output_format) {
        let closed = serde_json::from_slice(schema).ok().and_then(|schema| form::closed(&schema));
        let raw = closed.and_then(|schema| serde_json::value::to_raw_value(&schema).ok());
        return Ok(raw.map(|schema| Format::JsonSchema { schema: Cow::Owned(schema) }));
    }
    let Some(json) = field(prompt, "response_format").filter(|_| prompt.form.is_none()) else { return Ok(None) };
    let given: ResponseFormat<'_> =
        serde_json::from_slice(json).map_err(|error| invalid("response_format", format!("The form cannot be read: {error}.")))?;
    let schema = given.json_schema.and_then(|form| form.schema);
    Ok(schema.map(|schema| Format::JsonSchema { schema: Cow::Borrowed(schema) }))
}

/// How tokens are chosen.
#[derive(Default)]
struct Sampling {
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<u64>,
}

/// The client's wishes within what the API takes: a temperature of 1 at most, not beside `top_p`, and none beside thinking.
fn sampling(prompt: &Prompt, config: &Config, plan: &Plan<'_>) -> Sampling {
    if plan.thinks() || !config.sampling {
        return Sampling::default();
    }
    let temperature = field(prompt, "temperature").and_then(number::<f64>).map(|temperature| temperature.clamp(0.0, 1.0));
    let top_p = field(prompt, "top_p").and_then(number::<f64>).filter(|_| temperature.is_none());
    Sampling { temperature, top_p, top_k: field(prompt, "top_k").and_then(number::<u64>).filter(|top_k| *top_k > 0) }
}

fn stop(json: Option<&[u8]>) -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stop {
        One(String),
        Several(Vec<String>),
    }
    let given = match json.and_then(|json| serde_json::from_slice(json).ok()) {
        None => Vec::new(),
        Some(Stop::One(text)) => vec![text],
        Some(Stop::Several(texts)) => texts,
    };
    given.into_iter().filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests;
