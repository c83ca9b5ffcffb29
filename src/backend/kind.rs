//! The kinds of model servers, and the settings of one server.

use std::{sync::Arc, time::Duration};

use super::{
    Server, Slot, Target,
    anthropic::{self, Anthropic},
    llama_server::{self, LlamaServer},
    ollama::{self, Ollama},
    openai::{self, OpenAi},
    target,
};
use crate::{
    chat::Request,
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
    /// Whether requests that do not say how to sample are sampled as the model's maker recommends.
    pub recommended_sampling: bool,
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
    /// Ollama, by its own API.
    Ollama(ollama::Config),
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
    /// As an Ollama declares for a model when it is first heard of: in the prompt where tools are not among what the model can do. Natively
    /// for all other servers, which take tools for any model.
    Auto,
}

impl Tools {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Prompt => "prompt",
            Self::Auto => "auto",
        }
    }
}

impl Kind {
    /// The word in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::LlamaServer(_) => "llama_server",
            Self::OpenAi(_) => "openai",
            Self::Ollama(_) => "ollama",
            Self::Anthropic(_) => "anthropic",
        }
    }

    /// Where it listens unless told otherwise.
    pub fn default_url(&self) -> &'static str {
        match self {
            Self::LlamaServer(_) => "http://127.0.0.1:8080",
            // vLLM.
            Self::OpenAi(_) => "http://127.0.0.1:8000",
            Self::Ollama(_) => "http://127.0.0.1:11434",
            Self::Anthropic(_) => "https://api.anthropic.com",
        }
    }

    /// The header in which it looks for a key.
    pub fn slot(&self) -> Slot {
        match self {
            Self::LlamaServer(_) | Self::OpenAi(_) | Self::Ollama(_) => Slot::Authorization,
            Self::Anthropic(_) => Slot::ApiKey,
        }
    }

    /// Whether it takes a chat completion as the client wrote it.
    pub fn is_native(&self) -> bool {
        match self {
            Self::LlamaServer(_) | Self::OpenAi(_) => true,
            // Its own chat completions leave out what only its own API can say, such as how long the context is.
            Self::Ollama(_) | Self::Anthropic(_) => false,
        }
    }

    /// Whether a required call is better asked for by a form than by `tool_choice`, see [`super::Needs`].
    pub(super) fn wants_form_when_required(&self) -> bool {
        match self {
            // Ollama ignores `tool_choice`.
            Self::LlamaServer(_) | Self::Ollama(_) => true,
            Self::OpenAi(_) | Self::Anthropic(_) => false,
        }
    }

    /// How long a request waits while the server loads its model, where nobody else may answer.
    pub(super) fn load_timeout(&self) -> Duration {
        match self {
            Self::LlamaServer(config) => config.load_timeout,
            Self::OpenAi(_) | Self::Ollama(_) | Self::Anthropic(_) => Duration::ZERO,
        }
    }

    /// Whether it lists what its models can do, and refuses tools for those that take none.
    pub(super) fn declares_tools(&self) -> bool {
        match self {
            Self::LlamaServer(_) | Self::OpenAi(_) | Self::Anthropic(_) => false,
            Self::Ollama(_) => true,
        }
    }

    /// `request` as it takes it; `None` when that is as it is.
    pub(super) fn adapted(&self, request: &Request) -> Option<Request> {
        match self {
            Self::LlamaServer(config) => config.adapted(request),
            Self::OpenAi(config) => config.adapted(request),
            Self::Ollama(_) | Self::Anthropic(_) => None,
        }
    }

    /// The server of this kind at `target`.
    pub(super) fn server(&self, target: &Arc<Target>) -> Arc<dyn Server> {
        let target = Arc::clone(target);
        match self {
            Self::LlamaServer(config) => Arc::new(LlamaServer::new(target, config.clone())),
            Self::OpenAi(config) => Arc::new(OpenAi::new(target, config.clone())),
            Self::Ollama(config) => Arc::new(Ollama::new(target, config.clone())),
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
