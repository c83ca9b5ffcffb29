//! llama-server, and llamafile, which is the same server: chat completions, and what only it has.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::{Backend, Error, Events, Model, Prompt, Server, Target, openai, readiness::Readiness, stream};

/// The settings of a llama-server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {}

/// A llama-server.
#[derive(Debug, Clone)]
pub struct LlamaServer {
    target: Arc<Target>,
}

impl LlamaServer {
    /// The server at `target`.
    pub fn new(target: Arc<Target>, _config: Config) -> Self {
        Self { target }
    }
}

impl Backend for LlamaServer {
    fn stream(&self, prompt: Prompt) -> Events {
        let target = Arc::clone(&self.target);
        stream::events(async move { openai::open(&target, &prompt, openai::body(&prompt)).await })
    }
}

impl Server for LlamaServer {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(self.target.readiness())
    }
}
