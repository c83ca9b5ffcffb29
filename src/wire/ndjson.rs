//! Newline-delimited JSON: a decoder that does not care where the network cuts the bytes.

use std::ops::Range;

/// Cuts a byte stream into its lines. A line ends in LF or CRLF; blank lines are skipped.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to here there is no line end behind `start`.
    searched: usize,
    line_bytes_max: usize,
}

/// A line exceeds the decoder's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line exceeds {0} bytes")]
pub struct TooLong(usize);

impl Decoder {
    /// A decoder that refuses lines of more than `line_bytes_max` bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, line_bytes_max }
    }

    /// Takes the next bytes of the stream. Call [`Self::next_line`] until it has no more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete line, `None` when more bytes are needed.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, TooLong> {
        while let Some(length) = memchr::memchr(b'\n', self.buffer.get(self.start.max(self.searched)..).unwrap_or_default()) {
            let end = self.start.max(self.searched) + length;
            let line = self.trimmed(self.start..end);
            self.start = end + 1;
            if line.len() > self.line_bytes_max {
                return Err(TooLong(self.line_bytes_max));
            }
            if !line.is_empty() {
                return Ok(self.buffer.get(line));
            }
        }
        self.searched = self.buffer.len();
        let held = self.buffer.len() - self.start;
        if held > self.line_bytes_max { Err(TooLong(self.line_bytes_max)) } else { Ok(None) }
    }

    /// What follows the last line end, once the stream is over: the last line need not end.
    pub fn rest(&self) -> Option<&[u8]> {
        self.buffer.get(self.trimmed(self.start..self.buffer.len())).filter(|rest| !rest.is_empty())
    }

    /// `line` without white space around it.
    fn trimmed(&self, line: Range<usize>) -> Range<usize> {
        let bytes = self.buffer.get(line.clone()).unwrap_or_default();
        let start = line.start + (bytes.len() - bytes.trim_ascii_start().len());
        start..start + bytes.trim_ascii().len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::new(1 << 20);
        let mut lines = Vec::new();
        let text = |line: &[u8]| std::str::from_utf8(line).unwrap().to_owned();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(line) = decoder.next_line().unwrap() {
                lines.push(text(line));
            }
        }
        lines.extend(decoder.rest().map(text));
        lines
    }

    #[test]
    fn reads_what_servers_write() {
        let check = |stream: &str, expected: &[&str]| assert_eq!(decode(&[stream.as_bytes()]), expected, "{stream:?}");
        check("{}\n[1]\n", &["{}", "[1]"]);
        check("{}\r\n\r\n\n [1] \n", &["{}", "[1]"]);
        check("{}\nno end", &["{}", "no end"]);
        check("one\rline\n", &["one\rline"]);
        check(" \r\n", &[]);
        check("", &[]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut decoder = Decoder::new(10);
        decoder.push(b"0123456789\n0123456789");
        assert_eq!(decoder.next_line(), Ok(Some(b"0123456789".as_slice())));
        assert_eq!(decoder.next_line(), Ok(None));
        decoder.push(b"x");
        assert_eq!(decoder.next_line(), Err(TooLong(10)));
        let mut decoder = Decoder::new(10);
        decoder.push(b"0123456789x\n");
        assert_eq!(decoder.next_line(), Err(TooLong(10)));
    }

    #[test]
    fn what_was_read_is_forgotten() {
        let mut decoder = Decoder::new(10);
        for _ in 0..1000 {
            decoder.push(b"1234567\n12");
            while decoder.next_line().unwrap().is_some() {}
        }
        assert!(decoder.buffer.len() < 20);
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(stream in "([a-cé]{0,4}(\n|\r\n|\r| )){0,12}[a-cé]{0,3}",
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
