//! The scripted backend, the real proxy and the client between which every test here takes place.

mod anthropic;
mod client;
pub(crate) mod mcp;
pub(crate) mod mcp_http;
pub(crate) mod messages;
mod proxy;
mod reply;
mod sse;
mod upstream;

use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use self::anthropic::{fold_message, frames, message, message_with};
pub(crate) use self::client::{Answer, Client, Raw, Streaming};
pub(crate) use self::proxy::Proxy;
pub(crate) use self::reply::Reply;
pub(crate) use self::sse::{events, fold, text_so_far};
pub(crate) use self::upstream::{Recorded, Upstream};

/// Longer than anything that a test waits for; what takes this long will not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A backend that says `replies`, one a call and the last for ever, and a proxy in front of it.
pub(crate) async fn proxy_before(replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    (Proxy::start(&upstream).await, upstream)
}

/// A request that offers `get_weather(city: string)` and `add(a: integer, b: integer)`.
pub(crate) fn question() -> Value {
    json!({
        "model": "tiny",
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [weather(), add()],
    })
}

/// [`question`] with the fields of `more` set.
pub(crate) fn question_with(more: Value) -> Value {
    let mut question = question();
    let Value::Object(more) = more else { panic!("fields are an object") };
    question.as_object_mut().unwrap().extend(more);
    question
}

/// A request without tools.
pub(crate) fn chat() -> Value {
    json!({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]})
}

pub(crate) fn weather() -> Value {
    tool("get_weather", json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}))
}

pub(crate) fn add() -> Value {
    let number = json!({"type": "integer"});
    tool("add", json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}))
}

pub(crate) fn tool(name: &str, parameters: Value) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

/// The correct call of most tests.
pub(crate) fn paris() -> Reply {
    Reply::call("get_weather", r#"{"city":"Paris"}"#)
}
