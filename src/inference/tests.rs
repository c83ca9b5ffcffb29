//! The answer does not depend on how a reply arrives: whole, in pieces of any size, shown early or late.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use proptest::prelude::*;

use super::{Config, Constrain, Engine, Error, Guardrails, OnText, Reasoning, RetrySampling, ToolArguments, Watch, history::Replay};
use crate::{
    backend::{Backend, Events, Prompt},
    chat::{Call, Event, FinishReason, Meta, Reply, Request, Tool, ToolChoice, Usage},
};

/// Says one scripted reply a call, the last for ever.
struct Script(Mutex<Vec<Vec<Event>>>);

impl Backend for Script {
    fn stream(&self, _: Prompt) -> Events {
        let mut replies = self.0.lock().unwrap();
        let reply = if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() };
        Box::pin(stream::iter(reply.into_iter().map(Ok)))
    }
}

/// A reply before it is cut into events.
#[derive(Debug, Clone)]
struct Said {
    reasoning: String,
    text: String,
    calls: Vec<(&'static str, String)>,
    finish: FinishReason,
}

impl Said {
    /// The reply as events, each text in pieces of `size` characters; with `mixed`, all calls begin before any goes on.
    fn events(&self, size: usize, mixed: bool) -> Vec<Event> {
        let mut events = vec![Event::Started(Meta { id: Some("one".into()), ..Meta::default() })];
        events.extend(pieces(&self.reasoning, size).map(Event::Reasoning));
        events.extend(pieces(&self.text, size).map(Event::Content));
        let mut later = Vec::new();
        for (index, (name, arguments)) in self.calls.iter().enumerate() {
            let call = Call { id: format!("c{index}"), name: (*name).to_owned(), arguments: String::new() };
            events.push(Event::CallStarted(call));
            let arguments = pieces(arguments, size).map(move |fragment| Event::CallArguments { index, fragment });
            if mixed { later.push(arguments) } else { events.extend(arguments) }
        }
        while !later.is_empty() {
            events.extend(later.iter_mut().filter_map(Iterator::next));
            later.retain(|arguments| arguments.len() > 0);
        }
        events.extend([Event::Finished(self.finish), Event::Usage(Usage { prompt_tokens: 3, completion_tokens: 2, ..Usage::default() })]);
        events
    }
}

fn pieces(text: &str, size: usize) -> impl ExactSizeIterator<Item = String> + use<> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size.max(1)).map(|piece| piece.iter().collect()).collect::<Vec<String>>().into_iter()
}

