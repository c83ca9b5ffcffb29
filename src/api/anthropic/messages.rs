//! The system prompt and the messages as OpenAI's list: what an assistant called and what the tools answered stand in messages of their own
//! there.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    decode::{missing, wrong},
    parts::{Block, Content, Part, Place, blocks, content, reminder},
};
use crate::chat::Problem;

/// A line at the beginning of Claude Code's system prompt that is for Anthropic's accounts. It differs from request to request, so no
/// backend could keep what it read of the prompt before.
const ACCOUNTS_LINE: &str = "x-anthropic-billing-header:";

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// One message in OpenAI's words.
#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

/// The JSON array of messages, the system prompt first.
pub(super) fn read(system: Option<&Bytes>, messages: Option<&Bytes>) -> Result<Bytes, Problem> {
    let messages = messages.ok_or_else(|| missing("messages"))?;
    let given: Vec<&RawValue> = serde_json::from_slice(messages).map_err(|_| wrong("messages", "a list of messages"))?;
    if given.is_empty() {
        return Err(Problem::invalid("messages", "`messages` is empty; at least one message is expected."));
    }
    let mut list = Vec::with_capacity(given.len() + 1);
    let system = system.map_or(Ok(String::new()), |system| prompt(system))?;
    if !system.is_empty() {
        list.push(Message::of("system", Content::Text(system)));
    }
    for (index, raw) in given.into_iter().enumerate() {
        let message: Given<'_> =
            serde_json::from_str(raw.get()).map_err(|_| wrong(&format!("messages.{index}"), "an object with `role` and `content`"))?;
        let place = Place::message(index);
        let said = message.content.filter(|content| content.get() != "null").ok_or_else(|| missing(&place.to_string()))?;
        match message.role.as_ref() {
            "user" => user(said, place, &mut list)?,
            "assistant" => list.push(assistant(said, place)?),
            "system" => list.push(system_between(said, place)?),
            "" => return Err(missing(&format!("messages.{index}.role"))),
            _ => return Err(wrong(&format!("messages.{index}.role"), "`user`, `assistant` or `system`")),
        }
    }
    // Strings and raw JSON always serialise.
    Ok(serde_json::to_vec(&list).unwrap_or_default().into())
}

impl<'a> Message<'a> {
    fn of(role: &'static str, content: Content<'a>) -> Self {
        Self { role, tool_call_id: None, content: Some(content), reasoning_content: String::new(), tool_calls: Vec::new() }
    }
}

fn is_string(said: &RawValue) -> bool {
    said.get().starts_with('"')
}

/// The system prompt, from a string or from blocks.
fn prompt(system: &[u8]) -> Result<String, Problem> {
    let place = Place { message: None, block: None, inner: None };
    let said: &RawValue = serde_json::from_slice(system).map_err(|_| wrong("system", "a string or a list of text blocks"))?;
    Ok(match texts(said, place, without_accounts)? {
        Content::Text(text) => text,
        Content::Raw(_) | Content::Parts(_) => return Err(wrong("system", "a string or a list of text blocks")),
    })
}

/// A string or blocks as one content, each text through `change`. A text that is nothing then is left out.
fn texts(said: &RawValue, place: Place, change: fn(String) -> String) -> Result<Content<'static>, Problem> {
    let parts = if is_string(said) {
        vec![Part::text(serde_json::from_str::<String>(said.get()).map_err(|_| wrong(&place.to_string(), "a string"))?)]
    } else {
        blocks(said.get(), place)?.iter().map(|(block, place)| block.part(*place)).collect::<Result<_, _>>()?
    };
    let changed = |part| match part {
        Part::Text { text } => Part::text(change(text)),
        other @ (Part::ImageUrl { .. } | Part::File { .. }) => other,
    };
    let says_something = |part: &Part| !matches!(part, Part::Text { text } if text.is_empty());
    Ok(content(parts.into_iter().map(changed).filter(says_something).collect()))
}

fn without_accounts(text: String) -> String {
    if !text.starts_with(ACCOUNTS_LINE) {
        return text;
    }
    text.split_once('\n').map_or_else(String::new, |(_, rest)| rest.trim_start().to_owned())
}

