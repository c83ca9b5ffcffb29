//! The request body for `/api/chat`: OpenAI's fields in Ollama's words. Every field is written once, and only when something asks for it.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Config, options};
use crate::{
    backend::{Offered, Prompt},
    chat::Request,
    wire::text::Text,
};

/// What an upstream call says beside the client's own words.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The messages, a JSON array.
    pub(super) messages: Bytes,
    /// How long the context is to be.
    pub(super) num_ctx: Option<u32>,
    /// How much the model is to think.
    pub(super) think: Option<Think>,
}

/// Ollama's `think`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Think {
    /// The JSON value.
    pub(super) json: Bytes,
    /// Whether it is a level by OpenAI's name, which not every release takes for every model.
    pub(super) is_effort: bool,
}

/// The JSON body of one upstream call. It always streams.
pub(super) fn body(prompt: &Prompt, call: &Call, config: &Config) -> Bytes {
    let request = &prompt.request;
    let mut body = BytesMut::with_capacity(call.messages.len() + tools(prompt).map_or(0, Bytes::len) + 1024);
    body.put_slice(b"{");
    let mut put = |name: &str, value: &[u8]| field(&mut body, name, value);
    for name in ["model", "logprobs", "top_logprobs", "truncate", "shift"] {
        if let Some(value) = given(request, name) {
            put(name, value);
        }
    }
    put("messages", &call.messages);
    if let Some(tools) = tools(prompt) {
        put("tools", tools);
    }
    if let Some(format) = format(prompt) {
        put("format", &format);
    }
    if let Some(think) = &call.think {
        put("think", &think.json);
    }
    match (given(request, "keep_alive"), &config.keep_alive) {
        (Some(own), _) => put("keep_alive", own),
        (None, Some(configured)) => put("keep_alive", &keep_alive(configured)),
        (None, None) => {}
    }
    if let Some(options) = options::encode(prompt, call.num_ctx) {
        put("options", &options);
    }
    put("stream", b"true");
    body.put_slice(b"}");
    body.freeze()
}

/// How much the model is to think: Ollama's own field, OpenAI's, the one of chat templates, or as configured.
pub(super) fn think(request: &Request, config: &Config) -> Option<Think> {
    if let Some(own) = given(request, "think") {
        return Some(Think { json: own.clone(), is_effort: false });
    }
    let exactly = |json: &'static str| Some(Think { json: Bytes::from_static(json.as_bytes()), is_effort: false });
    let effort = given(request, "reasoning_effort").and_then(|raw| serde_json::from_slice::<Text<'_>>(raw).ok());
    if let Some(effort) = effort {
        let level = match effort.0.as_ref() {
            "none" => return exactly("false"),
            // Ollama has no words for the ends of OpenAI's scale.
            "minimal" => "low",
            "xhigh" => "high",
            level => level,
        };
        return Some(Think { json: to_json(level), is_effort: true });
    }
    let template = given(request, "chat_template_kwargs").and_then(|raw| serde_json::from_slice::<TemplateArguments>(raw).ok());
    match template.and_then(|arguments| arguments.enable_thinking) {
        Some(true) => exactly("true"),
        Some(false) => exactly("false"),
        None => config.think.as_deref().map(|think| Think {
            json: if matches!(think, "true" | "false") { Bytes::copy_from_slice(think.as_bytes()) } else { to_json(think) },
            is_effort: false,
        }),
    }
}

/// The tools that the model sees.
pub(super) fn tools(prompt: &Prompt) -> Option<&Bytes> {
    match &prompt.offered {
        Offered::AsRequested => given(&prompt.request, "tools"),
        Offered::Instead(tools) => Some(tools),
        Offered::Withheld => None,
    }
}

/// A field of the request that says something.
pub(super) fn given<'r>(request: &'r Request, name: &str) -> Option<&'r Bytes> {
    request.field(name).filter(|value| value.as_ref() != b"null")
}

#[derive(Debug, Deserialize)]
struct TemplateArguments {
    #[serde(default)]
    enable_thinking: Option<bool>,
}

/// OpenAI's `response_format`.
#[derive(Debug, Deserialize)]
struct ResponseFormat<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    json_schema: Option<JsonSchema<'a>>,
    /// llama-server's place for it.
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct JsonSchema<'a> {
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
}

/// The form that the reply is forced into: the one of this attempt, else OpenAI's, else Ollama's own field.
fn format(prompt: &Prompt) -> Option<Bytes> {
    if let Some(form) = &prompt.form {
        return Some(form.clone());
    }
    let Some(wanted) = given(&prompt.request, "response_format") else { return given(&prompt.request, "format").cloned() };
    let wanted: ResponseFormat<'_> = serde_json::from_slice(wanted).ok()?;
    let schema = wanted.json_schema.and_then(|named| named.schema).or(wanted.schema);
    match (wanted.kind.as_ref().map(|kind| kind.0.as_ref()), schema) {
        (Some("json_schema" | "json_object"), Some(schema)) => Some(Bytes::copy_from_slice(schema.get().as_bytes())),
        (Some("json_object"), None) => Some(Bytes::from_static(b"\"json\"")),
        _ => None,
    }
}

/// A duration such as `10m` is a string, a number of seconds is a number.
fn keep_alive(configured: &str) -> Bytes {
    if configured.parse::<i64>().is_ok() { Bytes::copy_from_slice(configured.as_bytes()) } else { to_json(configured) }
}

