//! The way from a response's body to the events of a reply, the same for every server: the body is cut into payloads, a translator reads
//! them, and what it reads is told at once.
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
    /// Each is a line.
    Lines,
    /// The body is one.
    Whole,
    /// The first byte tells whether it is one or a stream of events.
    EventsOrWhole,
}

impl Framing {
    /// The framing of a reply that ought to be a stream of events. Some servers do not stream, and some name another type, or none. `None`
    /// for what can be no answer: a gateway's page.
    pub(super) fn of_reply(headers: &HeaderMap) -> Option<Self> {
        let is_page = |kind: &[u8]| kind.get(..9).is_some_and(|begin| begin.eq_ignore_ascii_case(b"text/html"));
        match Self::of(headers) {
            Some(Self::Lines) => Some(Self::Lines),
            None if headers.get(CONTENT_TYPE).is_some_and(|kind| is_page(kind.as_bytes())) => None,
            _ => Some(Self::EventsOrWhole),
        }
    }

    /// The framing that the response's content type names, if any.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        const NAMED: [(&str, Framing); 3] =
            [("text/event-stream", Framing::Events), ("application/x-ndjson", Framing::Lines), ("application/json", Framing::Whole)];
        let kind = headers.get(CONTENT_TYPE)?.as_bytes();
        let begins_with = |name: &str| kind.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()));
        NAMED.into_iter().find(|(name, _)| begins_with(name)).map(|(_, framing)| framing)
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
        let mut payloads = Payloads { body, cut: Cut::new(framing) };
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
    Lines(ndjson::Decoder),
    Whole(BytesMut),
    /// Nothing has come.
    Undecided,
}

impl Payloads {
    /// Hands the payloads that come next to `translator`. Returns whether there may be more.
    async fn read_into(&mut self, translator: &mut impl Translator) -> Result<bool, Error> {
        let Some(frame) = self.next_frame(translator.is_done()).await? else {
            self.cut.read_rest_into(translator)?;
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
    fn new(framing: Framing) -> Self {
        match framing {
            Framing::Events => Self::Events(sse::Decoder::new(PAYLOAD_BYTES_MAX)),
            Framing::Lines => Self::Lines(ndjson::Decoder::new(PAYLOAD_BYTES_MAX)),
            Framing::Whole => Self::Whole(BytesMut::new()),
            Framing::EventsOrWhole => Self::Undecided,
        }
    }

    fn read_into(&mut self, data: &[u8], translator: &mut impl Translator) -> Result<(), Error> {
        const TOO_LONG: Error = Error::Protocol("an event is too long");
        if matches!(self, Self::Undecided)
            && let Some(first) = data.trim_ascii_start().first()
        {
            // No line of an event begins as an object does, or a list, in which Google has its errors.
            *self = Self::new(if b"{[".contains(first) { Framing::Whole } else { Framing::Events });
        }
        match self {
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
            Self::Undecided => {}
        }
        Ok(())
    }

    /// Reads what only the end of the body makes complete.
    fn read_rest_into(&mut self, translator: &mut impl Translator) -> Result<(), Error> {
        match self {
            Self::Events(_) | Self::Undecided => Ok(()),
            // The last line need not end.
            Self::Lines(decoder) => decoder.rest().map_or(Ok(()), |rest| translator.read(rest)),
            Self::Whole(whole) => translator.read(first_value(whole)),
        }
    }
}

/// The first JSON value in `text`, or all of it where there is none. Some servers end a whole answer with the `[DONE]` of a stream.
fn first_value(text: &[u8]) -> &[u8] {
    let first = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>().next();
    first.and_then(Result::ok).map_or(text, |value| value.get().as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Collector(Vec<String>);

    impl Translator for Collector {
        fn read(&mut self, payload: &[u8]) -> Result<(), Error> {
            self.0.push(String::from_utf8_lossy(payload).into_owned());
            Ok(())
        }

        fn next(&mut self) -> Option<Event> {
            None
        }

        fn is_done(&self) -> bool {
            false
        }

        fn finish(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    fn payloads(framing: Framing, pieces: &[&[u8]]) -> Vec<String> {
        let (mut cut, mut collector) = (Cut::new(framing), Collector::default());
        for piece in pieces {
            cut.read_into(piece, &mut collector).unwrap();
        }
        cut.read_rest_into(&mut collector).unwrap();
        collector.0
    }

    #[test]
    fn bodies_are_cut_as_they_are_framed() {
        let check =
            |framing: Framing, body: &str, expected: &[&str]| assert_eq!(payloads(framing, &[body.as_bytes()]), expected, "{body:?}");
        check(Framing::Events, "data: {\"a\":1}\n\ndata: [DONE]\n\n", &["{\"a\":1}", "[DONE]"]);
        check(Framing::Lines, "{\"a\":1}\n{\"b\":2}", &["{\"a\":1}", "{\"b\":2}"]);
        check(Framing::Whole, " {\"a\":\n1}\n", &["{\"a\":\n1}"]);
        check(Framing::EventsOrWhole, "\n: ping\n\ndata: {}\n\n", &["{}"]);
        check(Framing::EventsOrWhole, "\n {\"a\":1}", &["{\"a\":1}"]);
        check(Framing::EventsOrWhole, "{\"a\":1}\n\ndata: [DONE]\n\n", &["{\"a\":1}"]);
        check(Framing::EventsOrWhole, "[{}]", &["[{}]"]);
        check(Framing::EventsOrWhole, "{\"cut\":", &["{\"cut\":"]);
        check(Framing::EventsOrWhole, "", &[]);
    }

    #[test]
    fn what_never_ends_is_refused() {
        let junk = [b'x'; 1 << 16];
        for framing in [Framing::Events, Framing::Lines, Framing::Whole] {
            let mut cut = Cut::new(framing);
            let fed = (0..).find(|_| cut.read_into(&junk, &mut Collector::default()).is_err()).unwrap();
            assert!(fed * junk.len() <= PAYLOAD_BYTES_MAX, "{framing:?} {fed}");
        }
    }

    #[test]
    fn the_framing_is_what_the_type_says() {
        let of = |kind: &'static str| Framing::of(&[(CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect());
        assert_eq!(of("text/event-stream; charset=utf-8"), Some(Framing::Events));
        assert_eq!(of("Application/JSON"), Some(Framing::Whole));
        assert_eq!(of("application/x-ndjson"), Some(Framing::Lines));
        assert_eq!((of("text/html"), Framing::of(&HeaderMap::new())), (None, None));
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(is_whole: bool, cuts in proptest::collection::vec(0usize..60, 0..8)) {
            let body: &[u8] = if is_whole { " {\"é\":[1,\"ü\"]} \n\ndata: [DONE]\n\n".as_bytes() } else { "\r\n: x\r\ndata: {\"é\":1}\r\n\r\ndata: [DONE]\n\n".as_bytes() };
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < body.len()).chain([0, body.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
            prop_assert_eq!(payloads(Framing::EventsOrWhole, &pieces), payloads(Framing::EventsOrWhole, &[body]));
        }
    }
}
