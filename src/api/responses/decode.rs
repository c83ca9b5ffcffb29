//! A request for a response, written as the fields of a chat completion.

use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{choice, echo, encode::About, items, object::Object, tools::Tools};
use crate::{
    api::openai::decode::not_an_object,
    chat::{Problem, Request},
    wire::{fields, text::Text},
};

/// Reads a request, and what its answer has to know of it. Fails with a `param` where one field is to blame.
pub(super) fn request(body: &Bytes) -> Result<(Request, About), Problem> {
    let given = fields::object(body).map_err(|error| not_an_object(body, &error))?;
    refuse_what_needs_a_store(&given)?;
    let mut request = Request { include_usage: true, ..Request::default() };
    let model = field(&given, "model");
    // Of any other type, it is for the backend to complain.
    request.model = model.and_then(|model| serde_json::from_str(model).ok()).unwrap_or_default();
    request.stream = optional(&given, "stream", "a boolean")?.unwrap_or(false);
    request.dry_run = optional(&given, "dry_run", "a boolean")?.unwrap_or(false);
    request.parallel_tool_calls = optional(&given, "parallel_tool_calls", "a boolean")?.unwrap_or(true);
    let tools = Tools::read(&lists_of_tools(&given))?;
    let mut written = Fields(Vec::with_capacity(given.len() + 4));
    written.add_some("model", model);
    request.messages = written.add("messages", messages(&given, &tools)?);
    offer(&mut request, &given, &tools, &mut written)?;
    for (name, value) in &given {
        written.translate(name, value)?;
    }
    let about = About {
        model: request.model.clone(),
        summary: asks_for_a_summary(&given),
        echo: echo::fields(&given, &tools),
        tools,
        explain: false,
    };
    request.fields = written.0;
    Ok((request, about))
}

/// The value of a field, `None` where it is absent or null.
pub(super) fn field<'a>(fields: &'a [(String, Bytes)], name: &str) -> Option<&'a str> {
    raw(fields, name).and_then(|value| std::str::from_utf8(value).ok())
}

fn raw<'a>(fields: &'a [(String, Bytes)], name: &str) -> Option<&'a Bytes> {
    fields.iter().rfind(|(known, _)| known == name).map(|(_, value)| value).filter(|value| value.as_ref() != b"null")
}

fn optional<T: DeserializeOwned>(fields: &[(String, Bytes)], name: &str, expected: &str) -> Result<Option<T>, Problem> {
    let wrong = |_| Problem::invalid(name, format!("`{name}` must be {expected}."));
    field(fields, name).map(serde_json::from_str).transpose().map_err(wrong)
}

/// Nothing is stored between requests, so each must say everything itself.
fn refuse_what_needs_a_store(given: &[(String, Bytes)]) -> Result<(), Problem> {
    let stored = ["previous_response_id", "conversation", "prompt"].into_iter().find(|name| field(given, name).is_some());
    if let Some(name) = stored {
        let message = format!("`{name}` is not supported: nothing is stored here. Send all items in `input`.");
        return Err(Problem::invalid(name, message).with_code("unsupported_parameter"));
    }
    if optional(given, "background", "a boolean")?.unwrap_or(false) {
        let message = "`background` is not supported: nothing is stored here that could be fetched later.";
        return Err(Problem::invalid("background", message).with_code("unsupported_parameter"));
    }
    Ok(())
}

fn messages(given: &[(String, Bytes)], tools: &Tools) -> Result<String, Problem> {
    let instructions = field(given, "instructions");
    if instructions.is_some_and(|instructions| !instructions.starts_with('"')) {
        return Err(Problem::invalid("instructions", "`instructions` must be a text."));
    }
    let input = optional::<Box<RawValue>>(given, "input", "a text or a list of items")?;
    let input = input.ok_or_else(|| Problem::invalid("input", "`input` is missing.").with_code("missing_required_parameter"))?;
    items::messages(instructions, &input, tools)
}