/// The system's words in mid-conversation.
fn system_between(said: &RawValue, place: Place) -> Result<Message<'static>, Problem> {
    let content = match texts(said, place, |text| text)? {
        Content::Text(text) => Content::Text(reminder(&text)),
        other => other,
    };
    Ok(Message::of("user", content))
}

/// A user's message: the results of tools first, since they belong behind the calls, then what the user says, with the images that the
/// tools returned.
fn user<'a>(said: &'a RawValue, place: Place, list: &mut Vec<Message<'a>>) -> Result<(), Problem> {
    if is_string(said) {
        list.push(Message::of("user", Content::Raw(said)));
        return Ok(());
    }
    let (mut parts, mut shown) = (Vec::new(), Vec::new());
    let before = list.len();
    for (block, place) in blocks(said.get(), place)? {
        if block.kind() == "tool_result" {
            list.push(result(block, place, &mut shown)?);
        } else {
            parts.push(block.part(place)?);
        }
    }
    shown.append(&mut parts);
    if !shown.is_empty() || list.len() == before {
        list.push(Message::of("user", content(shown)));
    }
    Ok(())
}

/// What a tool returned. OpenAI's results are text: images go to `shown`, for the message behind.
fn result<'a>(block: Block<'a>, place: Place, shown: &mut Vec<Part>) -> Result<Message<'a>, Problem> {
    let id = block.tool_use_id.ok_or_else(|| missing(&place.field("tool_use_id")))?;
    let said = block.content.filter(|content| content.get() != "null");
    let failed = block.is_error.unwrap_or(false);
    let text = match said {
        None => Content::Text(String::new()),
        Some(said) if is_string(said) && !failed => Content::Raw(said),
        Some(said) if is_string(said) => {
            Content::Text(serde_json::from_str(said.get()).map_err(|_| wrong(&place.field("content"), "a string"))?)
        }
        Some(said) => {
            let parts: Vec<Part> = blocks(said.get(), place)?.iter().map(|(block, place)| block.part(*place)).collect::<Result<_, _>>()?;
            let (texts, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(Part::is_text);
            let elsewhere = texts.is_empty() && !others.is_empty();
            shown.extend(others);
            if elsewhere { Content::Text(ELSEWHERE.to_owned()) } else { content(texts) }
        }
    };
    let content = match text {
        Content::Text(text) if failed => Content::Text(as_failure(text)),
        other => other,
    };
    Ok(Message { tool_call_id: Some(id), ..Message::of("tool", content) })
}

const ELSEWHERE: &str = "See the next message.";

/// OpenAI's results have no mark for a failure: the text says it, unless it does so by itself.
fn as_failure(text: String) -> String {
    let says_so = text.trim_start_matches('<').get(..ERROR.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(ERROR));
    if says_so { text } else { format!("Error: {text}") }
}

const ERROR: &str = "error";

/// What the model said, thought and called.
fn assistant<'a>(said: &'a RawValue, place: Place) -> Result<Message<'a>, Problem> {
    if is_string(said) {
        return Ok(Message::of("assistant", Content::Raw(said)));
    }
    let (mut parts, mut message) = (Vec::new(), Message::of("assistant", Content::Text(String::new())));
    for (block, place) in blocks(said.get(), place)? {
        match block.kind() {
            // Nobody else can read it.
            "redacted_thinking" => {}
            "thinking" => message.reasoning_content.push_str(block.thinking.as_deref().unwrap_or_default()),
            "tool_use" => message.tool_calls.push(call(block, place)?),
            _ => parts.push(block.part(place)?),
        }
    }
    let silent = parts.is_empty() && !message.tool_calls.is_empty();
    message.content = (!silent).then(|| content(parts));
    Ok(message)
}

