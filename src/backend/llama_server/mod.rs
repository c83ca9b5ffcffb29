//! llama-server, and any server that streams OpenAI's chat completion chunks the same way.

mod encode;
mod translate;

use std::{borrow::Cow, sync::Arc, time::Duration};

use async_stream::try_stream;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::{
    Request, Response,
    body::Frame,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};

use self::translate::Translator;
use super::{Backend, Error, Events, Model, Prompt, Server, Target, readiness::Readiness};
use crate::{upstream, wire::sse};

/// One chunk of a stream is a few hundred bytes; a whole call in one chunk may be long.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// How long the end of the body may be behind `[DONE]`; usually it comes with it.
const AFTER_DONE: Duration = Duration::from_millis(50);
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
            while let Some(frame) = next_frame(&mut body, translator.is_done()).await? {
                let Ok(data) = frame.into_data() else { continue };
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

impl Server for LlamaServer {
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(self.target.readiness())
    }
}

/// The next frame of the body. After `[DONE]` everything is said: the body is read on only so that its connection can be used again, for a
/// moment and whatever happens.
async fn next_frame(body: &mut upstream::Body, done: bool) -> Result<Option<Frame<Bytes>>, Error> {
    if !done {
        return Ok(body.frame().await.transpose()?);
    }
    let end = tokio::time::timeout(AFTER_DONE, body.frame()).await;
    Ok(end.ok().flatten().and_then(Result::ok))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().get(..EVENT_STREAM.len()));
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case(EVENT_STREAM))
}