/// The request's tools, and those that come later in its input, each list with its place.
fn lists_of_tools(given: &[(String, Bytes)]) -> Vec<(String, Bytes)> {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, rename = "type", default)]
        kind: Option<Text<'a>>,
        #[serde(borrow, default)]
        tools: Option<&'a RawValue>,
    }
    let own = raw(given, "tools").cloned().unwrap_or_else(|| Bytes::from_static(b"[]"));
    let mut lists = vec![("tools".to_owned(), own)];
    // Few clients send such items, so the input is seldom read twice.
    let Some(input) = raw(given, "input").filter(|input| memchr::memmem::find(input, ADDITIONAL_TOOLS.as_bytes()).is_some()) else {
        return lists;
    };
    let items: Vec<&RawValue> = serde_json::from_slice(input).unwrap_or_default();
    for (index, raw) in items.into_iter().enumerate() {
        let Ok(item) = serde_json::from_str::<Item<'_>>(raw.get()) else { continue };
        let tools = item.tools.filter(|_| item.kind.is_some_and(|kind| kind.0 == ADDITIONAL_TOOLS));
        lists.extend(tools.map(|tools| (format!("input[{index}].tools"), fields::slice(input, tools))));
    }
    lists
}

/// The type of an item that offers more tools.
const ADDITIONAL_TOOLS: &str = "additional_tools";

/// The tools that the model may call, and which of them it shall call.
fn offer(request: &mut Request, given: &[(String, Bytes)], tools: &Tools, written: &mut Fields) -> Result<(), Problem> {
    let choice = field(given, "tool_choice").map_or_else(|| Ok(choice::Choice::default()), |value| choice::read(value, tools))?;
    let is_allowed = |name: &String| choice.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
    let Some((json, offered)) = tools.offer(|tool| is_allowed(&tool.seen.name)) else {
        return if choice.wanted == choice::Wanted::Required {
            Err(Problem::invalid("tool_choice", "`tool_choice` is `required`, but there are no tools that can be called here."))
        } else {
            Ok(())
        };
    };
    let (wanted, tool_choice) = choice.wanted.in_chat();
    request.tools_json = written.add("tools", json);
    request.tools = offered;
    request.tool_choice = tool_choice;
    if field(given, "tool_choice").is_some() {
        written.add("tool_choice", wanted);
    }
    written.add_some("parallel_tool_calls", field(given, "parallel_tool_calls"));
    Ok(())
}

/// Whether the client wants to read reasoning as a summary, where OpenAI's own models have it.
fn asks_for_a_summary(given: &[(String, Bytes)]) -> bool {
    let reasoning = field(given, "reasoning").and_then(|value| serde_json::from_str::<Reasoning<'_>>(value).ok());
    reasoning.is_some_and(|reasoning| reasoning.summary.or(reasoning.generate_summary).is_some())
}

#[derive(Deserialize)]
struct Reasoning<'a> {
    #[serde(borrow, default)]
    effort: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    generate_summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextOptions<'a> {
    #[serde(borrow, default)]
    format: Option<Format<'a>>,
    #[serde(borrow, default)]
    verbosity: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Format<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a RawValue,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    strict: Option<&'a RawValue>,
}

/// The fields of a chat completion, as they are written.
struct Fields(Vec<(String, Bytes)>);

impl Fields {
    fn add(&mut self, name: &str, json: impl Into<Bytes>) -> Bytes {
        let json = json.into();
        self.0.push((name.to_owned(), json.clone()));
        json
    }

    fn add_some(&mut self, name: &str, json: Option<&str>) {
        if let Some(json) = json {
            self.add(name, json.to_owned());
        }
    }

