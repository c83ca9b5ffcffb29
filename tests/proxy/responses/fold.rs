//! A stream of response events read as strictly as any known client reads it.

use serde_json::{Value, json};

/// The events of a stream, each with its `event:` line checked against its type.
pub(crate) fn events(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    let body = text.strip_suffix("\n\n").unwrap_or_else(|| panic!("the stream was cut: {text}"));
    let event = |frame: &str| {
        let (name, data) = frame.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: ")).expect("an event has a name");
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event["type"], name);
        event
    };
    body.split("\n\n").filter(|frame| !frame.starts_with(':')).map(event).collect()
}

/// The response that a stream ends with, after a check of all that led to it: numbers without gaps, every item and part added, said and
/// done in that order, nothing about one that is not open, and the last response made of the items that were done.
pub(crate) fn fold(stream: &[u8]) -> Value {
    let events = events(stream);
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!((&events[0]["type"], &events[1]["type"]), (&json!("response.created"), &json!("response.in_progress")));
    let (last, middle) = events[2..].split_last().expect("a stream has an end");
    let mut items: Vec<Item> = Vec::new();
    for event in middle {
        take(event, &mut items);
    }
    assert!(items.iter().all(|item| item.done.is_some()), "every item is done: {events:#?}");
    let response = &last["response"];
    assert_eq!(last["type"].as_str().unwrap(), format!("response.{}", response["status"].as_str().unwrap()));
    assert_eq!(response["output"], items.into_iter().map(|item| item.done.unwrap()).collect::<Value>());
    for event in &events[..2] {
        assert_eq!((&event["response"]["status"], &event["response"]["output"]), (&json!("in_progress"), &json!([])));
        for key in ["id", "created_at", "model", "object", "tools"] {
            assert_eq!(event["response"][key], response[key], "`{key}` stays");
        }
    }
    response.clone()
}

/// An item that was added.
struct Item {
    id: Value,
    kind: String,
    /// What was said of its open part, and of which part.
    open: Option<(u64, String)>,
    parts: u64,
    said: String,
    done: Option<Value>,
}

fn take(event: &Value, items: &mut Vec<Item>) {
    let index = usize::try_from(event["output_index"].as_u64().unwrap_or_else(|| panic!("no index: {event}"))).unwrap();
    let kind = event["type"].as_str().unwrap();
    if kind == "response.output_item.added" {
        assert_eq!(index, items.len(), "items are added in order");
        let item = &event["item"];
        let kind = item["type"].as_str().unwrap().to_owned();
        items.push(Item { id: item["id"].clone(), kind, open: None, parts: 0, said: String::new(), done: None });
        return;
    }
    let item = &mut items[index];
    assert!(item.done.is_none(), "nothing is said of an item that is done: {event}");
    if kind == "response.output_item.done" {
        assert!(item.open.is_none(), "a part is open: {event}");
        assert_eq!((&event["item"]["id"], event["item"]["type"].as_str()), (&item.id, Some(item.kind.as_str())));
        item.done = Some(event["item"].clone());
        return;
    }
    assert_eq!(event["item_id"], item.id);
    let part = event["content_index"].as_u64().or(event["summary_index"].as_u64());
    match kind.strip_prefix("response.").unwrap() {
        "content_part.added" | "reasoning_summary_part.added" => {
            assert!(item.open.is_none() && part == Some(item.parts), "parts are added in order: {event}");
            item.parts += 1;
            item.open = Some((part.unwrap(), String::new()));
        }
        "output_text.delta" | "refusal.delta" | "reasoning_text.delta" | "reasoning_summary_text.delta" => {
            let (open, said) = item.open.as_mut().expect("a part is open");
            assert_eq!(part, Some(*open));
            assert!(!event["delta"].as_str().unwrap().is_empty());
            said.push_str(event["delta"].as_str().unwrap());
        }
        "output_text.done" | "reasoning_text.done" | "reasoning_summary_text.done" => said(item, &event["text"]),
        "refusal.done" => said(item, &event["refusal"]),
        "content_part.done" | "reasoning_summary_part.done" => {
            let (_, text) = item.open.take().expect("a part is open");
            assert_eq!(event["part"]["text"].as_str().or(event["part"]["refusal"].as_str()), Some(text.as_str()));
        }
        "function_call_arguments.delta" | "custom_tool_call_input.delta" => item.said.push_str(event["delta"].as_str().unwrap()),
        "function_call_arguments.done" => assert_eq!(event["arguments"], item.said.as_str()),
        "custom_tool_call_input.done" => assert_eq!(event["input"], item.said.as_str()),
        other => panic!("{other}: {event}"),
    }
}

fn said(item: &Item, text: &Value) {
    assert_eq!(*text, item.open.as_ref().expect("a part is open").1.as_str());
}
