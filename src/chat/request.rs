//! What a client asks for. The fields that toolgate acts on are typed; everything keeps the client's own bytes.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Problem;
use crate::secret::Secret;

/// A chat completion request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Every top-level field in the client's order, values as raw JSON: slices of the request body.
    pub fields: Vec<(String, Bytes)>,
    /// The JSON array of messages.
    pub messages: Bytes,
    /// The JSON array of tools; empty bytes when none are offered.
    pub tools_json: Bytes,
    /// The function tools in it, in order.
    pub tools: Vec<Tool>,
    /// Its tools of other types that have a name, which is all that is known of them.
    pub other_tools: Vec<Tool>,
    /// Which call the client wants.
    pub tool_choice: ToolChoice,
    /// Whether the reply may hold several calls.
    pub parallel_tool_calls: bool,
    /// How many alternative replies are wanted, OpenAI's `n`.
    pub choices: u64,
    /// Whether the client reads a stream.
    pub stream: bool,
    /// Whether that stream shall end in a usage chunk.
    pub include_usage: bool,
    /// The model asked for; empty when none was.
    pub model: String,
    /// The request's query string, without the question mark.
    pub query: Option<String>,
    /// The caller's `Authorization` header, whole.
    pub credential: Option<Secret>,
    /// What the request is called in logs and traces.
    pub id: String,
    /// What its conversation is called, where the client says so.
    pub session: Option<String>,
    /// Whether tools are chosen but not run.
    pub dry_run: bool,
    /// Whose tools are offered beside the client's own.
    pub servers: Servers,
}

/// Which MCP servers' tools a request may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Servers {
    /// Those that are offered to requests that do not say.
    #[default]
    Attached,
    /// None.
    Off,
    /// Those with these ids.
    Only(Vec<String>),
}

impl Request {
    /// The same request about other `messages`, a JSON array.
    pub fn with_messages(&self, messages: Bytes) -> Self {
        let mut request = Self { messages: Bytes::new(), ..self.clone() };
        request.set_messages(messages);
        request
    }

    /// Makes it a request about other `messages`, a JSON array.
    pub fn set_messages(&mut self, messages: Bytes) {
        for (_, value) in self.fields.iter_mut().filter(|(name, _)| name == "messages") {
            *value = messages.clone();
        }
        self.messages = messages;
    }
}

impl Request {
    /// Fails when a call is wanted that no tool can answer.
    pub fn check_choice(&self) -> Result<(), Problem> {
        let wrong = |message: String| Err(Problem::invalid("tool_choice", message));
        match &self.tool_choice {
            ToolChoice::Required if matches!(&self.tools_json[..], b"" | b"null" | b"[]") => {
                wrong("`tool_choice` is `required`, but no tools are given.".to_owned())
            }
            ToolChoice::Named(name) if !self.tools.iter().any(|tool| tool.name == *name) => {
                wrong(format!("`tool_choice` names `{name}`, which is not among `tools`."))
            }
            _ => Ok(()),
        }
    }

    /// The tools whose names no other tool may have.
    pub fn named_tools(&self) -> Cow<'_, [Tool]> {
        match &*self.other_tools {
            [] => Cow::Borrowed(&self.tools),
            others => self.tools.iter().chain(others).cloned().collect(),
        }
    }

    /// Puts raw JSON at a top-level field.
    pub fn set_field(&mut self, name: &str, value: Bytes) {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// A number that is the same for all requests of one conversation: made of its messages up to the first of the user.
    pub fn conversation(&self) -> u64 {
        let messages: Vec<&RawValue> = serde_json::from_slice(&self.messages).unwrap_or_default();
        let is_users = |message: &&&RawValue| serde_json::from_str::<Role<'_>>(message.get()).is_ok_and(|message| message.role == "user");
        let until = messages.iter().position(|message| is_users(&message)).unwrap_or(0);
        let mut hasher = DefaultHasher::new();
        messages.iter().take(until + 1).for_each(|message| message.get().hash(&mut hasher));
        hasher.finish()
    }
}

#[derive(Deserialize)]
struct Role<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
}

impl Default for Request {
    /// What OpenAI assumes about a request that says nothing.
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            messages: Bytes::new(),
            tools_json: Bytes::new(),
            tools: Vec::new(),
            other_tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            choices: 1,
            stream: false,
            include_usage: false,
            model: String::new(),
            query: None,
            credential: None,
            id: String::new(),
            session: None,
            dry_run: false,
            servers: Servers::Attached,
        }
    }
}

impl Request {
    /// The raw JSON of a top-level field.
    pub fn field(&self, name: &str) -> Option<&Bytes> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// A tool as far as toolgate looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its function name.
    pub name: String,
    /// Its JSON schema; empty bytes when it has none.
    pub parameters: Bytes,
}

/// OpenAI's `tool_choice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides; also when the field is absent.
    Auto,
    /// No calls: tools are withheld.
    None,
    /// Some call is due.
    Required,
    /// A call of this tool is due.
    Named(String),
    /// Something that only the backend reads, such as `allowed_tools`.
    Other,
}
