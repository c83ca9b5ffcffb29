//! Whatever a model says in whatever order, a stream keeps its form and ends in the answer that comes without one; whatever a client
//! sends, it is read or refused.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate::{
    api::{Dialect, responses::Responses},
    chat::{Call, Event, FinishReason, Meta, Reply, Usage},
};

use super::fold::fold;

/// What comes between the beginning and the end of an answer.
fn event() -> impl Strategy<Value = Event> {
    let text = "[a-z é\"\\\\\n]{1,4}";
    let name = prop_oneof![Just("f"), Just("patch"), Just("local_shell"), Just("gone")];
    prop_oneof![
        text.prop_map(Event::Reasoning),
        text.prop_map(Event::Content),
        text.prop_map(Event::Refusal),
        (name, "[a-z{}\":]{0,8}").prop_map(|(name, arguments)| {
            Event::CallStarted(Call { id: format!("call_{arguments}"), name: name.to_owned(), arguments })
        }),
        (0..3usize, "[a-z\"}]{1,4}").prop_map(|(index, fragment)| Event::CallArguments { index, fragment }),
    ]
}

fn reason() -> impl Strategy<Value = FinishReason> {
    prop_oneof![Just(FinishReason::Stop), Just(FinishReason::ToolCalls), Just(FinishReason::Length), Just(FinishReason::ContentFilter)]
}

fn request(summary: bool) -> Bytes {
    let tools = json!([{"type": "function", "name": "f"}, {"type": "custom", "name": "patch"}, {"type": "local_shell"}]);
    let reasoning = json!({"summary": summary.then_some("auto")});
    json!({"model": "m", "input": "x", "tools": tools, "reasoning": reasoning}).to_string().into()
}

/// What a response says, without the ids that are made up for it and whatever the order of its items.
fn said(response: &Value) -> Value {
    let mut said = json!({"reasoning": "", "output_text": "", "refusal": "", "calls": []});
    for item in response["output"].as_array().unwrap() {
        let parts = item["content"].as_array().into_iter().flatten().chain(item["summary"].as_array().into_iter().flatten());
        for part in parts {
            let key = part["type"].as_str().unwrap();
            let key = if key.ends_with("refusal") || key == "output_text" { key } else { "reasoning" };
            let text = part["text"].as_str().or(part["refusal"].as_str()).unwrap();
            said[key] = Value::from(said[key].as_str().unwrap().to_owned() + text);
        }
        if item["call_id"].is_string() {
            let mut call = item.clone();
            call["id"] = Value::Null;
            call["status"] = Value::Null;
            said["calls"].as_array_mut().unwrap().push(call);
        }
    }
    for key in ["status", "incomplete_details", "usage", "model", "tools"] {
        said[key] = response[key].clone();
    }
    said
}

const WORDS: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "custom_tool_call",
    "local_shell_call",
    "item_reference",
    "user",
    "assistant",
    "developer",
    "input_text",
    "input_image",
    "output_text",
    "refusal",
    "function",
    "namespace",
    "custom",
    "local_shell",
    "web_search",
    "auto",
    "required",
    "allowed_tools",
    "json_schema",
    "x",
    "",
];
const KEYS: &[&str] = &[
    "type",
    "role",
    "content",
    "text",
    "call_id",
    "id",
    "name",
    "namespace",
    "arguments",
    "output",
    "input",
    "action",
    "summary",
    "tools",
    "parameters",
    "strict",
    "image_url",
    "refusal",
    "format",
    "definition",
    "mode",
    "effort",
    "command",
];

/// One of the words that a request is made of, or anything else.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 5, |inner| {
        let fields = proptest::collection::btree_map(proptest::sample::select(KEYS), inner.clone(), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn a_stream_ends_in_the_answer_that_comes_whole(
        middle in proptest::collection::vec(event(), 0..12), reason in reason(), summary in any::<bool>(),
    ) {
        let usage = Usage { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, reasoning_tokens: 1, cache_write_tokens: 0 };
        let events = [Event::Started(Meta { model: Some("tiny".to_owned()), ..Meta::default() })].into_iter().chain(middle);
        let events: Vec<_> = events.chain([Event::Finished(reason), Event::Usage(usage)]).collect();
        let (_, mut encoder) = Responses.decode(&request(summary), false).unwrap();
        let (mut stream, mut reply) = (Vec::new(), Reply::default());
        for event in events {
            stream.extend_from_slice(&encoder.event(event.clone()));
            reply.add(event);
        }
        let whole: Value = serde_json::from_slice(&encoder.whole(&reply)).unwrap();
        stream.extend_from_slice(&encoder.end());
        prop_assert_eq!(said(&fold(&stream)), said(&whole));
    }

    #[test]
    fn any_request_is_read_or_refused(
        input in value(), tools in value(), tool_choice in value(), text in value(), reasoning in value(), instructions in value(),
    ) {
        let body = json!({
            "model": "m", "input": input, "tools": tools, "tool_choice": tool_choice, "text": text, "reasoning": reasoning,
            "instructions": instructions,
        });
        if let Ok((request, encoder)) = Responses.decode(&body.to_string().into(), true) {
            // What was written for the backend is JSON, and so is an answer that repeats the request.
            for (name, value) in &request.fields {
                prop_assert!(serde_json::from_slice::<Value>(value).is_ok(), "{name}: {value:?}");
            }
            let messages: Vec<Value> = serde_json::from_slice(&request.messages).unwrap();
            prop_assert!(messages.iter().all(|message| message["role"].is_string() && !message["content"].is_null()));
            prop_assert!(serde_json::from_slice::<Value>(&encoder.whole(&Reply::default())).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Responses.decode(&body.into(), false);
    }
}
