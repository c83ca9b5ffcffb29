//! The way from a response's body to the events of a reply, the same for every server: the body is cut into payloads, a translator
//! reads them, and what it reads is told at once.
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
use serde_json::value::RawValue;

use super::{Error, Events};
use crate::{
    chat::Event,
    upstream,
    wire::{ndjson, sse},
};

/// One chunk of a stream is a few hundred bytes; a whole call in one chunk, or a whole answer, may be long.
const PAYLOAD_BYTES_MAX: usize = 4 << 20;
/// How long the end of the body may be behind the last payload; usually it comes with it.
const AFTER_DONE: Duration = Duration::from_millis(50);

/// Reads one reply, payload by payload, in the words of one kind of server.
pub(super) trait Translator: Send + 'static {
    /// Whether every line of the body is a payload.
    const LINES: bool = false;

    /// Takes the next payload. Fails when it is an error or makes no sense.
    fn read(&mut self, payload: &[u8]) -> Result<(), Error>;

    /// The next event of what was read.
    fn next(&mut self) -> Option<Event>;

    /// Whether the server said that all is said.
    fn is_done(&self) -> bool;

    /// Called at the end of the body, when all events were taken; there may be more after it. Fails when the reply was cut off.
    fn finish(&mut self) -> Result<(), Error>;
}

/// Whether a body of the type that `headers` name can be read at all: not the page of a gateway, say. Some servers name a type that is not
/// theirs, or none.
pub(super) fn is_readable(headers: &HeaderMap) -> bool {
    const READABLE: [&str; 4] = ["text/event-stream", "application/json", "application/x-ndjson", "text/plain"];
    let Some(kind) = headers.get(CONTENT_TYPE) else { return true };
    let begins_with = |name: &&str| kind.as_bytes().get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()));
    READABLE.iter().any(begins_with)
}

/// A response that has begun well, and who reads it.
pub(super) struct Opened<T> {
    pub(super) body: upstream::Body,
    pub(super) translator: T,
}

/// The events of the reply that `opening` leads to. It is not polled before the stream is; dropping the stream drops it or the body.
pub(super) fn events<T: Translator>(opening: impl Future<Output = Result<Opened<T>, Error>> + Send + 'static) -> Events {
    Box::pin(try_stream! {
        let Opened { body, mut translator } = opening.await?;
        let mut payloads = Payloads { body, cut: Cut::of::<T>() };
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

/// How the payloads lie in the body, and what has come and was not read yet.
enum Cut {
    /// Nothing has come.
    Undecided,
    /// Each is the data of a server-sent event.
    Events(sse::Decoder),
    /// Each is a line.
    Lines(ndjson::Decoder),
    /// The body is one JSON value: the server does not stream, or failed before it began to.
    Whole(BytesMut),
}

impl Payloads {
    /// Hands the payloads that come next to `translator`. Returns whether there may be more.
    async fn read_into(&mut self, translator: &mut impl Translator) -> Result<bool, Error> {
        let Some(frame) = self.next_frame(translator.is_done()).await? else {
            match &self.cut {
                Cut::Undecided | Cut::Events(_) => {}
                // The last line need not end.
                Cut::Lines(decoder) => decoder.rest().map_or(Ok(()), |rest| translator.read(rest))?,
                Cut::Whole(whole) => translator.read(first_value(whole))?,
            }
            return Ok(false);
        };
        if let Ok(data) = frame.into_data() {
            self.cut.read_into(&data, translator)?;
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

impl Cut {
    fn of<T: Translator>() -> Self {
        if T::LINES { Self::Lines(ndjson::Decoder::new(PAYLOAD_BYTES_MAX)) } else { Self::Undecided }
    }

    fn read_into(&mut self, data: &[u8], translator: &mut impl Translator) -> Result<(), Error> {
        const TOO_LONG: Error = Error::Protocol("an event is too long");
        if matches!(self, Self::Undecided)
            && let Some(first) = data.trim_ascii_start().first()
        {
            // No line of an event begins like this, whatever type the body is said to have.
            *self = if *first == b'{' { Self::Whole(BytesMut::new()) } else { Self::Events(sse::Decoder::new(PAYLOAD_BYTES_MAX)) };
        }
        match self {
            Self::Undecided => {}
            Self::Events(decoder) => {
                decoder.push(data);
                while let Some(payload) = decoder.next_event().map_err(|_| TOO_LONG)? {
                    translator.read(payload)?;
                }
            }
            Self::Lines(decoder) => {
                decoder.push(data);
                while let Some(line) = decoder.next_line().map_err(|_| TOO_LONG)? {
                    translator.read(line)?;
                }
            }
            Self::Whole(whole) if whole.len() + data.len() > PAYLOAD_BYTES_MAX => return Err(TOO_LONG),
            Self::Whole(whole) => whole.extend_from_slice(data),
        }
        Ok(())
    }
}

/// The first JSON value in `text`, or all of it where there is none. Some servers add the `[DONE]` of a stream.
fn first_value(text: &[u8]) -> &[u8] {
    let first = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>().next();
    first.and_then(Result::ok).map_or(text, |value| value.get().as_bytes())
}
