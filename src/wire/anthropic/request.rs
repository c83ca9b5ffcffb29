//! A request for a message, as it is written. What is given as JSON already, such as schemas and arguments, keeps its spelling.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// The body of `POST /v1/messages`.
#[derive(Debug, Serialize)]
pub struct Request<'a> {
    /// The model asked.
    pub model: &'a str,
    /// How many tokens the reply may have, thinking included.
    pub max_tokens: u64,
    /// Text blocks that stand before the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<Block<'a>>,
    /// The conversation, user and assistant in turn.
    pub messages: Vec<Message<'a>>,
    /// The tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool<'a>>,
    /// Which of them is to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice<'a>>,
    /// Whether the model thinks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking<'a>>,
    /// The form of the reply's text, and how hard the model tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_config: Option<OutputConfig<'a>>,
    /// From 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// From 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// How many tokens are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// Texts that end the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Who asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Whether the reply is streamed.
    pub stream: bool,
}

/// Whose turn a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user's, and what tools say.
    User,
    /// The model's.
    Assistant,
}

/// One turn.
#[derive(Debug, Serialize)]
pub struct Message<'a> {
    /// Whose it is.
    pub role: Role,
    /// What it is made of; never empty.
    pub content: Vec<Block<'a>>,
}

/// A piece of a turn.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Block<'a> {
    /// One that is written here.
    Made(Made<'a>),
    /// One that goes back as it came, such as signed thinking.
    Given(&'a RawValue),
}

/// A block with its type.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Made<'a> {
    /// Text, never blank.
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// Whether the prompt is cached up to here.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A picture.
    Image {
        /// Where it is.
        source: Source<'a>,
        /// Whether the prompt is cached up to here.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A file, which is a PDF.
    Document {
        /// Its bytes.
        source: Source<'a>,
        /// What it is called.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
        /// Whether the prompt is cached up to here.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A call that the model made.
    ToolUse {
        /// What its result refers to.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// Its arguments, an object.
        input: Box<RawValue>,
    },
    /// What a tool said.
    ToolResult {
        /// The call.
        tool_use_id: Cow<'a, str>,
        /// Texts and pictures.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        /// Whether the call failed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Whether the prompt is cached up to here.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl<'a> Block<'a> {
    /// A block of text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Made(Made::Text { text: text.into(), cache_control: None })
    }

    /// Asks that the prompt be cached up to this block, where that can be asked of one.
    pub fn mark(&mut self) {
        match self {
            Self::Made(
                Made::Text { cache_control, .. }
                | Made::Image { cache_control, .. }
                | Made::Document { cache_control, .. }
                | Made::ToolResult { cache_control, .. },
            ) => *cache_control = Some(CacheControl::EPHEMERAL),
            Self::Made(Made::ToolUse { .. }) | Self::Given(_) => {}
        }
    }
}

/// Where a picture or a file is.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source<'a> {
    /// Here.
    Base64 {
        /// Such as `image/png`.
        media_type: Cow<'a, str>,
        /// Its bytes in base64.
        data: Cow<'a, str>,
    },
    /// At an address that the server fetches.
    Url {
        /// The address.
        url: Cow<'a, str>,
    },
}

/// A mark up to which the prompt is cached. A request may have four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl CacheControl {
    /// Kept for the default time, some minutes.
    pub const EPHEMERAL: Self = Self { kind: "ephemeral" };
}

/// A tool.
#[derive(Debug, Serialize)]
pub struct Tool<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// What it is for, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a RawValue>,
    /// The schema of its arguments, which is of type `object`.
    pub input_schema: Cow<'a, RawValue>,
    /// Whether the prompt is cached up to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// Which tool is to be called.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolChoice<'a> {
    /// The model decides.
    Auto {
        /// One call at most.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    /// Some tool.
    Any {
        /// One call exactly.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    /// This tool.
    Tool {
        /// Its name.
        name: &'a str,
        /// One call exactly.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    /// None.
    None,
}

/// Whether and how the model thinks before it speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thinking<'a> {
    /// For so many tokens at most: at least 1024, and less than the reply may have.
    Enabled {
        /// How many.
        budget_tokens: u64,
        /// `summarized` or `omitted`.
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Cow<'a, str>>,
    },
    /// As long as it finds right.
    Adaptive {
        /// `summarized` or `omitted`.
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Cow<'a, str>>,
    },
    /// Not at all.
    Disabled,
}

/// The form of the reply's text, and how hard the model tries.
#[derive(Debug, Default, Serialize)]
pub struct OutputConfig<'a> {
    /// `low`, `medium`, `high`, `xhigh` or `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<&'static str>,
    /// The form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format<'a>>,
}

/// A form of text.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Format<'a> {
    /// JSON.
    JsonSchema {
        /// What it satisfies.
        schema: Cow<'a, RawValue>,
    },
}

/// Who asks.
#[derive(Debug, Serialize)]
pub struct Metadata {
    /// An opaque name of the user.
    pub user_id: String,
}
