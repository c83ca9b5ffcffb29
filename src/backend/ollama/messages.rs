//! Messages of OpenAI as Ollama has them: a text and a list of images in place of parts, arguments as objects, results named.
//!
//! A message that is no object, or has a role that OpenAI does not know, is left as it is, for the server to complain about.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    content::{Content, Unreadable},
    encode::put_json,
};
use crate::{backend::Error, chat, wire::text::Text};

/// The messages of one upstream call.
#[derive(Debug, Clone)]
pub(super) struct Messages {
    /// The JSON array.
    pub(super) json: Bytes,
    /// How many of its bytes are images.
    pub(super) image_bytes: usize,
    /// How many images there are.
    pub(super) images: usize,
}

/// `messages`, a JSON array of OpenAI's, with `corrections` at its end. Fails where a content holds what Ollama cannot read.
pub(super) fn encode(messages: &[u8], corrections: &[chat::Message]) -> Result<Messages, Error> {
    let Ok(list) = serde_json::from_slice::<Vec<&RawValue>>(messages) else {
        return Ok(Messages { json: Bytes::copy_from_slice(messages), image_bytes: 0, images: 0 });
    };
    let mut writer = Writer { json: BytesMut::with_capacity(messages.len() + 1024), ..Writer::default() };
    writer.json.put_slice(b"[");
    for (index, raw) in list.into_iter().enumerate() {
        writer.separate();
        match read(raw) {
            Some((role, message)) => writer.message(role, message).map_err(|unreadable| unreadable.in_message(index))?,
            None => writer.json.put_slice(raw.get().as_bytes()),
        }
    }
    for correction in corrections {
        writer.separate();
        writer.correction(correction);
    }
    writer.json.put_slice(b"]");
    Ok(Messages { json: writer.json.freeze(), image_bytes: writer.image_bytes, images: writer.images })
}

/// A message of OpenAI's, as far as Ollama has a place for it.
#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

fn read(raw: &RawValue) -> Option<(&'static str, Message<'_>)> {
    let message: Message<'_> = serde_json::from_str(raw.get()).ok()?;
    let role = match message.role.as_ref()?.0.as_ref() {
        // The newer name of the same; templates know the older one.
        "system" | "developer" => "system",
        "user" => "user",
        "assistant" => "assistant",
        // The older name of the same.
        "tool" | "function" => "tool",
        _ => return None,
    };
    Some((role, message))
}

/// Writes messages and remembers which calls they make.
#[derive(Debug, Default)]
struct Writer<'a> {
    json: BytesMut,
    /// Id and name of each call so far.
    calls: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    image_bytes: usize,
    images: usize,
}

impl<'a> Writer<'a> {
    fn separate(&mut self) {
        if self.json.len() > 1 {
            self.json.put_slice(b",");
        }
    }

    fn message(&mut self, role: &str, message: Message<'a>) -> Result<(), Unreadable> {
        let content = Content::read(message.content)?;
        self.begin(role);
        content.put_text(&mut self.json);
        self.put_images(&content);
        if role == "assistant"
            && let Some(thought) = message.reasoning_content.or(message.reasoning).filter(|thought| !thought.0.is_empty())
        {
            self.field("thinking", &thought.0);
        }
        if let Some(calls) = message.tool_calls.filter(|calls| !calls.is_empty()) {
            let calls = calls.into_iter().map(|call| {
                let (name, arguments) = call.function.map_or((None, None), |function| (function.name, function.arguments));
                (text(call.id), text(name), arguments.map_or(Cow::Borrowed("{}"), arguments_object))
            });
            self.put_calls(calls);
        }
        if role == "tool" {
            self.put_answered(&text(message.tool_call_id), &text(message.name));
        }
        self.json.put_slice(b"}");
        Ok(())
    }

    fn correction(&mut self, correction: &'a chat::Message) {
        let (role, content) = match correction {
            chat::Message::User(content) => ("user", content),
            chat::Message::Assistant { content, .. } => ("assistant", content),
            chat::Message::Tool { content, .. } => ("tool", content),
        };
        self.begin(role);
        put_json(&mut self.json, content);
        match correction {
            chat::Message::Assistant { calls, .. } if !calls.is_empty() => {
                let parts =
                    |call: &'a chat::Call| (Cow::Borrowed(&*call.id), Cow::Borrowed(&*call.name), object(Cow::Borrowed(&call.arguments)));
                self.put_calls(calls.iter().map(parts));
            }
            chat::Message::Tool { call_id, .. } => self.put_answered(call_id, ""),
            chat::Message::Assistant { .. } | chat::Message::User(_) => {}
        }
        self.json.put_slice(b"}");
    }