fn said() -> impl Strategy<Value = Said> {
    let text = prop_oneof![
        Just(String::new()),
        Just(r#"{"name":"f","arguments":{"a":1}}"#.to_owned()),
        Just("Sure.\n```json\n{\"name\":\"f\",\"arguments\":{}}\n```\n".to_owned()),
        Just("<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>".to_owned()),
        Just("<think>why</think> so <tool_call>".to_owned()),
        Just("so. ".repeat(200)),
        ("[ \na-c]{0,6}", Just(r#"{"name":"f","arguments":{"a":1}}"#), "[ \na-c]{0,6}").prop_map(|(a, b, c)| [a.as_str(), b, &c].concat()),
        "[ \na-c\u{e9}{}\"]{0,12}",
    ];
    let message = prop_oneof![Just("  ".to_owned()), "[ \na-c\u{1F600}\"\\\\]{0,10}"]
        .prop_map(|message| serde_json::json!({"message": message}).to_string());
    let broken = message.clone().prop_map(|whole| whole.chars().take(whole.chars().count() / 2).collect::<String>());
    let call = prop_oneof![
        message.prop_map(|arguments| ("respond", arguments)),
        broken.prop_map(|arguments| ("respond", arguments)),
        Just(("respond", r#"{"text":"other"}"#.to_owned())),
        Just(("respond", "{'message': 'almost'}".to_owned())),
        Just(("respond", r#"{"message":3}"#.to_owned())),
        Just(("f", r#"{"a":1}"#.to_owned())),
        Just(("f", r#"{"a":"1"}"#.to_owned())),
        Just(("f", "{'a': 1,}".to_owned())),
        Just(("f", r#"{"a":"one"}"#.to_owned())),
        Just(("f", r#"{"a":"#.to_owned())),
        Just(("unknown", "{}".to_owned())),
    ];
    let finish = prop_oneof![4 => Just(FinishReason::Stop), 1 => Just(FinishReason::Length)];
    ("[a-c]{0,5}", text, proptest::collection::vec(call, 0..4), finish).prop_map(|(reasoning, text, calls, finish)| Said {
        reasoning,
        text,
        calls,
        finish,
    })
}

fn request(parallel: bool, tool_choice: ToolChoice) -> Request {
    let parameters = Bytes::from_static(br#"{"type":"object","properties":{"a":{"type":"integer"}}}"#);
    let tools = vec![Tool { name: "f".into(), parameters }];
    let tools_json = Bytes::from_static(br#"[{"type":"function","function":{"name":"f"}}]"#);
    Request { tools, tools_json, tool_choice, parallel_tool_calls: parallel, ..Request::default() }
}

fn config() -> impl Strategy<Value = Config> {
    let reasoning = prop_oneof![Just(Reasoning::Live), Just(Reasoning::Hold), Just(Reasoning::Drop)];
    let on_text = prop_oneof![Just(OnText::Auto), Just(OnText::Nudge), Just(OnText::Accept)];
    let tool_arguments = prop_oneof![Just(ToolArguments::Validated), Just(ToolArguments::Live)];
    let held_bytes_max = prop_oneof![3 => Just(64 << 10), 1 => Just(8usize)];
    (reasoning, on_text, tool_arguments, held_bytes_max).prop_map(|(reasoning, on_text, tool_arguments, held_bytes_max)| Config {
        guardrails: Guardrails::ALL,
        max_retries: 3,
        max_tool_errors: 2,
        constrain: Constrain::OnRetry,
        retry_sampling: RetrySampling::default(),
        reasoning,
        on_text,
        tool_arguments,
        repetitions_max: 1,
        reasoning_replay: Replay::None,
        held_bytes_max,
        reply_bytes_max: 1 << 20,
    })
}

/// Runs `replies` cut into pieces of `size`, and checks what holds for every stream. Returns what a client makes of it.
fn answer(replies: &[Said], size: usize, mixed: bool, request: &Request, config: &Config) -> Result<String, String> {
    let script = Script(Mutex::new(replies.iter().map(|reply| reply.events(size, mixed)).collect()));
    let engine = Arc::new(Engine::new(Arc::new(script), config.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let events: Vec<Result<Event, Error>> =
        runtime.block_on(engine.complete(Arc::new(request.clone()), Guardrails::ALL, Watch::default()).collect());
    let mut reply = Reply::default();
    let (mut begun, mut ended, mut settled) = (0, 0, 0);
    for event in events {
        let event = event.map_err(|error| error.to_string())?;
        match &event {
            Event::Started(_) => begun += 1,
            Event::Settled(_) => settled += 1,
            Event::Finished(_) => ended += 1,
            Event::Usage(_) => assert_eq!(ended, 1, "usage follows the end"),
            _ => assert_eq!((begun, ended), (1, 0), "what is said stands between beginning and end"),
        }
        reply.add(event);
    }
    assert_eq!((begun, ended, settled), (1, 1, 1));
    for call in reply.calls.iter().filter(|_| request.tool_choice != ToolChoice::None) {
        assert!(call.name == "f" && ["{}", r#"{"a":1}"#].contains(&call.arguments.as_str()), "an answer with a wrong call: {call:?}");
    }
    let calls: Vec<_> = reply.calls.iter().map(|call| (&call.name, &call.arguments)).collect();
    let Reply { meta, reasoning, content, finish, usage, report, .. } = &reply;
    // As a client reads it: how long an attempt took is no part of it.
    let report = serde_json::to_string(report).unwrap();
    Ok(format!("{meta:?} {reasoning:?} {content:?} {calls:?} {finish:?} {usage:?} {report}"))
}

proptest! {
    #[test]
    fn the_answer_does_not_depend_on_the_pieces(
        replies in proptest::collection::vec(said(), 1..4),
        size in 1usize..9,
        parallel in any::<bool>(),
        choice in prop_oneof![Just(ToolChoice::Auto), Just(ToolChoice::Required), Just(ToolChoice::None), Just(ToolChoice::Named("f".into()))],
        config in config(),
    ) {
        let request = request(parallel, choice);
        prop_assert_eq!(answer(&replies, size, false, &request, &config), answer(&replies, 1 << 20, false, &request, &config));
    }

    #[test]
    fn arguments_that_come_mixed_break_no_rule(
        replies in proptest::collection::vec(said(), 1..4),
        size in 1usize..9,
        parallel in any::<bool>(),
        config in config(),
    ) {
        // What is shown first may depend on the order here; that nothing is shown twice or after the end is checked in `answer`.
        let _ = answer(&replies, size, true, &request(parallel, ToolChoice::Auto), &config);
    }
}
