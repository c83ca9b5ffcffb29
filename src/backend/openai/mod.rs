//! Any server that speaks OpenAI's chat completions: vLLM, SGLang, LM Studio, what is hosted.

mod calls;
mod encode;
pub(super) mod models;
mod translate;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use hyper::header::{ACCEPT, CONTENT_TYPE};

pub(super) use self::{encode::body, translate::Translator};
use super::{
    Backend, Error, Events, Model, Prompt, Server, Target,
    readiness::Readiness,
    stream::{self, Framing, Opened},
};
use crate::chat::Request;

const PATH: &str = "/v1/chat/completions";

/// The settings of such a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The name under which the server takes the limit of a reply.
    pub max_tokens_field: MaxTokensField,
    /// Whether usage is asked for with `stream_options`, which some old servers and gateways refuse. Without it most tell none.
    pub stream_options: bool,
}

impl Config {
    /// `request` as the server takes it; `None` when it takes it as it is.
    pub(super) fn adapted(&self, request: &Request) -> Option<Request> {
        const OLD: &str = "max_tokens";
        const NEW: &str = "max_completion_tokens";
        let (wanted, other) = match self.max_tokens_field {
            MaxTokensField::AsSent => ("", ""),
            MaxTokensField::MaxTokens => (OLD, NEW),
            MaxTokensField::MaxCompletionTokens => (NEW, OLD),
        };
        let refuses = |name: &str| name == other || (name == "stream_options" && !self.stream_options);
        if !request.fields.iter().any(|(name, _)| refuses(name)) {
            return None;
        }
        let mut adapted = request.clone();
        // Where the client wrote both, the one that the server takes stands.
        if request.field(wanted).is_none() {
            adapted.fields.iter_mut().filter(|(name, _)| name == other).for_each(|(name, _)| wanted.clone_into(name));
        }
        adapted.fields.retain(|(name, _)| !refuses(name));
        Some(adapted)
    }
}

impl Default for Config {
    /// What nearly all servers take.
    fn default() -> Self {
        Self { max_tokens_field: MaxTokensField::AsSent, stream_options: true }
    }
}

/// A name for the limit of a reply. OpenAI's own models that reason refuse `max_tokens`, old servers do not know its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// As the client wrote it.
    AsSent,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// A server of chat completions.
#[derive(Debug, Clone)]
pub struct OpenAi {
    target: Arc<Target>,
    config: Config,
}

impl OpenAi {
    /// The server at `target`.
    pub fn new(target: Arc<Target>, config: Config) -> Self {
        Self { target, config }
    }
}

impl Backend for OpenAi {
    fn stream(&self, mut prompt: Prompt) -> Events {
        let Self { target, config } = self.clone();
        if let Some(adapted) = config.adapted(&prompt.request) {
            prompt.request = Arc::new(adapted);
        }
        stream::events(async move { open(&target, &prompt, body(&prompt, config.stream_options, &[])).await })
    }
}

impl Server for OpenAi {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(models::of(&self.target))
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(self.target.readiness())
    }
}

/// Sends `body`, which is what `prompt` asks. Fails unless the answer begins well.
pub(super) async fn open(target: &Arc<Target>, prompt: &Prompt, body: Bytes) -> Result<Opened<Translator>, Error> {
    let caller = prompt.request.credential.as_ref();
    let path = match &prompt.request.query {
        None => Cow::Borrowed(PATH),
        Some(query) => Cow::Owned(format!("{PATH}?{query}")),
    };
    let request = target
        .request(&path, caller)
        .method("POST")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(body)
        .map_err(|_| Error::Protocol("the request has no valid address"))?;
    let response = target.send(request).await?;
    if !response.status().is_success() {
        return Err(target.refusal(response, caller).await);
    }
    let framing = Framing::of_reply(response.headers()).ok_or(Error::Protocol("it is no chat completion"))?;
    let translator = Translator::new(Arc::clone(target), Arc::clone(&prompt.request));
    Ok(Opened { body: response.into_body(), framing, translator })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fields;

    #[test]
    fn the_limit_goes_up_under_the_name_that_the_server_takes() {
        use MaxTokensField::{AsSent, MaxCompletionTokens, MaxTokens};
        let check = |max_tokens_field, fields: &'static str, expected: Option<&str>| {
            let fields = fields::object(&Bytes::from_static(fields.as_bytes())).unwrap();
            let config = Config { max_tokens_field, stream_options: false };
            let adapted = config.adapted(&Request { fields, ..Request::default() });
            let written = adapted.map(|request| {
                let fields: Vec<_> =
                    request.fields.iter().map(|(name, value)| format!("{name}:{}", std::str::from_utf8(value).unwrap())).collect();
                fields.join(",")
            });
            assert_eq!(written.as_deref(), expected);
        };
        check(AsSent, r#"{"max_tokens":9,"max_completion_tokens":8}"#, None);
        check(MaxCompletionTokens, r#"{"max_tokens":9,"n":1}"#, Some("max_completion_tokens:9,n:1"));
        check(MaxTokens, r#"{"n":1,"max_completion_tokens":9}"#, Some("n:1,max_tokens:9"));
        check(MaxTokens, r#"{"max_tokens":9}"#, None);
        check(MaxTokens, r#"{"max_tokens":9,"max_completion_tokens":8}"#, Some("max_tokens:9"));
        check(MaxCompletionTokens, r#"{"max_tokens":9,"max_completion_tokens":8}"#, Some("max_completion_tokens:8"));
        check(AsSent, r#"{"n":1,"stream_options":{}}"#, Some("n:1"));
    }
}