    fn begin(&mut self, role: &str) {
        self.json.put_slice(b"{\"role\":\"");
        self.json.put_slice(role.as_bytes());
        self.json.put_slice(b"\",\"content\":");
    }

    fn put_images(&mut self, content: &Content<'_>) {
        if content.images.is_empty() {
            return;
        }
        self.json.put_slice(b",\"images\":");
        let before = self.json.len();
        put_json(&mut self.json, &content.images);
        self.images += content.images.len();
        self.image_bytes += self.json.len() - before;
    }

    /// The calls, by id, name and arguments.
    fn put_calls(&mut self, calls: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>, Cow<'a, str>)>) {
        self.json.put_slice(b",\"tool_calls\":[");
        for (index, (id, name, arguments)) in calls.enumerate() {
            self.json.put_slice(if index == 0 { b"{" } else { b",{" });
            if !id.is_empty() {
                self.json.put_slice(b"\"id\":");
                put_json(&mut self.json, &id);
                self.json.put_slice(b",");
            }
            self.json.put_slice(b"\"function\":{\"name\":");
            put_json(&mut self.json, &name);
            self.json.put_slice(b",\"arguments\":");
            self.json.put_slice(arguments.as_bytes());
            self.json.put_slice(b"}}");
            self.calls.push((id, name));
        }
        self.json.put_slice(b"]");
    }

    /// Which call a result answers, and of which tool it is: most templates name the tool and no id.
    fn put_answered(&mut self, id: &str, name: &str) {
        let called = self.calls.iter().rfind(|(known, _)| !id.is_empty() && known == id).map(|(_, name)| name.clone());
        let name = called.unwrap_or(Cow::Borrowed(name)).into_owned();
        for (field, value) in [("tool_name", name.as_str()), ("tool_call_id", id)] {
            if !value.is_empty() {
                self.field(field, value);
            }
        }
    }

    fn field(&mut self, name: &str, value: &str) {
        self.json.put_slice(b",\"");
        self.json.put_slice(name.as_bytes());
        self.json.put_slice(b"\":");
        put_json(&mut self.json, value);
    }
}

fn text(text: Option<Text<'_>>) -> Cow<'_, str> {
    text.map_or(Cow::Borrowed(""), |text| text.0)
}

/// Arguments by the book are a string that holds an object; some clients send the object itself.
fn arguments_object(raw: &RawValue) -> Cow<'_, str> {
    match raw.get() {
        "null" => Cow::Borrowed("{}"),
        string if string.starts_with('"') => match serde_json::from_str::<Text<'_>>(string) {
            Ok(text) if is_blank_or_object(&text.0) => object(text.0),
            // For the server to complain about.
            _ => Cow::Borrowed(string),
        },
        other => Cow::Borrowed(other),
    }
}

fn is_blank_or_object(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || (text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok())
}