fn call<'a>(block: Block<'a>, place: Place) -> Result<Call<'a>, Problem> {
    let id = block.id.ok_or_else(|| missing(&place.field("id")))?;
    let name = block.name.ok_or_else(|| missing(&place.field("name")))?;
    let arguments = match block.input.map(RawValue::get) {
        None => "{}",
        Some(object) if object.starts_with('{') => object,
        Some(_) => return Err(wrong(&place.field("input"), "an object")),
    };
    Ok(Call { id, kind: "function", function: Function { name, arguments } })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn become_openais(system: &Value, messages: &Value) -> Result<Value, Problem> {
        let bytes = |value: &Value| Bytes::from(value.to_string());
        let system = Some(bytes(system)).filter(|_| !system.is_null());
        Ok(serde_json::from_slice(&read(system.as_ref(), Some(&bytes(messages)))?).unwrap())
    }

    fn check(messages: Value, expected: Value) {
        assert_eq!(become_openais(&Value::Null, &messages).unwrap(), expected, "{messages}");
    }

    fn user(content: Value) -> Value {
        json!([{"role": "user", "content": content}])
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn the_system_prompt_comes_first_and_without_the_line_for_accounts() {
        let system = |system: Value| become_openais(&system, &user(json!("hi"))).unwrap()[0].clone();
        let prompt = |text: &str| json!({"role": "system", "content": text});
        assert_eq!(system(json!("Be brief.")), prompt("Be brief."));
        assert_eq!(system(json!([text("a"), {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}])), prompt("a\n\nb"));
        let accounts = text("x-anthropic-billing-header: cc_version=1; cch=12345;");
        assert_eq!(system(json!([accounts, text("You are an agent.")])), prompt("You are an agent."));
        assert_eq!(system(json!("x-anthropic-billing-header: cch=1;\n\nYou are an agent.")), prompt("You are an agent."));
        assert_eq!(system(json!([accounts]))["role"], "user");
        assert_eq!(system(json!(""))["role"], "user");
    }

    #[test]
    fn strings_keep_their_spelling() {
        let messages = Bytes::from_static(br#"[{"role":"user","content":"\u00e9 \/"},{"role":"assistant","content":"A\u0021"}]"#);
        assert_eq!(
            std::str::from_utf8(&read(None, Some(&messages)).unwrap()).unwrap(),
            r#"[{"role":"user","content":"\u00e9 \/"},{"role":"assistant","content":"A\u0021"}]"#
        );
    }

    #[test]
    fn texts_are_joined_and_images_are_parts() {
        check(user(json!([text("a"), text("b")])), user(json!("a\n\nb")));
        check(user(json!([])), user(json!("")));
        let image = |source: Value| json!({"type": "image", "source": source});
        let part = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let inline = image(json!({"type": "base64", "media_type": "image/png", "data": "AAAA"}));
        let linked = image(json!({"type": "url", "url": "https://host/x.png"}));
        check(
            user(json!([text("a"), inline, linked])),
            user(json!([text("a"), part("data:image/png;base64,AAAA"), part("https://host/x.png")])),
        );
    }

    #[test]
    fn documents_become_text_and_files_stay_files() {
        let document = |source: Value| json!([{"type": "document", "source": source, "title": "T"}]);
        check(user(document(json!({"type": "text", "media_type": "text/plain", "data": "words"}))), user(json!("T\nwords")));
        check(user(document(json!({"type": "content", "content": [text("a"), text("b")]}))), user(json!("T\na\nb")));
        check(user(document(json!({"type": "url", "url": "https://host/x"}))), user(json!("T\nhttps://host/x")));
        check(
            user(document(json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"}))),
            user(json!([{"type": "file", "file": {"filename": "T", "file_data": "data:application/pdf;base64,AAAA"}}])),
        );
        let found = json!([{"type": "search_result", "title": "T", "source": "https://host", "content": [text("a")]}]);
        check(user(found), user(json!("T\nhttps://host\na")));
    }

    #[test]
    fn calls_and_results_stand_in_messages_of_their_own() {
        let messages = json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "redacted_thinking", "data": "zzz"},
                text("Looking."),
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
            ]},
            {"role": "user", "content": [
                text("And tomorrow?"),
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": [text("no"), text("clock")]},
            ]},
        ]);
        let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        check(
            messages,
            json!([
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": "Looking.", "reasoning_content": "Hm.", "tool_calls": [
                    call("toolu_1", "get_weather", r#"{"city":"Paris"}"#), call("toolu_2", "now", "{}"),
                ]},
                {"role": "tool", "tool_call_id": "toolu_1", "content": "rain"},
                {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: no\n\nclock"},
                {"role": "user", "content": "And tomorrow?"},
            ]),
        );
    }

    #[test]
    fn results_are_text_in_every_form() {
        let result = |more: Value| {
            let mut block = json!({"type": "tool_result", "tool_use_id": "t"});
            block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            become_openais(&Value::Null, &user(json!([block]))).unwrap()
        };
        let tool = |content: &str| json!({"role": "tool", "tool_call_id": "t", "content": content});
        assert_eq!(result(json!({})), json!([tool("")]));
        assert_eq!(result(json!({"content": null})), json!([tool("")]));
        assert_eq!(result(json!({"content": "x", "is_error": true})), json!([tool("Error: x")]));
        assert_eq!(result(json!({"content": "<error>x", "is_error": true})), json!([tool("<error>x")]));
        assert_eq!(result(json!({"content": "ERROR: x", "is_error": true})), json!([tool("ERROR: x")]));
        assert_eq!(result(json!({"content": [{"type": "tool_reference", "tool_name": "f"}]})), json!([tool("f")]));
        let image = json!({"type": "image", "source": {"type": "url", "url": "u"}});
        let shown = json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]});
        assert_eq!(result(json!({"content": [image]})), json!([tool(ELSEWHERE), shown]));
        assert_eq!(result(json!({"content": [text("a"), image]})), json!([tool("a"), shown]));
    }

    #[test]
    fn an_assistant_that_only_calls_says_nothing() {
        let message =
            |content: Value| become_openais(&Value::Null, &json!([{"role": "assistant", "content": content}])).unwrap()[0].clone();
        let silent = message(json!([{"type": "tool_use", "id": "t", "name": "f"}]));
        assert_eq!((&silent["content"], &silent["tool_calls"][0]["function"]["arguments"]), (&Value::Null, &json!("{}")));
        assert_eq!(message(json!([{"type": "redacted_thinking", "data": "z"}])), json!({"role": "assistant", "content": ""}));
    }

    #[test]
    fn what_anthropics_servers_did_becomes_text() {
        let found = json!({"type": "web_search_result", "url": "u", "title": "T", "encrypted_content": "zzz"});
        let block = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [found]});
        let message = become_openais(&Value::Null, &json!([{"role": "assistant", "content": [block]}])).unwrap();
        let said = message[0]["content"].as_str().unwrap();
        assert!(said.contains("\"title\":\"T\"") && !said.contains("zzz"), "{said}");
    }

    #[test]
    fn the_system_in_mid_conversation_speaks_as_the_user() {
        check(
            json!([{"role": "user", "content": "a"}, {"role": "system", "content": [text("b")]}]),
            json!([{"role": "user", "content": "a"}, {"role": "user", "content": "<system-reminder>\nb\n</system-reminder>"}]),
        );
        let block = json!({"type": "mid_conv_system", "content": [text("b")]});
        check(user(json!([text("a"), block])), user(json!("a\n\n<system-reminder>\nb\n</system-reminder>")));
    }

    #[test]
    fn faults_name_the_block() {
        let check = |block: Value, role: &str, param: &str| {
            let problem = become_openais(&Value::Null, &json!([{"role": role, "content": [text("a"), block]}])).unwrap_err();
            assert_eq!(problem.param.as_deref(), Some(param), "{block}");
        };
        check(json!(3), "user", "messages.0.content.1");
        check(json!({}), "user", "messages.0.content.1.type");
        check(json!({"type": "text"}), "user", "messages.0.content.1.text");
        check(json!({"type": "image"}), "user", "messages.0.content.1.source");
        check(json!({"type": "image", "source": {"type": "file", "file_id": "f"}}), "user", "messages.0.content.1.source");
        check(json!({"type": "document", "source": 3}), "user", "messages.0.content.1.source");
        check(json!({"type": "tool_result", "content": "x"}), "user", "messages.0.content.1.tool_use_id");
        check(json!({"type": "tool_result", "tool_use_id": "t", "content": [{}]}), "user", "messages.0.content.1.content.0.type");
        check(json!({"type": "tool_use", "name": "f"}), "assistant", "messages.0.content.1.id");
        check(json!({"type": "tool_use", "id": "t"}), "assistant", "messages.0.content.1.name");
        check(json!({"type": "tool_use", "id": "t", "name": "f", "input": "x"}), "assistant", "messages.0.content.1.input");
        assert_eq!(become_openais(&json!([{"type": "image"}]), &user(json!("a"))).unwrap_err().param.as_deref(), Some("system.0.source"));
    }
}
