//! Streamed answers as async-openai reads them, through toolgate, in front of a scripted backend (`scripted_backend.py`).
//!
//! It is the strictest of the clients: a chunk that lacks one field of OpenAI's form is an error. It folds nothing, so the folding is
//! done here. It has no way to name a field that OpenAI does not have: `reasoning_content` is dropped.
//!
//! It asks again by itself, up to three times, when the answer is a status 5xx.

use std::{collections::BTreeMap, env};

use async_openai::{Client, config::OpenAIConfig, error::OpenAIError, types::chat};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

// As scripted_backend.py says it.
const TEXT: &str = "She said \"hello\"\\ in Zürich 😀\nand left.";

/// What came of a stream.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    calls: BTreeMap<u32, Call>,
    finish_reason: Option<chat::FinishReason>,
    /// Prompt and completion tokens.
    usage: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Answer {
    fn add(&mut self, chunk: chat::CreateChatCompletionStreamResponse) {
        assert_eq!(chunk.object, "chat.completion.chunk");
        if let Some(usage) = chunk.usage {
            assert!(chunk.choices.is_empty(), "usage has a chunk of its own");
            self.usage = Some((usage.prompt_tokens, usage.completion_tokens));
        }
        for choice in chunk.choices {
            assert_eq!(choice.index, 0);
            assert!(self.finish_reason.is_none(), "a choice goes on after its finish reason");
            self.text += &choice.delta.content.unwrap_or_default();
            for part in choice.delta.tool_calls.unwrap_or_default() {
                let call = self.calls.entry(part.index).or_default();
                let function = part.function.unwrap();
                call.id += &part.id.unwrap_or_default();
                call.name += &function.name.unwrap_or_default();
                call.arguments += &function.arguments.unwrap_or_default();
            }
            self.finish_reason = choice.finish_reason;
        }
    }

    /// Names and arguments of the calls.
    fn calls(&self) -> Vec<(&str, Value)> {
        assert!(self.calls.values().all(|call| !call.id.is_empty()));
        self.calls.values().map(|call| (&*call.name, serde_json::from_str(&call.arguments).unwrap())).collect()
    }
}

/// Reads the answer of `script` to its end or its first error, into `answer`.
async fn fold(script: &str, answer: &mut Answer) -> Result<(), OpenAIError> {
    let client = Client::with_config(OpenAIConfig::new().with_api_base(format!("{}/v1", toolgate_url())).with_api_key("none"));
    let request = serde_json::from_value(json!({
        "model": script,
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {
            "name": "get_weather",
            "description": "Get the current weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }}],
    }))
    .unwrap();
    let mut stream = client.chat().create_stream(request).await?;
    while let Some(chunk) = stream.next().await {
        answer.add(chunk?);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "toolgate's rule; there is no config/ here")]
fn toolgate_url() -> String {
    env::var("SCRIPTED_TOOLGATE_URL").expect("SCRIPTED_TOOLGATE_URL names toolgate in front of the scripted backend")
}

async fn answer_of(script: &str) -> Answer {
    let mut answer = Answer::default();
    fold(script, &mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn what_the_model_says_through_respond_is_text() {
    let answer = answer_of("respond").await;
    assert_eq!(answer.text, TEXT);
    assert_eq!(answer.calls(), []);
    assert_eq!(answer.finish_reason, Some(chat::FinishReason::Stop));
    assert_eq!(answer.usage, Some((7, 5)));
}

#[tokio::test]
async fn a_tool_call() {
    let answer = answer_of("weather").await;
    assert_eq!(answer.text, "");
    assert_eq!(answer.calls(), [("get_weather", json!({"city": "Paris"}))]);
    assert_eq!(answer.finish_reason, Some(chat::FinishReason::ToolCalls));
    assert_eq!(answer.usage, Some((7, 5)));
}

#[tokio::test]
async fn reasoning_does_not_disturb_the_text() {
    let answer = answer_of("reasoning").await;
    assert_eq!(answer.text, TEXT);
    assert_eq!(answer.calls(), []);
    assert_eq!(answer.finish_reason, Some(chat::FinishReason::Stop));
}

#[tokio::test]
async fn a_corrected_attempt_is_not_seen() {
    let answer = answer_of("unknown-tool-first").await;
    assert_eq!(answer.text, "");
    assert_eq!(answer.calls(), [("get_weather", json!({"city": "Paris"}))]);
    assert_eq!(answer.finish_reason, Some(chat::FinishReason::ToolCalls));
}

/// An error event is no chunk, which is how this client sees it.
fn check_stream_error(error: &OpenAIError, message: &str) {
    let OpenAIError::JSONDeserialize(_, event) = error else { panic!("{error:?}") };
    let event: Value = serde_json::from_str(event).unwrap();
    assert!(event["error"]["message"].as_str().unwrap().contains(message), "{event}");
}

#[tokio::test]
async fn a_backend_that_dies_in_the_middle_is_an_error() {
    let mut answer = Answer::default();
    let error = fold("cut", &mut answer).await.unwrap_err();
    check_stream_error(&error, "connection broke");
    assert!(!answer.text.is_empty() && answer.text != TEXT && TEXT.starts_with(&answer.text), "{answer:?}");
    assert_eq!(answer.finish_reason, None);
}

/// The head with its status 200 has left, and nothing else.
#[tokio::test]
async fn a_late_refusal_is_an_error() {
    let mut answer = Answer::default();
    let error = fold("refuse-late", &mut answer).await.unwrap_err();
    check_stream_error(&error, "the model fell over");
    assert_eq!(answer.text, "");
}

#[tokio::test]
async fn an_error_before_anything_was_shown_has_its_status() {
    for (script, status, message) in [("refuse", 500, "fell over"), ("hang-up", 502, "connection broke")] {
        let error = fold(script, &mut Answer::default()).await.unwrap_err();
        let OpenAIError::ApiError(error) = error else { panic!("{script}: {error:?}") };
        assert_eq!(error.status_code.as_u16(), status);
        assert!(error.api_error.message.contains(message), "{error}");
    }
}
