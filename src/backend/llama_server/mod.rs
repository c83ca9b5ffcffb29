//! llama-server, and any server that streams OpenAI's chat completion chunks the same way.

mod encode;
mod translate;

use super::{Backend, Error, Events, Prompt, Target};
use crate::{upstream, wire::sse};
use async_stream::try_stream;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    Request, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use std::{borrow::Cow, sync::Arc};
use translate::Translator;

/// One chunk of a stream is a few hundred bytes; a whole call in one chunk may be long.
const EVENT_BYTES_MAX: usize = 4 << 20;

const PATH: &str = "/v1/chat/completions";

/// A llama-server.
#[derive(Debug, Clone)]
pub struct LlamaServer {
    target: Arc<Target>,
}

impl LlamaServer {
    /// The server at `target`.
    pub fn new(target: Arc<Target>) -> Self {
        Self { target }
    }

    async fn open(&self, prompt: &Prompt) -> Result<upstream::Body, Error> {
        let caller = prompt.request.credential.as_ref();
        let path = match &prompt.request.query {
            None => Cow::Borrowed(PATH),
            Some(query) => Cow::Owned(format!("{PATH}?{query}")),
        };
        let request: Request<Bytes> = self
            .target
            .request(&path, caller)
            .method("POST")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(encode::body(prompt))
            .map_err(|_| Error::Protocol("the request has no valid address"))?;
        let response: Response<upstream::Body> = self.target.send(request).await?;
        if !response.status().is_success() {
            return Err(self.target.refusal(response, caller).await);
        }
        if !is_event_stream(response.headers()) {
            return Err(Error::Protocol("it did not stream"));
        }
        Ok(response.into_body())
    }
}

impl Backend for LlamaServer {
    fn stream(&self, prompt: Prompt) -> Events {
        let server = self.clone();
        Box::pin(try_stream! {
            let mut body = server.open(&prompt).await?;
            let mut decoder = sse::Decoder::new(EVENT_BYTES_MAX);
            let mut translator = Translator::new(&server.target, prompt.request.credential.as_ref());
            // Read to the very end, past `[DONE]`: only then does the connection go back to the pool.
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                decoder.push(&data);
                while let Some(payload) = decoder.next_event().map_err(|_| Error::Protocol("an event is too long"))? {
                    translator.read(payload)?;
                }
                while let Some(event) = translator.next() {
                    yield event;
                }
            }
            if let Some(event) = translator.finish()? {
                yield event;
            }
        })
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}
