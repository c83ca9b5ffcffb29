//! The kinds of model servers, and the settings of one server.

use std::{sync::Arc, time::Duration};

use super::{
    Server, Slot, Target,
    anthropic::{self, Anthropic},
    llama_server::{self, LlamaServer},
    openai::{self, OpenAi},
    target,
};
use crate::{
    resilience::{breaker, bulkhead},
    upstream,
};

/// The settings of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What it is called in the configuration and in `/health`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub target: target::Config,
    /// Whether it is asked for the models that no table names.
    pub is_default: bool,
    /// How it is shown tools.
    pub tools: Tools,
    /// Its models' chat templates refuse messages of one role in a row, and system messages but the first.
    pub strict_alternation: bool,
    /// How many requests it gets at once; `None` for as many as come.
    pub bulkhead: Option<bulkhead::Config>,
    /// How often it is asked whether it works, where there are others.
    pub probe_every: Option<Duration>,
    /// When it is stepped away from.
    pub breaker: breaker::Config,
}

/// What a backend is, with the settings of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// llama-server or a llamafile.
    LlamaServer(llama_server::Config),
    /// Any other server that speaks OpenAI's chat completions.
    OpenAi(openai::Config),
    /// A server that speaks Anthropic's Messages API.
    Anthropic(anthropic::Config),
}

/// How a backend is shown tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    /// In the field that it has for them.
    Native,
    /// Written into the prompt.
    Prompt,
    /// As the server declares for a model when it is first heard of: in the prompt where it lists what the model can do and tools are not
    /// among it.
    Auto,
}

impl Kind {
    /// The word in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::LlamaServer(_) => "llama_server",
            Self::OpenAi(_) => "openai",
            Self::Anthropic(_) => "anthropic",
        }
    }

    /// Where it listens unless told otherwise.
    pub fn default_url(&self) -> &'static str {
        match self {
            Self::LlamaServer(_) => "http://127.0.0.1:8080",
            // vLLM.
            Self::OpenAi(_) => "http://127.0.0.1:8000",
            Self::Anthropic(_) => "https://api.anthropic.com",
        }
    }

    /// The header in which it looks for a key.
    pub fn slot(&self) -> Slot {
        match self {
            Self::LlamaServer(_) | Self::OpenAi(_) => Slot::Authorization,
            Self::Anthropic(_) => Slot::ApiKey,
        }
    }

    /// Whether it takes a chat completion as the client wrote it.
    pub fn is_native(&self) -> bool {
        match self {
            Self::LlamaServer(_) | Self::OpenAi(_) => true,
            Self::Anthropic(_) => false,
        }
    }

    /// Whether it refuses tools for models that it declares cannot take them.
    pub(super) fn declares_tools(&self) -> bool {
        match self {
            Self::LlamaServer(_) | Self::OpenAi(_) | Self::Anthropic(_) => false,
        }
    }

    /// The server of this kind at `target`.
    pub(super) fn server(&self, target: &Arc<Target>) -> Arc<dyn Server> {
        let target = Arc::clone(target);
        match self {
            Self::LlamaServer(config) => Arc::new(LlamaServer::new(target, *config)),
            Self::OpenAi(config) => Arc::new(OpenAi::new(target, *config)),
            Self::Anthropic(config) => Arc::new(Anthropic::new(target, config.clone())),
        }
    }
}

impl Config {
    /// The target that these settings describe.
    pub(super) fn target(&self, upstream: upstream::Config) -> Arc<Target> {
        Arc::new(Target::new(self.target.clone(), upstream))
    }
}
