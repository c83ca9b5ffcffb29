//! Server-sent events: a decoder that does not care where the network cuts the bytes, and the frames that toolgate writes.
//!
//! Follows the WHATWG HTML standard, chapter "Server-sent events", as far as model servers use it: `data` lines are joined,
//! comments and other fields are skipped, lines end in CRLF, LF or CR.

use bytes::{Buf, Bytes, BytesMut};

/// The frame that ends an OpenAI stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// Cuts a byte stream into the payloads of its events.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no line end.
    searched: usize,
    /// The data lines of the event that is being read.
    data: Option<BytesMut>,
    first_line: Option<Bytes>,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    event_bytes_max: usize,
}

/// An event exceeds the decoder's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server-sent event exceeds {0} bytes")]
pub struct TooLong(usize);

impl Decoder {
    /// A decoder that refuses events of more than `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, data: None, first_line: None, after_cr: false, event_bytes_max }
    }

    /// Takes the next bytes of the stream. Call [`Self::next_event`] until it has no more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The payload of the next complete event, `None` when more bytes are needed. Events without data are skipped.
    pub fn next_event(&mut self) -> Result<Option<Bytes>, TooLong> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(payload) = self.take_data() {
                    return Ok(Some(payload));
                }
                continue;
            }
            self.read_field(line);
            self.check_size()?;
        }
        self.check_size()?;
        Ok(None)
    }

    fn next_line(&mut self) -> Option<Bytes> {
        if self.after_cr && !self.buffer.is_empty() {
            if self.buffer.first() == Some(&b'\n') {
                self.buffer.advance(1);
            }
            self.after_cr = false;
        }
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + found).freeze();
        self.after_cr = self.buffer.first() == Some(&b'\r');
        self.buffer.advance(1);
        self.searched = 0;
        Some(line)
    }

    fn read_field(&mut self, line: Bytes) {
        let Some(value) = line.strip_prefix(b"data:") else { return };
        let value = line.slice_ref(value.strip_prefix(b" ").unwrap_or(value));
        match (&mut self.data, &self.first_line) {
            (Some(data), _) => {
                data.extend_from_slice(b"\n");
                data.extend_from_slice(&value);
            }
            // One data line an event is the rule: it stays a slice of what was read.
            (None, None) => self.first_line = Some(value),
            (None, Some(first)) => {
                let mut data = BytesMut::from(&first[..]);
                data.extend_from_slice(b"\n");
                data.extend_from_slice(&value);
                self.data = Some(data);
            }
        }
    }

    fn take_data(&mut self) -> Option<Bytes> {
        let first = self.first_line.take();
        self.data.take().map(BytesMut::freeze).or(first)
    }

    fn check_size(&self) -> Result<(), TooLong> {
        let held = self.data.as_ref().map_or(0, BytesMut::len) + self.first_line.as_ref().map_or(0, Bytes::len);
        if self.buffer.len().max(held) > self.event_bytes_max { Err(TooLong(self.event_bytes_max)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::new(1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(String::from_utf8(event.to_vec()).unwrap());
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
        decoder.push(&b"data: 0123456789\n".repeat(11));
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
