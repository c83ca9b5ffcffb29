//! OpenAI's Responses in front of a backend that speaks chat completions.

mod calls;
mod failures;
mod fold;
mod properties;
mod text;

use serde_json::{Value, json};

pub(crate) use self::fold::events;
use self::fold::fold;
use crate::harness::{Answer, Proxy, Streaming};

/// A request without tools.
fn chat() -> Value {
    json!({"model": "tiny", "input": "Hello"})
}

/// A request that offers `get_weather(city: string)` and `add(a: integer, b: integer)`.
pub(crate) fn question() -> Value {
    let number = json!({"type": "integer"});
    let function = |name: &str, properties: Value, required: Value| {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        json!({"type": "function", "name": name, "parameters": parameters})
    };
    json!({
        "model": "tiny",
        "input": "What is the weather in Paris?",
        "tools": [
            function("get_weather", json!({"city": {"type": "string"}}), json!(["city"])),
            function("add", json!({"a": number, "b": number}), json!(["a", "b"])),
        ],
    })
}

/// [`question`] with the fields of `more` set.
fn question_with(more: Value) -> Value {
    with(&question(), more)
}

fn with(request: &Value, more: Value) -> Value {
    let mut request = request.clone();
    let Value::Object(more) = more else { panic!("fields are an object") };
    request.as_object_mut().unwrap().extend(more);
    request
}

/// Asks for a response, whole or streamed, as the request says.
pub(crate) async fn respond(proxy: &Proxy, request: &Value) -> Value {
    let answer = proxy.post("/v1/responses", request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    if request["stream"] == true { fold(&answer.body) } else { answer.json() }
}

/// Asks for a streamed response.
async fn stream(proxy: &Proxy, request: &Value) -> Answer {
    let answer = proxy.post("/v1/responses", with(request, json!({"stream": true})).to_string()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"), "{}", answer.text());
    answer
}

/// Asks for a response and reads no more than the answer's head.
async fn open(proxy: &Proxy, request: &Value) -> Streaming {
    proxy.client.open("POST", "/v1/responses", &[], request.to_string()).await.unwrap()
}

/// Names and arguments of the calls in a response.
fn calls(response: &Value) -> Vec<Value> {
    let items = response["output"].as_array().unwrap().iter();
    items.filter(|item| item["type"] == "function_call").map(|item| json!([item["name"], item["arguments"]])).collect()
}

/// All text in a response.
pub(crate) fn texts(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    let parts = items.flat_map(|item| item["content"].as_array().unwrap());
    parts.map(|part| part["text"].as_str().unwrap()).collect()
}