pub(super) fn field(body: &mut BytesMut, name: &str, value: &[u8]) {
    if body.len() > 1 {
        body.put_slice(b",");
    }
    put_json(body, name);
    body.put_slice(b":");
    body.put_slice(value);
}

pub(super) fn put_json(body: &mut BytesMut, value: &(impl serde::Serialize + ?Sized)) {
    // Strings and lists of strings always serialise.
    if serde_json::to_writer(body.writer(), value).is_err() {
        debug_assert!(false, "a JSON value did not serialise");
    }
}

fn to_json(text: &str) -> Bytes {
    let mut json = BytesMut::with_capacity(text.len() + 2);
    put_json(&mut json, text);
    json.freeze()
}

#[cfg(test)]
mod tests {
    use super::{
        super::options::tests::{prompt, request},
        *,
    };

    fn check(prompt: &Prompt, call: &Call, config: &Config, expected: &str) {
        assert_eq!(std::str::from_utf8(&body(prompt, call, config)).unwrap(), expected);
    }

    fn call() -> Call {
        Call { messages: Bytes::from_static(b"[]"), num_ctx: None, think: None }
    }

    #[test]
    fn says_only_what_somebody_asked_for() {
        let given = r#"{"model":"m\u00e9","messages":[1],"tools":null,"tool_choice":"required","parallel_tool_calls":false,"n":1,"user":"u","stream":false,"keep_alive":null}"#;
        check(&prompt(given), &call(), &Config::default(), r#"{"model":"m\u00e9","messages":[],"stream":true}"#);
    }

    #[test]
    fn keeps_what_ollama_has_a_word_for() {
        let given = r#"{"model":"m","tools":[ {"b":1} ],"logprobs":true,"top_logprobs":2,"truncate":false,"shift":false,"keep_alive":-1}"#;
        let configured = Config { keep_alive: Some("10m".into()), ..Config::default() };
        check(
            &prompt(given),
            &call(),
            &configured,
            r#"{"model":"m","logprobs":true,"top_logprobs":2,"truncate":false,"shift":false,"messages":[],"tools":[ {"b":1} ],"keep_alive":-1,"stream":true}"#,
        );
        check(&prompt("{}"), &call(), &configured, r#"{"messages":[],"keep_alive":"10m","stream":true}"#);
        let forever = Config { keep_alive: Some("-1".into()), ..Config::default() };
        check(&prompt("{}"), &call(), &forever, r#"{"messages":[],"keep_alive":-1,"stream":true}"#);
    }

    #[test]
    fn tools_are_those_of_the_attempt() {
        let instead = Prompt { offered: Offered::Instead(Bytes::from_static(b"[2]")), ..prompt(r#"{"tools":[1]}"#) };
        check(&instead, &call(), &Config::default(), r#"{"messages":[],"tools":[2],"stream":true}"#);
        let withheld = Prompt { offered: Offered::Withheld, ..prompt(r#"{"tools":[1]}"#) };
        check(&withheld, &call(), &Config::default(), r#"{"messages":[],"stream":true}"#);
    }

    #[test]
    fn the_form_comes_from_the_attempt_or_from_the_client() {
        let check = |given: &str, expected: Option<&str>| {
            let format = format(&prompt(given));
            assert_eq!(format.as_deref().map(|format| std::str::from_utf8(format).unwrap()), expected, "{given}");
        };
        check(r#"{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"x":1}}}}"#, Some(r#"{"x":1}"#));
        check(r#"{"response_format":{"type":"json_object"}}"#, Some("\"json\""));
        check(r#"{"response_format":{"type":"json_object","schema":{"x":1}}}"#, Some(r#"{"x":1}"#));
        check(r#"{"response_format":{"type":"text"},"format":"json"}"#, None);
        check(r#"{"response_format":null,"format":{"y":1}}"#, Some(r#"{"y":1}"#));
        check(r#"{"response_format":"json"}"#, None);
        check("{}", None);
        let given = prompt(r#"{"response_format":{"type":"json_object"}}"#);
        let forced = Prompt { form: Some(Bytes::from_static(b"{}")), ..given };
        assert_eq!(format(&forced).as_deref(), Some(b"{}".as_slice()));
    }

    #[test]
    fn thinking_is_asked_for_in_many_words() {
        let check = |given: &str, expected: Option<(&str, bool)>| {
            let config = Config::default();
            let think = think(&request(given), &config);
            let think = think.as_ref().map(|think| (std::str::from_utf8(&think.json).unwrap(), think.is_effort));
            assert_eq!(think, expected, "{given}");
        };
        check("{}", None);
        check(r#"{"think":"low","reasoning_effort":"high"}"#, Some(("\"low\"", false)));
        check(r#"{"think":false}"#, Some(("false", false)));
        check(r#"{"reasoning_effort":"none"}"#, Some(("false", false)));
        check(r#"{"reasoning_effort":"medium","chat_template_kwargs":{"enable_thinking":false}}"#, Some(("\"medium\"", true)));
        check(r#"{"reasoning_effort":"minimal"}"#, Some(("\"low\"", true)));
        check(r#"{"reasoning_effort":"xhigh"}"#, Some(("\"high\"", true)));
        check(r#"{"reasoning_effort":null,"chat_template_kwargs":{"enable_thinking":true,"x":1}}"#, Some(("true", false)));
        let configured = |think: &str| Config { think: Some(think.to_owned()), ..Config::default() };
        let json = |config: &Config| think(&request("{}"), config).unwrap().json;
        assert_eq!((&*json(&configured("false")), &*json(&configured("low"))), (b"false".as_slice(), b"\"low\"".as_slice()));
    }
}
