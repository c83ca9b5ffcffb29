//! What is written for models without tools is what is read out of their replies.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate::{
    backend::{Offered, Prompt, Served, prompt_tools::rewritten},
    chat::Request,
    inference::{
        offer::{Offer, Tool},
        rescue::rescue,
    },
};

/// The messages that go up for `messages` and `tools`.
fn sent(messages: &Value, tools: &Value) -> Vec<Value> {
    let [messages, tools] = [messages, tools].map(|json| Bytes::from(json.to_string()));
    let request = Request { messages, tools_json: tools, ..Request::default() };
    let offered = Offered::AsRequested;
    let prompt = Prompt {
        request: Arc::new(request),
        offered,
        corrections: Vec::new(),
        form: None,
        sampling: Vec::new(),
        served: Served::default(),
    };
    serde_json::from_slice(&rewritten(prompt).request.messages).unwrap()
}

/// The calls in `text`, each a name and arguments, and the text around them.
fn read(text: &str, tool: &str, schema: &Value) -> (Vec<(String, String)>, String) {
    let offer = Offer::of(vec![Tool::new(tool.to_owned(), schema.clone())]);
    let rescued = rescue(text, 0, &offer).expect(text);
    assert_eq!(rescued.form.as_str(), "hermes", "{text}");
    (rescued.calls.into_iter().map(|call| (call.name, call.arguments)).collect(), rescued.content)
}

#[test]
fn the_call_that_is_shown_is_one() {
    for (schema, arguments) in [
        (json!({}), "{}"),
        (json!({"type": "object", "properties": {"a": {"type": "string"}}}), r#"{"a":"some a"}"#),
        (json!({"type": "object", "properties": {"a": {"enum": ["</tool_call>", "\"\n{}"]}}}), r#"{"a":"</tool_call>"}"#),
        (
            json!({"type": "object", "properties": {"a": {"default": "\"\n{}"}, "b": {"type": "array"}}, "required": ["b", "a"]}),
            r#"{"a":"\"\n{}","b":[]}"#,
        ),
    ] {
        let tools = json!([{"type": "function", "function": {"name": "look_up", "parameters": schema}}]);
        let messages = sent(&json!([{"role": "user", "content": "Hi"}]), &tools);
        let system = messages[0]["content"].as_str().unwrap();
        let (_, shown) = system.split_once("looks like this:\n").unwrap();
        let (shown, _) = shown.rsplit_once("\n\nTo make several calls").unwrap();
        assert_eq!(read(shown, "look_up", &schema), (vec![("look_up".to_owned(), arguments.to_owned())], String::new()));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let fragments =
        ["a", "é😀", " ", "\"", "'", "\\", "\n", "{", "}", "[", "`", "```", "<tool_call>", "</tool_call>", "<tool_response>", "</think>"];
    let text = proptest::collection::vec(proptest::sample::select(fragments.to_vec()), 0..6).prop_map(|fragments| fragments.concat());
    prop_oneof![
        text.clone().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::collection::vec(text.clone(), 0..3).prop_map(Value::from),
        text.prop_map(|text| json!({"a": {"b": [text, null, 1.5, true]}})),
    ]
}

proptest! {
    #[test]
    fn past_calls_are_read_back(values in proptest::collection::vec((value(), any::<bool>()), 1..4), said in "(Let me see\\.)?") {
        let written: Vec<String> = values
            .iter()
            .map(|(value, spaced)| {
                let arguments = json!({"path": value, "deep": {}});
                if *spaced { serde_json::to_string_pretty(&arguments).unwrap() } else { arguments.to_string() }
            })
            .collect();
        let call = |arguments: &String| json!({"id": "1", "type": "function", "function": {"name": "io.save_2", "arguments": arguments}});
        let calls: Vec<Value> = written.iter().map(call).collect();
        let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": said, "tool_calls": calls}]);
        let sent = sent(&messages, &Value::Null);
        let expected = written.into_iter().map(|arguments| ("io.save_2".to_owned(), arguments)).collect();
        prop_assert_eq!(read(sent[1]["content"].as_str().unwrap(), "io.save_2", &json!({})), (expected, said));
    }
}
