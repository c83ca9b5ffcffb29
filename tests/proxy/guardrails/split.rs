//! Whatever a model says and wherever the network cuts its bytes, the folded stream is the answer that comes without one.

use std::time::Duration;

use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use toolgate::inference::{OnText, ToolArguments};

use crate::harness::{Proxy, Reply, Upstream, events, fold, question_with};

/// Some replies are given up, and each of those is waited for.
const CASES: u32 = 24;

#[derive(Debug, Clone)]
struct Said {
    thought: &'static str,
    text: String,
    calls: Vec<(&'static str, &'static str)>,
    finish: &'static str,
}

impl Said {
    fn reply(&self, bytes: usize) -> Reply {
        Reply::calls(&self.calls).saying(&self.text).thinking(self.thought).finishing(self.finish).in_tokens_of(3).in_pieces_of(bytes)
    }
}

fn said() -> impl Strategy<Value = Said> {
    let text = prop_oneof![
        Just(String::new()),
        Just("Let me see 😀. ".to_owned()),
        Just(r#"<think>é</think>{"name": "get_weather", "arguments": {"city": "Paris"}}"#.to_owned()),
        Just("So:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": 1}}\n```".to_owned()),
        "[ \na-cé{}\"<`]{0,12}",
    ];
    let call = prop_oneof![
        Just(("respond", r#"{"message":"a \"b\" \ud83d\ude00 é"}"#)),
        Just(("respond", r#"{"message":"cut"#)),
        Just(("get_weather", r#"{"city":"Paris"}"#)),
        Just(("get_weather", r#"{"city":1}"#)),
        Just(("wether", "{}")),
    ];
    let finish = prop_oneof![4 => Just("stop"), 1 => Just("length")];
    let thought = prop_oneof![Just(""), Just("Hm, é.")];
    (thought, text, proptest::collection::vec(call, 0..3), finish).prop_map(|(thought, text, calls, finish)| Said {
        thought,
        text,
        calls,
        finish,
    })
}

/// What a client makes of the answer: all of it but what differs from request to request.
async fn answer(said: &[Said], bytes: usize, on_text: OnText, tool_arguments: ToolArguments, stream: bool) -> Value {
    let upstream = Upstream::saying(said.iter().map(|said| said.reply(bytes))).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        (config.inference.on_text, config.inference.tool_arguments) = (on_text, tool_arguments);
        // An answer that failed has its status then, in a stream too.
        config.server.head_grace = Duration::from_secs(5);
    })
    .await;
    let answer = proxy.ask(&question_with(json!({"stream": stream, "stream_options": {"include_usage": true}}))).await;
    let event = answer.text().rsplit_once("data: {\"error\":").map(|(_, error)| format!("{{\"error\":{error}"));
    let mut whole = match event {
        Some(error) => serde_json::from_str(&error).unwrap(),
        None if stream && answer.status == 200 => fold(&events(&answer.body)),
        None => {
            let body = answer.json();
            let choice = &body["choices"][0];
            json!({"message": choice["message"], "finish_reason": choice["finish_reason"], "usage": body["usage"], "error": body["error"]})
        }
    };
    for call in whole["message"]["tool_calls"].as_array_mut().into_iter().flatten() {
        call.as_object_mut().unwrap().retain(|key, _| key == "function");
    }
    let message = ["content", "reasoning_content", "tool_calls"].map(|key| whole["message"][key].clone());
    // A stream has no delta for text that is empty.
    let message = message.map(|said| if said == "" { Value::Null } else { said });
    // What a reply cost that was given up is told or not, as it comes.
    json!({"error": whole["error"], "message": message, "finish_reason": whole["finish_reason"], "has_usage": whole["usage"].is_object()})
}

#[test]
fn the_folded_stream_is_the_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let on_text = prop_oneof![Just(OnText::Auto), Just(OnText::Accept)];
    let tool_arguments = prop_oneof![Just(ToolArguments::Validated), Just(ToolArguments::Live)];
    let cases = (proptest::collection::vec(said(), 1..3), 3usize..200, on_text, tool_arguments);
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    // The same cases each time: sockets cost too much for a long search, which the engine's own property tests do.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&cases, |(said, bytes, on_text, tool_arguments)| {
        runtime.block_on(async {
            let plain = answer(&said, 1 << 20, on_text, tool_arguments, false).await;
            prop_assert_eq!(answer(&said, bytes, on_text, tool_arguments, true).await, plain.clone());
            prop_assert_eq!(answer(&said, bytes, on_text, tool_arguments, false).await, plain);
            Ok(())
        })
    });
    outcome.unwrap();
}
