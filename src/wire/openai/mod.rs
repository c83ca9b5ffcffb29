//! OpenAI's chat completion objects as backends send them, with the liberties that they take.
//!
//! Source: OpenAI API reference 2.3.0, and what llama-server b11434 answers. Every field may be absent or null. A text or a number
//! that is something else is as if it were absent, since a reply is worth more than one of its fields.

mod error;
mod said;
mod scalar;
mod tally;
mod usage;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::error::ErrorBody;
pub use self::said::{Said, Voice};
pub use self::scalar::Scalar;
pub use self::tally::Tally;
pub use self::usage::Usage;

/// One `chat.completion.chunk`, a whole `chat.completion`, or the error object that some servers send in their place.
#[derive(Debug, Deserialize)]
pub struct Chunk<'a> {
    /// The completion's id.
    #[serde(borrow, default)]
    pub id: Scalar<'a>,
    /// What it is. vLLM and SGLang had `error` here, and the error's fields beside it.
    #[serde(borrow, default)]
    pub object: Scalar<'a>,
    /// Seconds since 1970; a whole number by the book.
    #[serde(borrow, default)]
    pub created: Scalar<'a>,
    /// The model that answers.
    #[serde(borrow, default)]
    pub model: Scalar<'a>,
    /// The backend's build.
    #[serde(borrow, default)]
    pub system_fingerprint: Scalar<'a>,
    /// The choices; toolgate asks for one.
    #[serde(borrow, default)]
    pub choices: Option<Vec<Choice<'a>>>,
    /// Token counts, in the last chunk when asked for.
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    /// What Groq adds to its first and last chunk.
    #[serde(borrow, default)]
    pub x_groq: Option<Groq<'a>>,
    /// How long the server took for what: llama-server's own field, in the last chunk.
    #[serde(borrow, default)]
    pub timings: Option<&'a RawValue>,
    /// A failure after the status was sent.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// Groq's additions.
#[derive(Debug, Deserialize)]
pub struct Groq<'a> {
    /// Token counts.
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    /// Why the stream ends early.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// One choice of a chunk or of a completion.
#[derive(Debug, Deserialize)]
pub struct Choice<'a> {
    /// Which choice.
    #[serde(borrow, default)]
    pub index: Scalar<'a>,
    /// What was said since the last chunk.
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    /// All that was said, in a whole completion.
    #[serde(borrow, default)]
    pub message: Option<Delta<'a>>,
    /// Log probabilities of the delta.
    #[serde(borrow, default)]
    pub logprobs: Option<&'a RawValue>,
    /// Why the reply ended, in the last chunk of the choice.
    #[serde(borrow, default)]
    pub finish_reason: Scalar<'a>,
    /// Moonshot's token counts.
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    /// OpenRouter's failure.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// What was said since the last chunk, or a whole message.
#[derive(Debug, Deserialize)]
pub struct Delta<'a> {
    /// Text.
    #[serde(borrow, default)]
    pub content: Option<Said<'a>>,
    /// Reasoning, in llama-server's, DeepSeek's and SGLang's field.
    #[serde(borrow, default)]
    pub reasoning_content: Option<Said<'a>>,
    /// Reasoning, in the field of vLLM since 0.19, OpenRouter, Groq and LM Studio.
    #[serde(borrow, default)]
    pub reasoning: Option<Said<'a>>,
    /// Reasoning, in the field of Ollama and of what is modelled after it.
    #[serde(borrow, default)]
    pub thinking: Option<Said<'a>>,
    /// Reasoning in parts: OpenRouter's, which mostly repeats `reasoning`.
    #[serde(borrow, default)]
    pub reasoning_details: Option<Said<'a>>,
    /// A refusal.
    #[serde(borrow, default)]
    pub refusal: Option<Said<'a>>,
    /// Pieces of calls.
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// A piece of a call.
#[derive(Debug, Deserialize)]
pub struct CallDelta<'a> {
    /// Which call it belongs to.
    #[serde(borrow, default)]
    pub index: Scalar<'a>,
    /// The call's id, in its first piece.
    #[serde(borrow, default)]
    pub id: Scalar<'a>,
    /// Name and arguments.
    #[serde(borrow, default)]
    pub function: Option<FunctionDelta<'a>>,
}

/// Name and arguments of a call, in pieces.
#[derive(Debug, Deserialize)]
pub struct FunctionDelta<'a> {
    /// The name, in the call's first piece.
    #[serde(borrow, default)]
    pub name: Scalar<'a>,
    /// The next piece of the arguments: a string by the book, an object from some servers.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_chunk_may_be_null() {
        let chunk: Chunk<'_> = serde_json::from_str(
            r#"{"id":null,"choices":[{"index":0,"delta":{"role":null,"content":null,"tool_calls":null},"logprobs":null,"finish_reason":null}],"usage":null,"x":1}"#,
        )
        .unwrap();
        assert!(chunk.choices.unwrap()[0].delta.as_ref().unwrap().content.is_none());
    }
}
