//! What it costs to read one reply of 4 KiB: calls written as text rescued alone, and the whole way of an answer with validation.

use std::{collections::HashMap, hint::black_box, sync::Arc};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::{StreamExt, stream};
use serde_json::json;
use toolgate::{
    backend::{Backend, Events, Prompt},
    chat::{Event, FinishReason, Meta, Request, Tool},
    config::{self, Typed},
    inference::{
        Engine, Guardrails, Watch,
        offer::{self, Offer},
        rescue::rescue,
    },
};

/// Says the same reply each time, in pieces of about a token.
struct Script(String);

impl Backend for Script {
    fn stream(&self, _: Prompt) -> Events {
        let pieces = self.0.as_bytes().chunks(4).map(|piece| Event::Content(String::from_utf8_lossy(piece).into_owned()));
        let events: Vec<_> =
            [Event::Started(Meta::default())].into_iter().chain(pieces).chain([Event::Finished(FinishReason::Stop)]).collect();
        Box::pin(stream::iter(events.into_iter().map(Ok)))
    }
}

/// 4 KiB of text with a call of a tool with five parameters in it.
fn reply() -> String {
    let call = json!({"name": "book_flight", "arguments": {
        "from": "Paris", "to": "Oslo", "date": "2026-11-22", "passengers": 2, "notes": "A window seat, please. ".repeat(84),
    }});
    let text = format!("Let me see. {}\n\n```json\n{call}\n```\n", "I will look for a flight. ".repeat(80));
    assert!((4096..4400).contains(&text.len()), "{}", text.len());
    text
}

fn schema() -> serde_json::Value {
    let text = || json!({"type": "string"});
    json!({"type": "object", "required": ["from", "to", "date"], "properties": {
        "from": text(), "to": text(), "date": text(), "notes": text(), "passengers": {"type": "integer", "minimum": 1, "maximum": 9},
    }})
}

fn bench(criterion: &mut Criterion) {
    let text = reply();
    let offer = Offer::of(vec![offer::Tool::new("book_flight".to_owned(), schema())]);
    criterion.bench_function("rescue, 4 KiB", |bencher| {
        bencher.iter(|| rescue(black_box(&text), 0, &offer).map(|rescued| rescued.calls.len()));
    });

    let tools = vec![Tool { name: "book_flight".to_owned(), parameters: Bytes::from(schema().to_string()) }];
    let tools_json = Bytes::from(json!([{"type": "function", "function": {"name": "book_flight", "parameters": schema()}}]).to_string());
    let request = Arc::new(Request { tools, tools_json, ..Request::default() });
    let config = config::load(Typed::default(), &HashMap::new()).0;
    let engine = Arc::new(Engine::new(Arc::new(Script(text)), config.inference));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return };
    criterion.bench_function("answer, 4 KiB in 1,000 pieces", |bencher| {
        bencher.iter(|| runtime.block_on(engine.complete(Arc::clone(&request), Guardrails::ALL, Watch::default()).count()));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
