//! What is read in an answer that passes: the counts that it tells, and how much it says where it tells none.

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use crate::{
    budget::estimate,
    wire::{
        openai::{Tally, Usage},
        outline::Outline,
        sse,
    },
};

/// What was seen of an answer so far.
#[derive(Debug)]
pub(super) enum Reading {
    /// A stream of events.
    Events(Events),
    /// One JSON object.
    Whole(Box<Outline>),
    /// Something else, of which the length alone is known.
    Closed(usize),
}

#[derive(Debug)]
pub(super) struct Events {
    decoder: sse::Decoder,
    tally: Tally,
    /// How many events said something.
    told: u64,
    is_readable: bool,
}

/// Longer events are not read: counts stand in short ones.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Where counts are told.
const COUNTS: [&str; 2] = ["usage", "timings"];

impl Reading {
    /// How an answer with these headers is read.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase()).unwrap_or_default();
        let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
        if is_plain && kind.starts_with(b"text/event-stream") {
            let decoder = sse::Decoder::new(EVENT_BYTES_MAX);
            Self::Events(Events { decoder, tally: Tally::default(), told: 0, is_readable: true })
        } else if is_plain && kind.starts_with(b"application/json") {
            Self::Whole(Box::new(Outline::new(&COUNTS)))
        } else {
            Self::Closed(0)
        }
    }

    /// Reads on.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Events(events) => events.push(bytes),
            Self::Whole(outline) => outline.push(bytes),
            Self::Closed(length) => *length = length.saturating_add(bytes.len()),
        }
    }

    /// What it told of an answer of so many `replies`.
    pub(super) fn told(&self, replies: u64) -> Usage {
        match self {
            Self::Events(events) => events.tally.total(),
            Self::Whole(outline) => {
                let mut tally = Tally::default();
                tally.whole(outline.get("usage"), outline.get("timings"), replies);
                tally.total()
            }
            Self::Closed(_) => Usage::default(),
        }
    }

    /// About how many tokens were written, as far as can be told from what was seen.
    pub(super) fn tokens(&self) -> u64 {
        match self {
            // Most servers send each token by itself.
            Self::Events(events) => events.told,
            Self::Whole(outline) => estimate::text_tokens(usize::try_from(outline.text_bytes()).unwrap_or(usize::MAX)),
            Self::Closed(length) => estimate::text_tokens(*length),
        }
    }
}

impl Events {
    fn push(&mut self, bytes: &[u8]) {
        if !self.is_readable {
            return;
        }
        self.decoder.push(bytes);
        loop {
            match self.decoder.next_event() {
                Ok(Some(payload)) => self.told += u64::from(self.tally.event(payload)),
                Ok(None) => return,
                Err(_) => {
                    self.is_readable = false;
                    // What it holds is of no use any more.
                    self.decoder = sse::Decoder::new(0);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn reading(kind: &'static str) -> Reading {
        Reading::of(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]))
    }

    /// What is told and about how much was said, the same wherever `answer` is cut.
    fn check(kind: &'static str, answer: &str, told: [Option<u64>; 2], tokens: u64) {
        for at in 0..=answer.len() {
            let mut reading = reading(kind);
            let (front, back) = answer.as_bytes().split_at(at);
            [front, back].iter().for_each(|piece| reading.push(piece));
            let usage = reading.told(1);
            assert_eq!(([usage.prompt_tokens, usage.completion_tokens], reading.tokens()), (told, tokens), "{answer} cut at {at}");
        }
    }

    #[test]
    fn counts_are_read_wherever_the_answer_is_cut() {
        let usage = r#""usage":{"prompt_tokens":7,"completion_tokens":2}"#;
        check("application/json", &format!(r#"{{{usage},"data":[[1.5]]}}"#), [Some(7), Some(2)], 0);
        check("application/json; charset=utf-8", &format!(r#"{{"choices":[{{"text":"12345"}}],{usage}}}"#), [Some(7), Some(2)], 2);
        check("application/json", r#"{"choices":[{"text":"12345"}]}"#, [None; 2], 2);
        let chunk = r#"{"choices":[{"index":0,"text":"a"}]}"#;
        let stream = format!("data: {chunk}\n\ndata: {chunk}\n\ndata: {{\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n");
        check("text/event-stream", &stream, [Some(7), Some(2)], 2);
        check("text/event-stream", &format!(": hello\r\n\r\ndata: {chunk}\r\n\r\n"), [None; 2], 1);
        check("audio/wav", "123456", [None; 2], 2);
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        let mut reading = reading("text/event-stream");
        reading.push(b"data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
        for _ in 0..3 {
            reading.push(&vec![b'x'; EVENT_BYTES_MAX]);
        }
        assert_eq!(reading.tokens(), 1);
    }

    #[test]
    fn what_is_compressed_is_not_read() {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json")), (CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        assert!(matches!(Reading::of(&HeaderMap::from_iter(headers)), Reading::Closed(0)));
    }
}
