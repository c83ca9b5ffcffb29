//! A request body read: Anthropic's fields become OpenAI's. An error names the field as Anthropic does: `messages.0.content`.

use std::borrow::Cow;

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

/// Reads a request for a message, and whether its reasoning is to be shown.
pub(super) fn request(body: &Bytes) -> Result<(Request, bool), Problem> {
    let given = fields::object(body).map_err(|error| not_an_object(body, &error))?;
    let given = Given(given);
    let model: Option<Cow<'_, str>> = given.read("model", "a string")?;
    let tools = tools::read(given.raw("tools"))?;
    let choice = tools::choice(given.raw("tool_choice"), &tools)?;
    let mut fields = vec![
        ("model".to_owned(), Bytes::from(json!(model.as_deref().unwrap_or_default()).to_string())),
        ("messages".to_owned(), messages::read(given.raw("system"), given.raw("messages"))?),
    ];
    if model.is_none() {
        fields.remove(0);
    }
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
        messages: fields.iter().find(|(name, _)| name == "messages").map(|(_, value)| value.clone()).unwrap_or_default(),
        tools_json: tools.json,
        tools: tools.list,
        tool_choice: choice.wanted,
        parallel_tool_calls: choice.parallel,
        stream: given.read("stream", "a boolean")?.unwrap_or(false),
        include_usage: true,
        model: model.map(Cow::into_owned).unwrap_or_default(),
        fields,
        ..Request::default()
    };
    Ok((request, thinking.is_some_and(|thinking| thinking.is_shown())))
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
    /// Whether it was asked for, `None` where the model is to decide.
    fn is_wanted(&self) -> Option<bool> {
        match self.kind.as_ref() {
            "enabled" => Some(true),
            "disabled" => Some(false),
            _ => None,
        }
    }

    /// Whoever did not ask for it takes the first block of an answer for its text.
    fn is_shown(&self) -> bool {
        self.is_wanted() != Some(false) && self.display.as_deref() != Some("omitted")
    }
}

#[derive(Deserialize)]
struct OutputConfig<'a> {
    #[serde(borrow, default)]
    effort: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    format: Option<&'a RawValue>,
}

