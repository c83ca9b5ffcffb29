//! A request body read: what toolgate acts on is checked here, once, with an error that names the field.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    chat::{
        Problem, Request, Tool, ToolChoice,
        problem::{Kind, repeated},
    },
    wire::fields,
};

/// Reads a chat completion request. Fails with a `param` where one field is to blame. What is no part of the body,
/// `query` and `credential`, is left for the caller to add.
pub(super) fn request(body: &Bytes) -> Result<Request, Problem> {
    let fields = fields::object(body).map_err(|error| not_an_object(body, &error))?;
    check_repeated(&fields)?;
    let mut request = Request::default();
    let mut tool_choice = Bytes::new();
    for (name, value) in &fields {
        match name.as_str() {
            // Of any other type, it is for the backend to complain.
            "model" => request.model = serde_json::from_slice(value).unwrap_or_default(),
            "messages" => request.messages = value.clone(),
            "tools" => request.tools_json = value.clone(),
            "tool_choice" => tool_choice = value.clone(),
            "parallel_tool_calls" => request.parallel_tool_calls = flag(name, value, true)?,
            "stream" => request.stream = flag(name, value, false)?,
            "stream_options" => request.include_usage = include_usage(value)?,
            "dry_run" => request.dry_run = flag(name, value, false)?,
            "n" => request.choices = optional(name, value, "a positive integer")?.unwrap_or(1),
            _ => {}
        }
    }
    check_messages(&request.messages)?;
    (request.tools, request.other_tools) = tools(&request.tools_json)?;
    request.tool_choice = choice(&tool_choice)?;
    request.fields = fields;
    // toolgate's own; servers that are strict would refuse it.
    request.fields.retain(|(name, _)| name != "dry_run");
    Ok(request)
}

/// The fields that say which model is asked and for how much.
const ONCE: [&str; 6] = ["model", "n", "best_of", "max_tokens", "max_completion_tokens", "n_predict"];

/// Fails where one of them is repeated: the backend may read another than was checked and counted.
fn check_repeated(fields: &[(String, Bytes)]) -> Result<(), Problem> {
    let repeats = |name: &&str| fields.iter().filter(|(known, _)| known == name).count() > 1;
    ONCE.into_iter().find(repeats).map_or(Ok(()), |name| Err(repeated(name)))
}

/// Why `body` is no JSON object.
pub(in crate::api) fn not_an_object(body: &[u8], error: &serde_json::Error) -> Problem {
    let begins_otherwise = body.trim_ascii_start().first().is_some_and(|byte| *byte != b'{');
    let message = if begins_otherwise && serde_json::from_slice::<&RawValue>(body).is_ok() {
        "The request body must be a JSON object.".to_owned()
    } else if body.trim_ascii().is_empty() {
        "The request body is empty; a JSON object is expected.".to_owned()
    } else {
        format!("The request body is not valid JSON: {error}.")
    };
    Problem::new(Kind::Invalid, message).with_code("invalid_json")
}

/// `value` as a `T`, `None` for null.
fn optional<'a, T: Deserialize<'a>>(name: &str, value: &'a [u8], expected: &str) -> Result<Option<T>, Problem> {
    serde_json::from_slice(value).map_err(|_| Problem::invalid(name, format!("`{name}` must be {expected}.")))
}

fn flag(name: &str, value: &[u8], absent: bool) -> Result<bool, Problem> {
    Ok(optional(name, value, "a boolean")?.unwrap_or(absent))
}

fn include_usage(value: &[u8]) -> Result<bool, Problem> {
    #[derive(Deserialize)]
    struct Options {
        #[serde(default)]
        include_usage: Option<bool>,
    }
    let options: Option<Options> = optional("stream_options", value, "an object whose `include_usage` is a boolean")?;
    Ok(options.and_then(|options| options.include_usage).unwrap_or(false))
}

fn check_messages(messages: &[u8]) -> Result<(), Problem> {
    if messages.is_empty() {
        return Err(Problem::invalid("messages", "`messages` is missing.").with_code("missing_required_parameter"));
    }
    if messages.first() != Some(&b'[') {
        return Err(Problem::invalid("messages", "`messages` must be a list of messages."));
    }
    Ok(())
}

#[derive(Deserialize)]
struct WireTool<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
    /// Of a custom tool, which may be of any form: it is for the backend to complain.
    #[serde(borrow, default)]
    custom: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
}

impl WireTool<'_> {
    /// The name of a tool that is no function, if it has one.
    fn other_name(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let custom = self.custom.and_then(|custom| serde_json::from_str(custom.get()).ok()).map(|named: Named| named.name);
        let name = custom.or_else(|| self.name.and_then(|name| serde_json::from_str(name.get()).ok()));
        name.filter(|name| !name.is_empty())
    }
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

/// The function tools in `list`, and those of other types that have a name. The latter are the backend's business and stay in the raw list.
fn tools(list: &Bytes) -> Result<(Vec<Tool>, Vec<Tool>), Problem> {
    let wrong = || Problem::invalid("tools", "`tools` must be a list of tools.");
    let list = if list.is_empty() { &Bytes::from_static(b"null") } else { list };
    let Some(elements) = serde_json::from_slice::<Option<Vec<&RawValue>>>(list).map_err(|_| wrong())? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let (mut tools, mut others) = (Vec::with_capacity(elements.len()), Vec::new());
    for (index, raw) in elements.into_iter().enumerate() {
        let param = || format!("tools[{index}]");
        let tool: WireTool<'_> =
            serde_json::from_str(raw.get()).map_err(|_| Problem::invalid(param(), format!("`tools[{index}]` is not a tool object.")))?;
        if tool.kind.as_ref().is_some_and(|kind| kind != "function") {
            others.extend(tool.other_name().map(|name| Tool { name, parameters: Bytes::new() }));
            continue;
        }
        let nameless = || {
            let param = format!("tools[{index}].function.name");
            Problem::invalid(param.clone(), format!("`{param}` is missing."))
        };
        let function = tool.function.ok_or_else(nameless)?;
        let name = function.name.filter(|name| !name.is_empty()).ok_or_else(nameless)?.into_owned();
        let parameters = function.parameters.map(|raw| fields::slice(list, raw)).unwrap_or_default();
        tools.push(Tool { name, parameters });
    }
    Ok((tools, others))
}

