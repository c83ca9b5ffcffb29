//! The events of one response, as the MCP client wants them: with their ids, and the server's word on when to come again.
//!
//! Follows the WHATWG HTML standard, chapter "Server-sent events": unknown fields, lines without a colon and a `retry` that is no number
//! are skipped and never an error.

use std::{collections::VecDeque, time::Duration};

use sse_stream::Sse;

/// An event, or what has come of one, is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its message is longer than {0} bytes")]
pub(super) struct TooLong(pub(super) usize);

/// Cuts a byte stream into events.
#[derive(Debug)]
pub(super) struct Parser {
    /// The line whose end has not come.
    line: Vec<u8>,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    is_first_line: bool,
    event: Sse,
    /// What `event` holds so far.
    event_bytes: usize,
    complete: VecDeque<Sse>,
    event_bytes_max: usize,
}

/// A server that wants us back later than this has forgotten about us.
const RETRY_MAX: Duration = Duration::from_secs(300);

impl Parser {
    pub(super) fn new(event_bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            after_cr: false,
            is_first_line: true,
            event: Sse::default(),
            event_bytes: 0,
            complete: VecDeque::new(),
            event_bytes_max,
        }
    }

    /// Takes the next bytes of the stream. Fails once an event has grown too long, and is of no use after that.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) {
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                return self.hold(bytes);
            };
            let (line, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            self.hold(line)?;
            self.after_cr = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            let line = std::mem::take(&mut self.line);
            self.read_line(&line);
        }
        Ok(())
    }

    /// The next complete event.
    pub(super) fn next_event(&mut self) -> Option<Sse> {
        self.complete.pop_front()
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + part.len() + self.event_bytes > self.event_bytes_max {
            return Err(TooLong(self.event_bytes_max));
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn read_line(&mut self, line: &[u8]) {
        let line = if std::mem::take(&mut self.is_first_line) { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() {
            self.event_bytes = 0;
            let event = std::mem::take(&mut self.event);
            if event != Sse::default() {
                self.complete.push_back(event);
            }
            return;
        }
        let at = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at_checked(at).unwrap_or((line, &[]));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        self.read_field(field, &String::from_utf8_lossy(value));
    }

    fn read_field(&mut self, field: &[u8], value: &str) {
        match field {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            b"event" => self.event.event = Some(value.to_owned()),
            b"id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            b"retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                let wanted = value.parse().map_or(RETRY_MAX, Duration::from_millis);
                self.event = std::mem::take(&mut self.event).retry_duration(wanted.min(RETRY_MAX));
                return;
            }
            _ => return,
        }
        self.event_bytes += value.len() + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<Sse> {
        let mut parser = Parser::new(1 << 10);
        chunks.iter().for_each(|chunk| parser.push(chunk).unwrap());
        std::iter::from_fn(|| parser.next_event()).collect()
    }

    #[test]
    fn all_four_fields_are_read() {
        let events = parse(&[b"event: message\nid: 7\nretry: 250\ndata: {\"a\":1}\n\n"]);
        assert_eq!(events, [Sse::default().event("message").id("7").retry(250).data(r#"{"a":1}"#)]);
    }

    #[test]
    fn data_lines_are_joined_and_foreign_lines_are_skipped() {
        let events = parse(&[b"\xEF\xBB\xBF: comment\ndata: a\nunknown: x\nno colon\ndata:b\nretry: soon\n\n\n\ndata\n\n"]);
        assert_eq!(events, [Sse::default().data("a\nb"), Sse::default().data("")]);
        assert_eq!(parse(&[b"data:\ndata: b\n\n"]), [Sse::default().data("\nb")]);
    }

    #[test]
    fn an_event_without_data_still_tells_its_id() {
        assert_eq!(parse(&[b"id: 1\ndata:\n\n"]), [Sse::default().id("1").data("")]);
        assert_eq!(parse(&[b"id: 1\n\n"]), [Sse::default().id("1")]);
        assert_eq!(parse(&[b"id: a\0b\n\n"]), []);
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut_and_how_lines_end() {
        let whole = "id: é\r\ndata: x\r\n\r\ndata: y\r\rdata: z\n\n".as_bytes();
        let expected = [Sse::default().id("é").data("x"), Sse::default().data("y"), Sse::default().data("z")];
        for cut in 0..whole.len() {
            let (head, tail) = whole.split_at(cut);
            assert_eq!(parse(&[head, tail]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::new(16);
        assert_eq!(parser.push(b"data: 0123456789"), Ok(()));
        assert_eq!(parser.push(b"0"), Err(TooLong(16)));
        let mut parser = Parser::new(16);
        assert_eq!(parser.push(b"data: 0123456\ndata: 78\ndata: 90\n"), Err(TooLong(16)));
        let mut parser = Parser::new(16);
        let comments = b": keep-alive\n".repeat(100);
        assert_eq!(parser.push(&comments), Ok(()), "comments hold nothing");
    }

    #[test]
    fn nobody_is_asked_to_wait_for_ever() {
        assert_eq!(parse(&[b"retry: 99999999999999999999999\n\n"]), [Sse::default().retry(300_000)]);
    }
}
