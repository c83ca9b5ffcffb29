//! The events of a streamed message and the list of models, as servers send them. Every field may be absent or null.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::text::Text;

/// One server-sent event, or a whole message from a server that does not stream. Its `type` says which of the fields it has.
#[derive(Debug, Deserialize)]
pub struct Event<'a> {
    /// `message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`, `message_delta`, `message_stop`, `ping`,
    /// `error`, `message`, or one that is yet to be invented.
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<Text<'a>>,
    /// The message that begins.
    #[serde(borrow, default)]
    pub message: Option<Start<'a>>,
    /// Which block is spoken of.
    #[serde(default)]
    pub index: Option<usize>,
    /// The block that begins.
    #[serde(borrow, default)]
    pub content_block: Option<Block<'a>>,
    /// More of a block, or of the message.
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    /// Token counts so far.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// A failure after the status was sent.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    /// The id of a whole message.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// The model of a whole message.
    #[serde(borrow, default)]
    pub model: Option<Text<'a>>,
    /// The blocks of a whole message.
    #[serde(borrow, default)]
    pub content: Option<Vec<Block<'a>>>,
    /// Why a whole message ended.
    #[serde(borrow, default)]
    pub stop_reason: Option<Text<'a>>,
}

/// A message that begins.
#[derive(Debug, Deserialize)]
pub struct Start<'a> {
    /// Its id.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// The model that answers.
    #[serde(borrow, default)]
    pub model: Option<Text<'a>>,
    /// Token counts of the prompt.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// A block that begins.
#[derive(Debug, Deserialize)]
pub struct Block<'a> {
    /// `text`, `thinking`, `redacted_thinking`, `tool_use`, and those of the server's own tools.
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<Text<'a>>,
    /// The beginning of a text, usually empty.
    #[serde(borrow, default)]
    pub text: Option<Text<'a>>,
    /// The beginning of thinking, usually empty.
    #[serde(borrow, default)]
    pub thinking: Option<Text<'a>>,
    /// A call's id.
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    /// A call's tool.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// A call's arguments: an empty object by the book, since they come in pieces; all of them from some servers.
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
}

/// More of a block, or how the message ends.
#[derive(Debug, Deserialize)]
pub struct Delta<'a> {
    /// More text.
    #[serde(borrow, default)]
    pub text: Option<Text<'a>>,
    /// More thinking.
    #[serde(borrow, default)]
    pub thinking: Option<Text<'a>>,
    /// More of a call's arguments.
    #[serde(borrow, default)]
    pub partial_json: Option<Text<'a>>,
    /// Why the message ended.
    #[serde(borrow, default)]
    pub stop_reason: Option<Text<'a>>,
    /// More about that.
    #[serde(borrow, default)]
    pub stop_details: Option<StopDetails<'a>>,
}

/// Why a message was refused.
#[derive(Debug, Deserialize)]
pub struct StopDetails<'a> {
    /// For a person.
    #[serde(borrow, default)]
    pub explanation: Option<Text<'a>>,
}

/// Token counts. Those of a stream's end are of the whole message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt that the cache had nothing to do with.
    #[serde(default)]
    pub input_tokens: Option<u64>,
    /// Tokens of the prompt that came from the cache.
    #[serde(default)]
    pub cache_read_input_tokens: Option<u64>,
    /// Tokens of the prompt that were put there.
    #[serde(default)]
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens generated.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// The generated tokens in detail.
    #[serde(default)]
    pub output_tokens_details: Option<OutputDetails>,
}

/// The generated tokens in detail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct OutputDetails {
    /// Those that were thinking.
    #[serde(default)]
    pub thinking_tokens: Option<u64>,
}

impl Usage {
    /// Takes over what `later` counts. The counts of the prompt belong together, and a server that has none at the end says nothing or zero.
    pub fn update(&mut self, later: Self) {
        if later.prompt_tokens() > 0 {
            self.input_tokens = later.input_tokens;
            self.cache_read_input_tokens = later.cache_read_input_tokens;
            self.cache_creation_input_tokens = later.cache_creation_input_tokens;
        }
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
    }

    /// All tokens of the prompt.
    pub fn prompt_tokens(&self) -> u64 {
        let parts = [self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens];
        parts.into_iter().flatten().fold(0, u64::saturating_add)
    }
}

/// The answer of `GET /v1/models`.
#[derive(Debug, Deserialize)]
pub struct Models<'a> {
    /// The models.
    #[serde(borrow)]
    pub data: Vec<Model<'a>>,
}

/// A model.
#[derive(Debug, Deserialize)]
pub struct Model<'a> {
    /// Its name in requests.
    #[serde(borrow)]
    pub id: Text<'a>,
    /// How many tokens a prompt may have.
    #[serde(default)]
    pub max_input_tokens: Option<u64>,
    /// What llama-server says about it.
    #[serde(default)]
    pub meta: Option<ModelMeta>,
    /// What it can do, where the server says so.
    #[serde(default)]
    pub capabilities: Option<Capabilities>,
}

/// What llama-server says about a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct ModelMeta {
    /// How many tokens its context holds as it is run.
    #[serde(default)]
    pub n_ctx: Option<u64>,
}

/// What a model can do, as far as toolgate tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Capabilities {
    /// It sees pictures.
    #[serde(default)]
    pub image_input: Support,
    /// It can think first.
    #[serde(default)]
    pub thinking: Support,
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Support {
    /// It is.
    #[serde(default)]
    pub supported: bool,
}