    /// Adds what a field says about the answer. What only a vendor's service acts on is left out; what is unknown goes up as it is.
    fn translate(&mut self, name: &str, value: &Bytes) -> Result<(), Problem> {
        let text = || std::str::from_utf8(value).unwrap_or_default();
        match name {
            _ if value.as_ref() == b"null" || ELSEWHERE.contains(&name) => {}
            // The older name is the one that every server reads.
            "max_output_tokens" => drop(self.add("max_tokens", value.clone())),
            "top_logprobs" => {
                if text() != "0" {
                    self.add("logprobs", "true");
                    self.add(name, value.clone());
                }
            }
            "reasoning" => {
                let wrong = |_| Problem::invalid(name, "`reasoning` must be an object.");
                let reasoning: Reasoning<'_> = serde_json::from_str(text()).map_err(wrong)?;
                self.add_some("reasoning_effort", reasoning.effort.map(RawValue::get));
            }
            "text" => {
                let wrong = |_| Problem::invalid(name, "`text` must be an object whose `format` has a `type`.");
                let options: TextOptions<'_> = serde_json::from_str(text()).map_err(wrong)?;
                self.add_some("response_format", options.format.and_then(|format| format.in_chat()).as_deref());
                self.add_some("verbosity", options.verbosity.map(RawValue::get));
            }
            "include" => {
                if text().contains("\"message.output_text.logprobs\"") {
                    self.add("logprobs", "true");
                }
            }
            _ => drop(self.add(name, value.clone())),
        }
        Ok(())
    }
}

impl Format<'_> {
    /// A chat completion's `response_format`; `None` for plain text.
    fn in_chat(&self) -> Option<String> {
        let kind = self.kind.get();
        match kind {
            "\"text\"" => None,
            "\"json_schema\"" => {
                let raw = |raw: Option<&'_ RawValue>| raw.map(|raw| raw.get().to_owned());
                let schema = Object::default().with_some("name", raw(self.name).as_deref());
                let schema = schema.with_some("description", raw(self.description).as_deref());
                let schema = schema.with_some("schema", raw(self.schema).as_deref()).with_some("strict", raw(self.strict).as_deref());
                Some(Object::default().with("type", kind).with("json_schema", &schema.json()).json())
            }
            kind => Some(Object::default().with("type", kind).json()),
        }
    }
}