/// The text of an object, `{}` where it says nothing.
fn object(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.trim().is_empty() { Cow::Borrowed("{}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Call;

    fn encoded(messages: &str) -> String {
        String::from_utf8(encode(messages.as_bytes(), &[]).unwrap().json.to_vec()).unwrap()
    }

    fn check(message: &str, expected: &str) {
        assert_eq!(encoded(&format!("[{message}]")), format!("[{expected}]"));
    }

    #[test]
    fn contents_are_texts() {
        check(r#"{"role":"user","content":"a\u00e9\n"}"#, r#"{"role":"user","content":"a\u00e9\n"}"#);
        check(r#"{"role":"developer","content":"a","name":"x"}"#, r#"{"role":"system","content":"a"}"#);
        check(r#"{"role":"assistant","content":null}"#, r#"{"role":"assistant","content":""}"#);
        check(r#"{"role":"assistant"}"#, r#"{"role":"assistant","content":""}"#);
        check(
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"\"b"}]}"#,
            r#"{"role":"user","content":"a\n\"b"}"#,
        );
        check(
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}]}"#,
            r#"{"role":"user","content":"a","images":["iVBO"]}"#,
        );
        check(r#"{"role":"assistant","content":"a","reasoning_content":"why"}"#, r#"{"role":"assistant","content":"a","thinking":"why"}"#);
        check(r#"{"role":"user","content":"a","reasoning_content":"why"}"#, r#"{"role":"user","content":"a"}"#);
    }

    #[test]
    fn calls_are_objects_and_results_are_named() {
        let calls = |arguments: &str| {
            format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c1","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
            )
        };
        let expected = |arguments: &str| {
            format!(r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"c1","function":{{"name":"f","arguments":{arguments}}}}}]}}"#)
        };
        let check_arguments = |given: &str, arguments: &str| check(&calls(given), &expected(arguments));
        check_arguments(r#""{\"b\":1,\"a\":\"\u00e9\"}""#, r#"{"b":1,"a":"é"}"#);
        check_arguments(r#"{"b":18446744073709551616}"#, r#"{"b":18446744073709551616}"#);
        check_arguments(r#""""#, "{}");
        check_arguments("null", "{}");
        check_arguments(r#""{\"b\":""#, r#""{\"b\":""#);
        check_arguments(r#""[1]""#, r#""[1]""#);
        let both = format!(r#"[{},{{"role":"tool","tool_call_id":"c1","content":"sunny"}}]"#, calls("{}"));
        let named = r#"{"role":"tool","content":"sunny","tool_name":"f","tool_call_id":"c1"}"#;
        assert_eq!(encoded(&both), format!("[{},{named}]", expected("{}")));
        check(
            r#"{"role":"tool","tool_call_id":"c9","name":"g","content":"x"}"#,
            r#"{"role":"tool","content":"x","tool_name":"g","tool_call_id":"c9"}"#,
        );
        check(r#"{"role":"function","name":"g","content":"x"}"#, r#"{"role":"tool","content":"x","tool_name":"g"}"#);
    }

    #[test]
    fn an_id_that_is_used_twice_means_the_last_call() {
        let call = |name: &str| format!(r#"{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"{name}"}}}}]}}"#);
        let result = r#"{"role":"tool","tool_call_id":"c","content":""}"#;
        let names: Vec<String> =
            serde_json::from_str::<Vec<serde_json::Value>>(&encoded(&format!("[{},{result},{},{result}]", call("a"), call("b"))))
                .unwrap()
                .iter()
                .filter_map(|message| message["tool_name"].as_str().map(str::to_owned))
                .collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn what_is_no_message_is_left_as_it_is() {
        for odd in
            [r#" 3 "#, r#"{"role":"oracle","content":[1]}"#, r#"{"content":"x"}"#, r#"{"role":"user","tool_calls":"x"}"#, r#"{"role":7}"#]
        {
            check(odd, odd.trim());
        }
        assert_eq!(encoded("\"no list\""), "\"no list\"");
        assert_eq!(encoded(" [ ] "), "[]");
    }

    #[test]
    fn corrections_stand_at_the_end_in_the_same_form() {
        let call = Call { id: "c1".into(), name: "f".into(), arguments: "{\"a\":1}".into() };
        let corrections = [
            chat::Message::Assistant { content: "so".into(), calls: vec![call] },
            chat::Message::Tool { call_id: "c1".into(), content: "no".into() },
            chat::Message::Assistant { content: "text".into(), calls: vec![] },
            chat::Message::User("again".into()),
        ];
        let json = encode(br#"[{"role":"user","content":"q"}]"#, &corrections).unwrap().json;
        assert_eq!(
            std::str::from_utf8(&json).unwrap(),
            concat!(
                r#"[{"role":"user","content":"q"},"#,
                r#"{"role":"assistant","content":"so","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":1}}}]},"#,
                r#"{"role":"tool","content":"no","tool_name":"f","tool_call_id":"c1"},"#,
                r#"{"role":"assistant","content":"text"},{"role":"user","content":"again"}]"#
            )
        );
    }

    #[test]
    fn images_are_counted_apart() {
        let image = r#"{"type":"image_url","image_url":"data:;base64,iVBO"}"#;
        let messages = encode(format!(r#"[{{"role":"user","content":[{image},{image}]}}]"#).as_bytes(), &[]).unwrap();
        assert_eq!((messages.images, messages.image_bytes), (2, r#"["iVBO","iVBO"]"#.len()));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let refused = encode(
            br#"[{"role":"user","content":"x"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]"#,
            &[],
        );
        let Err(Error::Unsupported { param: "messages", message }) = refused else { panic!("{refused:?}") };
        assert!(message.starts_with("messages[1].content[0].image_url: "), "{message}");
    }
}
