//! OpenAI's chat completion objects as backends send them, with the liberties that they take.
//!
//! Source: OpenAI API reference 2.3.0, and what llama-server b11434 answers. Every field may be absent or null.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON string, borrowed from the chunk where it holds no escape. (`Option<Cow<str>>` itself would always allocate.)
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Text<'_> {
    /// The text, kept.
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

/// One `chat.completion.chunk`, or the error object that some servers send in its place.
#[derive(Debug, Deserialize)]
pub struct Chunk<'a> {
    /// The completion's id.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// Seconds since 1970; a whole number by the book.
    #[serde(default)]
    pub created: Option<f64>,
    /// The model that answers.
    #[serde(borrow, default)]
    pub model: Option<Text<'a>>,
    /// The backend's build.
    #[serde(borrow, default)]
    pub system_fingerprint: Option<Text<'a>>,
    /// The choices; toolgate asks for one.
    #[serde(borrow, default)]
    pub choices: Option<Vec<Choice<'a>>>,
    /// Token counts, in the last chunk when asked for.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// How long the server took for what: llama-server's own field, in the last chunk.
    #[serde(borrow, default)]
    pub timings: Option<&'a RawValue>,
    /// A failure after the status was sent.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// One choice of a chunk.
#[derive(Debug, Deserialize)]
pub struct Choice<'a> {
    /// Which choice.
    #[serde(default)]
    pub index: Option<u32>,
    /// What was said since the last chunk.
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    /// Log probabilities of the delta.
    #[serde(borrow, default)]
    pub logprobs: Option<&'a RawValue>,
    /// Why the reply ended, in the last chunk of the choice.
    #[serde(borrow, default)]
    pub finish_reason: Option<Text<'a>>,
}

/// What was said since the last chunk.
#[derive(Debug, Deserialize)]
pub struct Delta<'a> {
    /// Text.
    #[serde(borrow, default)]
    pub content: Option<Text<'a>>,
    /// Reasoning, in llama-server's and DeepSeek's field.
    #[serde(borrow, default)]
    pub reasoning_content: Option<Text<'a>>,
    /// A refusal.
    #[serde(borrow, default)]
    pub refusal: Option<Text<'a>>,
    /// Pieces of calls.
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// A piece of a call.
#[derive(Debug, Deserialize)]
pub struct CallDelta<'a> {
    /// Which call it belongs to.
    #[serde(default)]
    pub index: Option<usize>,
    /// The call's id, in its first piece.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// Name and arguments.
    #[serde(borrow, default)]
    pub function: Option<FunctionDelta<'a>>,
}

/// Name and arguments of a call, in pieces.
#[derive(Debug, Deserialize)]
pub struct FunctionDelta<'a> {
    /// The name, in the call's first piece.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// The next piece of the arguments: a string by the book, an object from some servers.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

/// Token counts.
#[derive(Debug, Default, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    #[serde(default)]
    pub completion_tokens: Option<u64>,
    /// How many of the prompt's came from the cache.
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptDetails>,
    /// How many of the generated were reasoning.
    #[serde(default)]
    pub completion_tokens_details: Option<CompletionDetails>,
}

/// The prompt's tokens in detail.
#[derive(Debug, Default, Deserialize)]
pub struct PromptDetails {
    /// Those that came from the cache.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
}

/// The generated tokens in detail.
#[derive(Debug, Default, Deserialize)]
pub struct CompletionDetails {
    /// Those that were reasoning.
    #[serde(default)]
    pub reasoning_tokens: Option<u64>,
}

/// The part of an error answer that a client may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// The sentence, `None` when the body holds none in a known place.
    pub message: Option<String>,
    /// OpenAI's `type`.
    pub kind: Option<String>,
    /// OpenAI's `param`.
    pub param: Option<String>,
    /// OpenAI's `code`, when it is a word.
    pub code: Option<String>,
    /// `code` when it is a number: some servers repeat the status there.
    pub status: Option<u16>,
}

impl ErrorBody {
    /// Reads `{"error":{…}}`, `{"error":"…"}`, `{"message":…}` and `{"detail":…}`; anything else yields nothing, so that no raw
    /// body is ever shown.
    pub fn read(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else { return Self::default() };
        let error = value.get("error").unwrap_or(&value);
        let text = |key: &str| error.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        Self {
            message: text("message").or_else(|| text("detail")).or_else(|| error.as_str().map(str::to_owned)),
            kind: text("type"),
            param: text("param"),
            code: text("code"),
            status: error.get("code").and_then(serde_json::Value::as_u64).and_then(|code| u16::try_from(code).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_error_bodies_of_known_servers() {
        let read = |body: &str| ErrorBody::read(body.as_bytes());
        let llama = read(r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#);
        assert_eq!((llama.message.as_deref(), llama.status), (Some("Loading model"), Some(503)));
        assert_eq!(read(r#"{"error":"model not found"}"#).message.as_deref(), Some("model not found"));
        assert_eq!(read(r#"{"detail":"no"}"#).message.as_deref(), Some("no"));
        assert_eq!(read("<html>secret</html>"), ErrorBody::default());
        assert_eq!(read(r#"{"error":{"message":"m","code":"c","param":"p","type":"t"}}"#).code.as_deref(), Some("c"));
    }

    #[test]
    fn every_field_of_a_chunk_may_be_null() {
        let chunk: Chunk<'_> = serde_json::from_str(
            r#"{"id":null,"choices":[{"index":0,"delta":{"role":null,"content":null,"tool_calls":null},"logprobs":null,"finish_reason":null}],"usage":null,"x":1}"#,
        )
        .unwrap();
        assert!(chunk.choices.unwrap()[0].delta.as_ref().unwrap().content.is_none());
    }
}