/// In the words of local servers: the template's switch, which most reasoning models have, and llama-server's budget.
fn reasoning(given: &Given, thinking: Option<&Thinking<'_>>, fields: &mut Vec<(String, Bytes)>) -> Result<(), Problem> {
    let switch = thinking.and_then(Thinking::is_wanted);
    if let Some(switch) = switch.filter(|_| given.raw("chat_template_kwargs").is_none()) {
        fields.push(("chat_template_kwargs".to_owned(), json!({"enable_thinking": switch}).to_string().into()));
    }
    if let Some(budget) = thinking.and_then(|thinking| thinking.budget_tokens).filter(|_| switch == Some(true)) {
        fields.push(("thinking_budget_tokens".to_owned(), budget.to_string().into()));
    }
    let config: Option<OutputConfig<'_>> = given.read("output_config", "an object")?;
    let effort = config.and_then(|config| config.effort).map(|effort| match effort.as_ref() {
        // Above "high" there is nothing that all servers know.
        "xhigh" | "max" => Cow::Borrowed("high"),
        _ => effort,
    });
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::chat::ToolChoice;

    fn read(body: &Value) -> Result<(Request, bool), Problem> {
        request(&Bytes::from(body.to_string()))
    }

    fn with(more: Value) -> Value {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        let Value::Object(more) = more else { panic!("fields are an object") };
        body.as_object_mut().unwrap().extend(more);
        body
    }

    #[test]
    fn faults_are_named() {
        let check = |body: Value, param: &str, part: &str| {
            let problem = read(&body).unwrap_err();
            assert_eq!(problem.param.as_deref(), Some(param), "{body}");
            assert!(problem.message.contains(param) && problem.message.contains(part), "{body}: {}", problem.message);
        };
        check(json!({}), "messages", "missing");
        check(with(json!({"messages": null})), "messages", "missing");
        check(with(json!({"messages": {}})), "messages", "list");
        check(with(json!({"messages": []})), "messages", "empty");
        check(with(json!({"messages": [3]})), "messages.0", "object");
        check(with(json!({"messages": [{"content": "x"}]})), "messages.0.role", "missing");
        check(with(json!({"messages": [{"role": "tool", "content": "x"}]})), "messages.0.role", "assistant");
        check(with(json!({"messages": [{"role": "user"}]})), "messages.0.content", "missing");
        check(with(json!({"messages": [{"role": "user", "content": 3}]})), "messages.0.content", "list of content blocks");
        check(with(json!({"system": 3})), "system", "list");
        check(with(json!({"model": 3})), "model", "string");
        check(with(json!({"max_tokens": 0})), "max_tokens", "positive");
        check(with(json!({"max_tokens": "many"})), "max_tokens", "integer");
        check(with(json!({"stop_sequences": "x"})), "stop_sequences", "list");
        check(with(json!({"temperature": "hot"})), "temperature", "number");
        check(with(json!({"stream": 1})), "stream", "boolean");
        check(with(json!({"thinking": true})), "thinking", "object");
        check(with(json!({"metadata": {"user_id": 3}})), "metadata", "string");
        check(with(json!({"output_config": {"format": {"type": "xml"}}})), "output_config.format.type", "json_schema");
        check(with(json!({"output_format": {"type": "json_schema"}})), "output_format.schema", "schema");
        check(with(json!({"tools": {}})), "tools", "list");
        check(with(json!({"tools": [3]})), "tools.0", "tool");
        check(with(json!({"tools": [{"input_schema": {}}]})), "tools.0.name", "missing");
        check(with(json!({"tools": [{"name": "f"}]})), "tools.0.input_schema", "missing");
        check(with(json!({"tools": [{"name": "f", "input_schema": "x"}]})), "tools.0.input_schema", "schema");
        check(with(json!({"tool_choice": "auto"})), "tool_choice", "object");
        check(with(json!({"tool_choice": {"type": "any"}})), "tool_choice", "no tools");
        check(with(json!({"tool_choice": {"type": "some"}})), "tool_choice.type", "auto");
        check(with(json!({"tool_choice": {"type": "tool"}})), "tool_choice.name", "missing");
        check(with(json!({"tool_choice": {"type": "tool", "name": "g"}})), "tool_choice.name", "`g`");
        for (body, part) in [("", "empty"), ("{", "not valid JSON"), ("[]", "must be a JSON object"), ("\"x\"", "must be a JSON object")] {
            let problem = request(&Bytes::from_static(body.as_bytes())).unwrap_err();
            assert!(problem.param.is_none() && problem.message.contains(part), "{body}: {}", problem.message);
        }
    }

    /// The fields that a request becomes, but the model and the messages.
    fn fields(more: Value) -> Value {
        let (request, _) = read(&with(more)).unwrap();
        let fields = request.fields.into_iter().filter(|(name, _)| name != "model" && name != "messages");
        fields.map(|(name, value)| (name, serde_json::from_slice::<Value>(&value).unwrap())).collect::<serde_json::Map<_, _>>().into()
    }

    #[test]
    fn fields_become_openais() {
        let check = |more: Value, expected: Value| assert_eq!(fields(more.clone()), expected, "{more}");
        check(json!({}), json!({}));
        check(json!({"max_tokens": 9, "stop_sequences": ["a"]}), json!({"max_tokens": 9, "stop": ["a"]}));
        check(json!({"stop_sequences": [], "temperature": null}), json!({}));
        check(
            json!({"temperature": 0.5, "top_k": 3, "top_p": 1, "seed": 7}),
            json!({"temperature": 0.5, "top_p": 1, "top_k": 3, "seed": 7}),
        );
        check(
            json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}),
            json!({"chat_template_kwargs": {"enable_thinking": true}, "thinking_budget_tokens": 2048}),
        );
        check(json!({"thinking": {"type": "disabled"}}), json!({"chat_template_kwargs": {"enable_thinking": false}}));
        check(json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}), json!({"reasoning_effort": "high"}));
        check(json!({"output_config": {"effort": "low"}}), json!({"reasoning_effort": "low"}));
        let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"}}});
        let asked = json!({"type": "json_schema", "schema": {"type": "object"}});
        check(json!({"output_config": {"format": asked}}), json!({"response_format": format}));
        check(json!({"output_format": asked}), json!({"response_format": format}));
        check(json!({"metadata": {"user_id": "u"}}), json!({"user": "u"}));
        check(json!({"metadata": {"user_id": "u".repeat(65)}}), json!({}));
        check(
            json!({"betas": ["x"], "context_management": {}, "service_tier": "auto", "container": "c", "mcp_servers": [], "new": 1}),
            json!({}),
        );
    }

    #[test]
    fn reasoning_is_shown_to_those_who_asked_for_it() {
        let shown = |more: Value| read(&with(more)).unwrap().1;
        assert!(!shown(json!({})));
        assert!(!shown(json!({"thinking": {"type": "disabled"}})));
        assert!(!shown(json!({"thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}})));
        assert!(shown(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})));
        assert!(shown(json!({"thinking": {"type": "adaptive", "display": "summarized"}})));
    }

    #[test]
    fn tools_keep_their_schema_as_written() {
        let body = Bytes::from_static(
            br#"{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"},
                {"name":"f","description":"d","input_schema":{ "b":1e2 },"cache_control":{"type":"ephemeral"}},
                {"type":"custom","name":"g","input_schema":{},"strict":true},{"type":"bash_20250124","name":"bash"}],
                "tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true}}"#,
        );
        let (request, _) = request(&body).unwrap();
        let names: Vec<_> = request.tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters[..])).collect();
        assert_eq!(names, [("f", &b"{ \"b\":1e2 }"[..]), ("g", b"{}")]);
        assert_eq!(
            std::str::from_utf8(&request.tools_json).unwrap(),
            concat!(
                r#"[{"type":"function","function":{"name":"f","description":"d","parameters":{ "b":1e2 }}},"#,
                r#"{"type":"function","function":{"name":"g","parameters":{},"strict":true}}]"#
            )
        );
        assert_eq!((&request.tool_choice, request.parallel_tool_calls), (&ToolChoice::Named("g".to_owned()), false));
        assert_eq!(request.field("tool_choice").unwrap().as_ref(), br#"{"type":"function","function":{"name":"g"}}"#.as_slice());
        assert_eq!(request.field("parallel_tool_calls").unwrap().as_ref(), b"false");
    }

    #[test]
    fn a_choice_among_no_tools_says_nothing() {
        let server_tool = json!([{"type": "web_search_20250305", "name": "web_search"}]);
        let choice = |more: Value| (read(&with(more.clone())).unwrap().0.tool_choice, fields(more));
        assert_eq!(choice(json!({"tools": server_tool, "tool_choice": {"type": "any"}})), (ToolChoice::Auto, json!({})));
        assert_eq!(choice(json!({"tool_choice": {"type": "none"}})), (ToolChoice::None, json!({})));
        let tools = json!([{"name": "f", "input_schema": {}}]);
        for (word, wanted, written) in [
            ("auto", ToolChoice::Auto, Value::Null),
            ("any", ToolChoice::Required, json!("required")),
            ("none", ToolChoice::None, json!("none")),
        ] {
            let (choice, fields) = choice(json!({"tools": tools, "tool_choice": {"type": word}}));
            assert_eq!((choice, &fields["tool_choice"]), (wanted, &written));
        }
    }

    fn json_like() -> impl Strategy<Value = Value> {
        let words = prop::sample::select(vec![
            "text",
            "type",
            "image",
            "tool_use",
            "tool_result",
            "document",
            "source",
            "base64",
            "url",
            "content",
            "role",
            "user",
            "assistant",
            "messages",
            "system",
            "tools",
            "name",
            "input",
            "input_schema",
            "id",
            "tool_use_id",
            "thinking",
            "data",
            "media_type",
            "é\"\\",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            words.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            let field = (words.clone(), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                prop::collection::vec(field, 0..6).prop_map(|fields| fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<serde_json::Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_request_is_too_odd(messages in json_like(), system in json_like(), tools in json_like(), block in json_like()) {
            let whole = json!({"messages": messages, "system": system, "tools": tools});
            let inside = json!({"messages": [{"role": "user", "content": [block]}, {"role": "assistant", "content": [block]}]});
            for body in [whole, inside, block] {
                if let Ok((request, _)) = read(&body) {
                    let messages: Vec<Value> = serde_json::from_slice(&request.messages).unwrap();
                    prop_assert!(messages.iter().all(|message| message["role"].is_string()));
                }
            }
        }

        #[test]
        fn no_bytes_are_too_odd(body in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(request(&Bytes::from(body)).is_err());
        }
    }
}
