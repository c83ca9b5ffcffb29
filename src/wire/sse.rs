//! Server-sent events: a decoder that does not care where the network cuts the bytes, and the frames that toolgate writes.
//!
//! Follows the WHATWG HTML standard, chapter "Server-sent events", as far as model servers use it: `data` lines are joined,
//! comments and other fields are skipped, lines end in CRLF, LF or CR.

use std::ops::Range;

/// The frame that ends an OpenAI stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// A comment, which clients skip.
pub const COMMENT: &[u8] = b": toolgate\n\n";

/// Writes `text` as a comment, which clients skip; its line ends become spaces.
pub fn comment(to: &mut impl bytes::BufMut, text: &str) {
    to.put_slice(b": ");
    to.put_slice(text.replace(['\n', '\r'], " ").as_bytes());
    to.put_slice(b"\n\n");
}

/// Cuts a byte stream into the payloads of its events.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to here there is no line end behind `start`.
    searched: usize,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    data: Data,
    /// Data lines put together, where an event has several.
    joined: Vec<u8>,
    event_bytes_max: usize,
}

/// The data of the event that is being read.
#[derive(Debug, Clone)]
enum Data {
    None,
    /// One line, which is the rule: it stays where it is in the buffer.
    Line(Range<usize>),
    /// Several, in `joined`.
    Joined,
}

/// An event exceeds the decoder's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server-sent event exceeds {0} bytes")]
pub struct TooLong(usize);

impl Decoder {
    /// A decoder that refuses events of more than `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, after_cr: false, data: Data::None, joined: Vec::new(), event_bytes_max }
    }

    /// Takes the next bytes of the stream. Call [`Self::next_event`] until it has no more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.forget_what_was_read();
        self.buffer.extend_from_slice(bytes);
    }

    /// The payload of the next complete event, `None` when more bytes are needed. Events without data are skipped.
    pub fn next_event(&mut self) -> Result<Option<&[u8]>, TooLong> {
        while let Some(line) = self.next_line() {
            if !line.is_empty() {
                self.read_field(line);
                continue;
            }
            match std::mem::replace(&mut self.data, Data::None) {
                Data::None => {}
                Data::Line(payload) => return Ok(Some(self.buffer.get(payload).unwrap_or_default())),
                Data::Joined => return Ok(Some(&self.joined)),
            }
        }
        let held = (self.buffer.len() - self.start).max(self.joined.len());
        if held > self.event_bytes_max { Err(TooLong(self.event_bytes_max)) } else { Ok(None) }
    }

    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_cr && self.start < self.buffer.len() {
            self.start += usize::from(self.buffer.get(self.start) == Some(&b'\n'));
            self.after_cr = false;
        }
        let from = self.start.max(self.searched);
        let Some(length) = memchr::memchr2(b'\n', b'\r', self.buffer.get(from..)?) else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = from + length;
        let line = self.start..end;
        self.after_cr = self.buffer.get(end) == Some(&b'\r');
        self.start = end + 1;
        Some(line)
    }

    fn read_field(&mut self, line: Range<usize>) {
        let text = self.buffer.get(line.clone()).unwrap_or_default();
        let Some(value) = text.strip_prefix(b"data:") else { return };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &self.data {
            Data::None => self.data = Data::Line(line.end - value.len()..line.end),
            Data::Line(first) => {
                self.joined.clear();
                self.joined.extend_from_slice(self.buffer.get(first.clone()).unwrap_or_default());
                self.joined.push(b'\n');
                self.joined.extend_from_slice(value);
                self.data = Data::Joined;
            }
            Data::Joined => {
                self.joined.push(b'\n');
                self.joined.extend_from_slice(value);
            }
        }
    }

    /// Moves what is still needed to the front of the buffer.
    fn forget_what_was_read(&mut self) {
        let keep = match &self.data {
            Data::Line(line) => line.start.min(self.start),
            Data::None | Data::Joined => self.start,
        };
        self.buffer.drain(..keep);
        self.start -= keep;
        self.searched = self.searched.saturating_sub(keep);
        if let Data::Line(line) = &mut self.data {
            *line = line.start - keep..line.end - keep;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::new(1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(std::str::from_utf8(event).unwrap().to_owned());
            }
        }
        events
    }

    fn check(stream: &str, expected: &[&str]) {
        assert_eq!(decode(&[stream.as_bytes()]), expected, "{stream:?}");
    }

    #[test]
    fn reads_what_servers_write() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data:a\r\n\r\ndata:  b\r\n\r\n", &["a", " b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check(": ping\n\nevent: message\nid: 7\ndata: a\n\n", &["a"]);
        check("data: a\ndata: b\ndata:\n\n", &["a\nb\n"]);
        check("data\n\nretry: 3\n\ndatabase: x\n\n", &[]);
        check("data: cut off", &[]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::new(100);
        decoder.push(&[b'x'; 101]);
        assert_eq!(decoder.next_event(), Err(TooLong(100)));
        let mut decoder = Decoder::new(100);
        for _ in 0..9 {
            decoder.push(b"data: 0123456789\n");
            assert_eq!(decoder.next_event(), Ok(None));
        }
        decoder.push(b"data: 0123456789\n");
        assert_eq!(decoder.next_event(), Err(TooLong(100)));
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(stream in r"((data: ?[a-cé]{0,4}|: x|event: e)(\n|\r\n|\r)|\n|\r\n|\r){0,12}",
                                  cuts in proptest::collection::vec(0usize..80, 0..6)) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(decode(&chunks), decode(&[bytes]));
        }
    }
}
