//! The way from a response's body to the events of a reply, the same for every server that streams server-sent events: the body is cut
//! into payloads, a translator reads them, and what it reads is told at once.
//!
//! Bounded in every wait and every size. When the translator says that all is said, no more is waited for.

use std::{future::Future, time::Duration};

use async_stream::try_stream;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{
    body::Frame,
    header::{CONTENT_TYPE, HeaderMap},
};

use super::{Error, Events};
use crate::{chat::Event, upstream, wire::sse};

/// One chunk of a stream is a few hundred bytes; a whole call in one chunk, or a whole answer, may be long.
const PAYLOAD_BYTES_MAX: usize = 4 << 20;
/// How long the end of the body may be behind the last payload; usually it comes with it.
const AFTER_DONE: Duration = Duration::from_millis(50);

/// Reads one reply, payload by payload, in the words of one kind of server.
pub(super) trait Translator: Send + 'static {
    /// Takes the next payload. Fails when it is an error or makes no sense.
    fn read(&mut self, payload: &[u8]) -> Result<(), Error>;

    /// The next event of what was read.
    fn next(&mut self) -> Option<Event>;

    /// Whether the server said that all is said.
    fn is_done(&self) -> bool;

    /// Called at the end of the body, when all events were taken; there may be more after it. Fails when the reply was cut off.
    fn finish(&mut self) -> Result<(), Error>;
}

/// How the payloads lie in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Each is the data of a server-sent event.
    Events,
    /// The body is one.
    Whole,
}

impl Framing {
    /// The framing that the response's content type names, if any.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let is = |name: &str| {
            let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().get(..name.len()));
            media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case(name.as_bytes()))
        };
        match () {
            () if is("text/event-stream") => Some(Self::Events),
            () if is("application/json") => Some(Self::Whole),
            () => None,
        }
    }
}

/// A response that has begun well, and who reads it.
pub(super) struct Opened<T> {
    pub(super) body: upstream::Body,
    pub(super) framing: Framing,
    pub(super) translator: T,
}

/// The events of the reply that `opening` leads to. It is not polled before the stream is; dropping the stream drops it or the body.
pub(super) fn events<T: Translator>(opening: impl Future<Output = Result<Opened<T>, Error>> + Send + 'static) -> Events {
    Box::pin(try_stream! {
        let Opened { body, framing, mut translator } = opening.await?;
        let mut payloads = Payloads::new(body, framing);
        while payloads.read_into(&mut translator).await? {
            while let Some(event) = translator.next() {
                yield event;
            }
        }
        translator.finish()?;
        while let Some(event) = translator.next() {
            yield event;
        }
    })
}

/// A body that is cut into payloads.
struct Payloads {
    body: upstream::Body,
    cut: Cut,
}

/// What has come of a body and was not read yet.
enum Cut {
    Events(sse::Decoder),
    Whole(BytesMut),
}

const TOO_LONG: Error = Error::Protocol("an event is too long");

impl Payloads {
    fn new(body: upstream::Body, framing: Framing) -> Self {
        let cut = match framing {
            Framing::Events => Cut::Events(sse::Decoder::new(PAYLOAD_BYTES_MAX)),
            Framing::Whole => Cut::Whole(BytesMut::new()),
        };
        Self { body, cut }
    }

    /// Hands the payloads that come next to `translator`. Returns whether there may be more.
    async fn read_into(&mut self, translator: &mut impl Translator) -> Result<bool, Error> {
        let Some(frame) = self.next_frame(translator.is_done()).await? else {
            if let Cut::Whole(whole) = &mut self.cut {
                translator.read(&whole.split())?;
            }
            return Ok(false);
        };
        let Ok(data) = frame.into_data() else { return Ok(true) };
        match &mut self.cut {
            Cut::Events(decoder) => {
                decoder.push(&data);
                while let Some(payload) = decoder.next_event().map_err(|_| TOO_LONG)? {
                    translator.read(payload)?;
                }
            }
            Cut::Whole(whole) if whole.len() + data.len() > PAYLOAD_BYTES_MAX => return Err(TOO_LONG),
            Cut::Whole(whole) => whole.extend_from_slice(&data),
        }
        Ok(true)
    }

    /// The next frame of the body. When all is said, the body is read on only so that its connection can be used again, for a moment and
    /// whatever happens.
    async fn next_frame(&mut self, is_done: bool) -> Result<Option<Frame<Bytes>>, Error> {
        if !is_done {
            return Ok(self.body.frame().await.transpose()?);
        }
        let end = tokio::time::timeout(AFTER_DONE, self.body.frame()).await;
        Ok(end.ok().flatten().and_then(Result::ok))
    }
}