#[derive(Deserialize)]
struct WireChoice<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

fn choice(value: &[u8]) -> Result<ToolChoice, Problem> {
    let wrong = |message: String| Problem::invalid("tool_choice", message);
    match value {
        b"" | b"null" | b"\"auto\"" => Ok(ToolChoice::Auto),
        b"\"none\"" => Ok(ToolChoice::None),
        b"\"required\"" => Ok(ToolChoice::Required),
        [b'{', ..] => {
            let choice: WireChoice<'_> =
                serde_json::from_slice(value).map_err(|_| wrong("`tool_choice` is not a tool choice object.".to_owned()))?;
            let Some(name) = choice.function.and_then(|function| function.name) else { return Ok(ToolChoice::Other) };
            Ok(ToolChoice::Named(name.into_owned()))
        }
        _ => Err(wrong("`tool_choice` must be `none`, `auto`, `required` or an object naming a function.".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request, Problem> {
        request(&Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn faults_are_named() {
        let check = |body: &str, param: Option<&str>, part: &str| {
            let problem = read(body).unwrap_err();
            assert_eq!(problem.param.as_deref(), param, "{body}");
            assert!(problem.message.contains(part), "{body}: {}", problem.message);
        };
        check("", None, "empty");
        check("{", None, "not valid JSON");
        check("[]", None, "must be a JSON object");
        check("3", None, "must be a JSON object");
        check("{\"a\":1}x", None, "not valid JSON");
        check("{}", Some("messages"), "missing");
        check(r#"{"messages":null}"#, Some("messages"), "must be a list");
        check(r#"{"messages":{}}"#, Some("messages"), "must be a list");
        check(r#"{"messages":[],"tools":3}"#, Some("tools"), "must be a list");
        check(r#"{"messages":[],"tools":[3]}"#, Some("tools[0]"), "not a tool object");
        check(r#"{"messages":[],"tools":[{"type":"function","function":{}}]}"#, Some("tools[0].function.name"), "missing");
        check(r#"{"messages":[],"stream":"yes"}"#, Some("stream"), "boolean");
        check(r#"{"messages":[],"stream_options":3}"#, Some("stream_options"), "include_usage");
        check(r#"{"messages":[],"n":"two"}"#, Some("n"), "integer");
        check(r#"{"messages":[],"max_tokens":16,"max_tokens":1000000}"#, Some("max_tokens"), "more than once");
        check(r#"{"messages":[],"model":"a","model":"b"}"#, Some("model"), "more than once");
        check(r#"{"messages":[],"tool_choice":"maybe"}"#, Some("tool_choice"), "must be");
        let unmet = |body: &str| read(body).unwrap().check_choice().unwrap_err().message;
        assert!(unmet(r#"{"messages":[],"tool_choice":"required"}"#).contains("no tools"));
        assert!(unmet(r#"{"messages":[],"tool_choice":{"type":"function","function":{"name":"g"}}}"#).contains("`g`"));
    }

    #[test]
    fn null_means_absent() {
        let request = read(
            r#"{"messages":[],"tools":null,"tool_choice":null,"stream":null,"stream_options":null,"parallel_tool_calls":null,"n":null}"#,
        )
        .unwrap();
        assert!(request.tools.is_empty() && !request.stream && request.parallel_tool_calls);
        assert_eq!((request.tool_choice, request.choices), (ToolChoice::Auto, 1));
        assert!(read(r#"{"messages":[],"tools":[]}"#).unwrap().tools.is_empty());
    }

    #[test]
    fn tools_of_other_types_keep_their_names() {
        let read = |list: &str| read(&format!(r#"{{"messages":[],"tools":{list}}}"#)).unwrap();
        let names = |tools: &[Tool]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
        let request = read(
            r#"[{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"f"}},{"type":"x","name":"n"},{"type":"y"},{"type":"custom","custom":3,"name":4}]"#,
        );
        assert_eq!((names(&request.tools), names(&request.other_tools)), (vec!["f".to_owned()], vec!["c".to_owned(), "n".to_owned()]));
        assert_eq!(names(&request.named_tools()), ["f", "c", "n"]);
        assert_eq!(names(&read(r#"[{"function":{"name":"f"}}]"#).named_tools()), ["f"]);
    }

    #[test]
    fn tools_keep_their_schema_as_written() {
        let request = read(
            r#"{"messages":[],"tools":[{"type":"web_search"},{"type":"function","function":{"name":"f","parameters":{ "b":1 }}},{"function":{"name":"g","parameters":null}}],"tool_choice":{"type":"function","function":{"name":"g"}}}"#,
        )
        .unwrap();
        let names: Vec<_> = request.tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters[..])).collect();
        assert_eq!(names, [("f", &b"{ \"b\":1 }"[..]), ("g", b"")]);
        assert_eq!(request.tool_choice, ToolChoice::Named("g".to_owned()));
    }
}
