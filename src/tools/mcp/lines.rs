//! Lines of a pipe, of which no more is kept than a limit allows.

use rmcp::model::RequestId;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A line that is longer by so much has no end, and is cut into several. It is ten times the largest image that a tool may send.
pub(super) const LEFT_OUT_MAX: u64 = 256 << 20;

/// Reads lines. Dropping the future of [`Self::next`] loses nothing.
#[derive(Debug)]
pub(super) struct Lines<R> {
    pipe: BufReader<R>,
    bytes_max: usize,
    line: Line,
    scan: Scan,
}

/// One line, without its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Its beginning; all of it unless some was left out.
    pub(super) bytes: Vec<u8>,
    /// How many bytes more it had.
    pub(super) left_out: u64,
    /// Which request it answers, where some was left out and what there was is a response.
    pub(super) answers: Option<RequestId>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(pipe: R, bytes_max: usize) -> Self {
        Self { pipe: BufReader::new(pipe), bytes_max, line: Line::default(), scan: Scan::default() }
    }

    /// The next line; the last one may lack its end. `None` at the end of the pipe, and when it breaks.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            // A pipe that breaks has ended.
            let read = self.pipe.fill_buf().await.unwrap_or_default();
            if read.is_empty() {
                let is_last = !self.line.bytes.is_empty();
                return is_last.then(|| self.take());
            }
            let end = memchr::memchr(b'\n', read);
            let (piece, _) = read.split_at(end.unwrap_or(read.len()));
            let room = self.bytes_max - self.line.bytes.len();
            let (kept, left_out) = piece.split_at(piece.len().min(room));
            self.line.bytes.extend_from_slice(kept);
            if !left_out.is_empty() {
                if self.line.left_out == 0 {
                    self.scan.read(&self.line.bytes);
                }
                self.scan.read(left_out);
                self.line.left_out += left_out.len() as u64;
            }
            let is_endless = self.line.left_out >= LEFT_OUT_MAX;
            let used = piece.len() + usize::from(end.is_some());
            self.pipe.consume(used);
            if end.is_some() || is_endless {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> Line {
        let answers = std::mem::take(&mut self.scan).answers();
        Line { answers, ..std::mem::take(&mut self.line) }
    }
}

/// Finds the `id` of a JSON-RPC response that is read in pieces and not kept.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// What was read last at the top level, as far as it may matter.
    word: Vec<u8>,
    /// Whether the value that is being read is that of `id`.
    is_id: bool,
    id: Option<Vec<u8>>,
    is_request: bool,
}

/// A longer `id` or key is none that was ever given.
const WORD_BYTES_MAX: usize = 64;

impl Scan {
    fn read(&mut self, mut piece: &[u8]) {
        loop {
            if self.in_string && !self.is_escaped && self.depth != 1 {
                // Most of a long message is one string deep inside.
                let end = memchr::memchr2(b'"', b'\\', piece).unwrap_or(piece.len());
                piece = piece.split_at(end).1;
            }
            let Some((byte, rest)) = piece.split_first() else { return };
            if self.in_string {
                self.read_in_string(*byte);
            } else {
                self.read_between(*byte);
            }
            piece = rest;
        }
    }

    fn read_in_string(&mut self, byte: u8) {
        self.keep(byte);
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    fn read_between(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.end_value(),
            b':' if self.depth == 1 => {
                self.is_id = self.word == br#""id""#;
                self.is_request |= self.word == br#""method""#;
                self.word.clear();
            }
            b' ' | b'\t' | b'\r' => {}
            _ => {
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < WORD_BYTES_MAX {
            self.word.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.depth != 1 {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if std::mem::take(&mut self.is_id) {
            self.id = Some(word);
        }
    }

    fn answers(self) -> Option<RequestId> {
        if self.is_request {
            return None;
        }
        serde_json::from_slice(&self.id?).ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    const MAX: usize = 16;

    async fn lines(text: &[u8]) -> Vec<Line> {
        let mut lines = Lines::new(text, MAX);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await {
            read.push(line);
        }
        read
    }

    #[tokio::test]
    async fn lines_are_read_up_to_the_limit() {
        let read = lines(b"one\n\nsixteen bytes ok\nseventeen bytes no\nlast").await;
        let said: Vec<(&[u8], u64)> = read.iter().map(|line| (&*line.bytes, line.left_out)).collect();
        assert_eq!(said, [(&b"one"[..], 0), (b"", 0), (b"sixteen bytes ok", 0), (b"seventeen bytes ", 2), (b"last", 0)]);
    }

    #[tokio::test]
    async fn of_a_line_without_end_no_more_is_kept_than_the_limit() {
        let mut lines = Lines::new(tokio::io::repeat(b'x').take(50 << 20), MAX);
        let line = lines.next().await.unwrap();
        assert_eq!((line.bytes.len(), line.left_out), (MAX, (50 << 20) - MAX as u64));
        assert!(line.bytes.capacity() <= 2 * MAX);
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn dropping_the_future_loses_nothing() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = Lines::new(reader, MAX);
        for piece in ["a", "b", "c\nd"] {
            tokio::io::AsyncWriteExt::write_all(&mut writer, piece.as_bytes()).await.unwrap();
            if let Ok(line) = tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await {
                assert_eq!(line.unwrap().bytes, b"abc");
                return;
            }
        }
        panic!("no line");
    }

    async fn check(line: &str, expected: Option<RequestId>) {
        let read = lines(line.as_bytes()).await;
        assert_eq!(read[0].answers, expected, "{line}");
    }

    #[tokio::test]
    async fn what_a_long_line_answers_is_known_wherever_its_id_is() {
        let seven = || Some(RequestId::Number(7));
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#, seven()).await;
        check(r#"{"result":{"content":[{"id":3}],"id":4},"jsonrpc":"2.0","id" : 7}"#, seven()).await;
        check(r#"{"id":"seven","result":{"text":"\"id\":8, }"}}"#, Some(RequestId::String("seven".into()))).await;
        check(r#"{"jsonrpc":"2.0","a\"":",\"id\":9","id":7 , "result":[[],{}]}"#, seven()).await;
        // What asks, and what tells, answers nothing.
        check(r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}"#, None).await;
        check(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"id":7}}"#, None).await;
        check(r#"{"jsonrpc":"2.0","id":null,"result":"..................."}"#, None).await;
        check("]]]]}}}}}}no JSON at all, for many bytes", None).await;
    }
}
