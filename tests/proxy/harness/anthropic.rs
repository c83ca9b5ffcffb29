//! Anthropic's Messages as a client has them: requests, and a stream read as the strictest of the known clients reads it.

use serde_json::{Value, json};

use super::{Answer, Proxy, Streaming};

/// A request for a message that offers `get_weather(city: string)` and `add(a: integer, b: integer)`.
pub(crate) fn message() -> Value {
    let number = json!({"type": "integer"});
    json!({
        "model": "tiny",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [
            {"name": "get_weather", "description": "Says how the weather is.",
             "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
            {"name": "add", "input_schema": {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}},
        ],
    })
}

/// [`message`] with the fields of `more` set.
pub(crate) fn message_with(more: Value) -> Value {
    let mut message = message();
    let Value::Object(more) = more else { panic!("fields are an object") };
    message.as_object_mut().unwrap().extend(more);
    message
}

impl Proxy {
    /// Asks for a message.
    pub(crate) async fn message(&self, request: &Value) -> Answer {
        self.message_with(request, &[]).await
    }

    /// Asks for a message with these request headers.
    pub(crate) async fn message_with(&self, request: &Value, headers: &[(&str, &str)]) -> Answer {
        self.client.send("POST", "/v1/messages?beta=true", headers, request.to_string()).await
    }

    /// Asks for a message and reads no more than the answer's head.
    pub(crate) async fn message_slowly(&self, request: &Value) -> Streaming {
        self.client.open("POST", "/v1/messages", &[], request.to_string()).await.unwrap()
    }

    /// The message that `request` is answered with, once whole and once from a stream: both are the same but for the ids that were made.
    pub(crate) async fn message_both_ways(&self, request: &Value) -> Value {
        let mut request = request.clone();
        request["stream"] = json!(false);
        let whole = self.message(&request).await;
        assert_eq!(whole.status, 200, "{}", whole.text());
        request["stream"] = json!(true);
        let streamed = self.message(&request).await;
        assert_eq!((streamed.status, streamed.header("content-type")), (200, "text/event-stream"), "{}", streamed.text());
        let (mut whole, mut streamed) = (whole.json(), fold_message(&frames(&streamed.body)));
        for message in [&mut whole, &mut streamed] {
            let id = message["id"].take();
            assert!(id.as_str().unwrap().starts_with("msg_"), "{id}");
            for block in message["content"].as_array_mut().unwrap() {
                if block["id"].as_str().is_some_and(|id| id.len() == "call_".len() + 16) {
                    block["id"] = json!("minted");
                }
            }
        }
        assert_eq!(streamed, whole, "a stream comes to the whole answer");
        whole
    }
}

impl Answer {
    /// The type and the sentence of an error in Anthropic's shape, which names the request.
    pub(crate) fn anthropic_error(&self) -> (u16, String, String) {
        assert!(self.status >= 400, "{} is no error: {}", self.status, self.text());
        assert_eq!(self.header("content-type"), "application/json");
        let body = self.json();
        assert_eq!((&body["type"], body["request_id"].as_str().unwrap()), (&json!("error"), self.header("request-id")), "{body}");
        assert_eq!(self.header("request-id"), self.header("x-request-id"));
        let text = |key: &str| body["error"][key].as_str().unwrap().to_owned();
        (self.status, text("type"), text("message"))
    }
}

/// The frames of a stream, without the pings between them. The event of each is its type.
pub(crate) fn frames(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    assert!(text.is_empty() || text.ends_with("\n\n"), "{text}");
    let frame = |frame: &str| {
        let (event, data) = frame.split_once("\ndata: ").unwrap_or_else(|| panic!("no frame: {frame}"));
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event.strip_prefix("event: ").unwrap(), data["type"], "{frame}");
        data
    };
    text.split_terminator("\n\n").map(frame).filter(|frame| frame["type"] != "ping").collect()
}

/// The message that the frames make. Fails where an official client would stumble: see each assertion.
pub(crate) fn fold_message(frames: &[Value]) -> Value {
    let (first, rest) = frames.split_first().expect("a stream is not empty");
    assert_eq!(first["type"], "message_start", "{first}");
    let mut message = first["message"].clone();
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null), "a message begins empty");
    let (mut open, mut json_text, mut ended, mut stopped) = (None, String::new(), false, false);
    for frame in rest {
        assert!(!stopped, "nothing follows the stop: {frame}");
        match frame["type"].as_str().unwrap() {
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                assert!(open.is_none() && !ended, "one block after the other: {frame}");
                assert_eq!(frame["index"], content.len(), "indices have no gaps");
                open = Some(content.len());
                content.push(frame["content_block"].clone());
                json_text.clear();
            }
            "content_block_delta" => {
                let index = open.expect("a delta is of the open block");
                assert_eq!(frame["index"], index);
                add(&mut message["content"][index], &frame["delta"], &mut json_text);
            }
            "content_block_stop" => {
                let index = open.take().expect("what closes was open");
                assert_eq!(frame["index"], index);
                if !json_text.is_empty() {
                    message["content"][index]["input"] = serde_json::from_str(&json_text).expect("input is JSON");
                }
            }
            "message_delta" => {
                assert!(open.is_none() && !ended, "it comes once and last: {frame}");
                ended = true;
                for part in ["delta", "usage"] {
                    let target = if part == "delta" { &mut message } else { &mut message["usage"] };
                    for (name, value) in frame[part].as_object().unwrap() {
                        target[name] = value.clone();
                    }
                }
                if let Some(report) = frame.get("toolgate") {
                    message["toolgate"] = report.clone();
                }
            }
            "message_stop" => stopped = true,
            other => panic!("{other}: {frame}"),
        }
    }
    assert!(ended && stopped, "a message has an end");
    message
}

fn add(block: &mut Value, delta: &Value, json_text: &mut String) {
    let (name, more) = match delta["type"].as_str().unwrap() {
        "text_delta" => ("text", &delta["text"]),
        "thinking_delta" => ("thinking", &delta["thinking"]),
        "signature_delta" => ("signature", &delta["signature"]),
        "input_json_delta" => {
            assert_eq!(block["type"], "tool_use");
            json_text.push_str(delta["partial_json"].as_str().unwrap());
            return;
        }
        other => panic!("{other}"),
    };
    let so_far = block[name].as_str().unwrap_or_else(|| panic!("{delta} is for another block than {block}")).to_owned();
    block[name] = Value::from(so_far + more.as_str().unwrap());
}