/// Fields that are read elsewhere, or that say something to a vendor's service only.
const ELSEWHERE: [&str; 22] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "store",
    "background",
    "previous_response_id",
    "conversation",
    "prompt",
    "truncation",
    "metadata",
    "client_metadata",
    "max_tool_calls",
    "context_management",
    "moderation",
    "access_programs",
    "service_tier",
    "dry_run",
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chat::ToolChoice;

    fn read(body: &str) -> Result<Request, Problem> {
        request(&Bytes::copy_from_slice(body.as_bytes())).map(|(request, _)| request)
    }

    /// The fields of the chat completion, without the messages.
    fn written(body: &Value) -> String {
        let fields = read(&body.to_string()).unwrap().fields;
        let fields = fields.iter().filter(|(name, _)| name != "messages");
        fields.map(|(name, value)| format!("{name}={} ", std::str::from_utf8(value).unwrap())).collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn fields_are_said_in_the_words_of_a_chat_completion() {
        let check = |more: Value, expected: &str| {
            let mut body = json!({"input": "hi"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(written(&body), expected, "{body}");
        };
        check(json!({"model": "m"}), r#"model="m""#);
        check(json!({"max_output_tokens": 16}), "max_tokens=16");
        check(json!({"temperature": 0.5, "seed": 7, "top_k": 3}), "temperature=0.5 seed=7 top_k=3");
        check(json!({"temperature": null, "store": true, "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}}), "");
        check(json!({"reasoning": {"effort": "low", "summary": "auto"}}), r#"reasoning_effort="low""#);
        check(json!({"reasoning": {"effort": null}}), "");
        check(json!({"text": {"format": {"type": "text"}}}), "");
        check(json!({"text": {"verbosity": "low"}}), r#"verbosity="low""#);
        check(json!({"text": {"format": {"type": "json_object"}}}), r#"response_format={"type":"json_object"}"#);
        check(
            json!({"text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"x": 1}}}}),
            r#"response_format={"type":"json_schema","json_schema":{"name":"n","schema":{"x":1},"strict":true}}"#,
        );
        check(json!({"top_logprobs": 2}), "logprobs=true top_logprobs=2");
        check(json!({"top_logprobs": 0}), "");
        check(json!({"include": ["message.output_text.logprobs"]}), "logprobs=true");
        check(json!({"tools": [{"type": "web_search"}], "tool_choice": "auto", "parallel_tool_calls": false}), "");
        check(
            json!({"tools": [{"name": "f"}], "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false}),
            r#"tools=[{"type":"function","function":{"name":"f"}}] tool_choice={"type":"function","function":{"name":"f"}} parallel_tool_calls=false"#,
        );
    }

    #[test]
    fn what_toolgate_acts_on_is_read() {
        let request = read(r#"{"model":"m","input":[],"stream":true,"parallel_tool_calls":false,"tools":[{"name":"f","parameters":{ }}],"tool_choice":"required"}"#).unwrap();
        assert_eq!((request.model.as_str(), request.stream, request.parallel_tool_calls), ("m", true, false));
        assert_eq!((request.tool_choice, request.messages), (ToolChoice::Required, Bytes::from_static(b"[]")));
        assert_eq!((request.tools[0].name.as_str(), &request.tools[0].parameters[..]), ("f", &b"{ }"[..]));
        assert_eq!(request.fields.iter().find(|(name, _)| name == "tools").unwrap().1, request.tools_json);
    }

    #[test]
    fn tools_in_the_input_are_offered_too() {
        let item = json!({"type": "additional_tools", "role": "developer", "tools": [{"type": "namespace", "name": "n", "tools": [{"name": "g", "parameters": {}}]}]});
        let body = json!({"input": [item, {"role": "user", "content": "hi"}], "tools": [{"name": "f"}]});
        let request = read(&body.to_string()).unwrap();
        let tools: Vec<_> = request.tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters[..])).collect();
        assert_eq!(tools, [("f", &b""[..]), ("g", b"{}")]);
        assert_eq!(request.messages, r#"[{"role":"user","content":"hi"}]"#);
        let problem = read(r#"{"input":[{"type":"additional_tools","tools":[{"type":"function"}]}]}"#).unwrap_err();
        assert_eq!(problem.param.as_deref(), Some("input[0].tools[0].name"));
    }

    #[test]
    fn only_allowed_tools_are_offered() {
        let body = json!({
            "input": "hi",
            "tools": [{"name": "f"}, {"name": "g"}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]},
        });
        let request = read(&body.to_string()).unwrap();
        assert_eq!((request.tools.len(), request.tools[0].name.as_str(), request.tool_choice), (1, "g", ToolChoice::Auto));
    }

    #[test]
    fn faults_are_named() {
        let check = |body: &str, param: Option<&str>, part: &str| {
            let problem = read(body).unwrap_err();
            assert_eq!(problem.param.as_deref(), param, "{body}");
            assert!(problem.message.contains(part), "{body}: {}", problem.message);
        };
        check("", None, "empty");
        check("[]", None, "must be a JSON object");
        check("{", None, "not valid JSON");
        check("{}", Some("input"), "missing");
        check(r#"{"input":null}"#, Some("input"), "missing");
        check(r#"{"input":3}"#, Some("input"), "text or a list");
        check(r#"{"input":"x","instructions":[]}"#, Some("instructions"), "text");
        check(r#"{"input":"x","previous_response_id":"resp_1"}"#, Some("previous_response_id"), "nothing is stored");
        check(r#"{"input":"x","conversation":{"id":"c"}}"#, Some("conversation"), "nothing is stored");
        check(r#"{"input":"x","prompt":{"id":"p"}}"#, Some("prompt"), "nothing is stored");
        check(r#"{"input":"x","background":true}"#, Some("background"), "nothing is stored");
        check(r#"{"input":"x","stream":"yes"}"#, Some("stream"), "boolean");
        check(r#"{"input":"x","tools":3}"#, Some("tools"), "list");
        check(r#"{"input":"x","tool_choice":"required"}"#, Some("tool_choice"), "no tools");
        check(r#"{"input":"x","tools":[{"type":"web_search"}],"tool_choice":"required"}"#, Some("tool_choice"), "no tools");
        check(r#"{"input":"x","tools":[{"name":"f"}],"tool_choice":{"type":"function","name":"g"}}"#, Some("tool_choice"), "`g`");
        check(r#"{"input":"x","reasoning":3}"#, Some("reasoning"), "object");
        check(r#"{"input":"x","text":{"format":{}}}"#, Some("text"), "type");
    }
}
