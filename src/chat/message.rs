//! The messages that toolgate adds to a conversation. What the client sent is never decoded into these: it stays raw JSON.

/// One tool call of an assistant message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id that a tool result refers to; never empty once a reply was accumulated.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The JSON text of the arguments, unparsed: it may be broken.
    pub arguments: String,
}

/// A message appended to the transcript to correct the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What the model said, so that the correction has something to refer to.
    Assistant {
        /// Its text, possibly empty.
        content: String,
        /// Its calls; their arguments are JSON objects here, because backends parse what they are given.
        calls: Vec<Call>,
    },
    /// A correction in the user's role: `system` in mid-conversation breaks many chat templates.
    User(String),
    /// The answer to one call.
    Tool {
        /// The call that is answered.
        call_id: String,
        /// What the model reads.
        content: String,
    },
}

impl Message {
    /// How many bytes of text it has.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Assistant { content, calls } => {
                content.len() + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
            Self::User(content) | Self::Tool { content, .. } => content.len(),
        }
    }
}
