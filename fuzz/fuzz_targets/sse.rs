//! The decoder of server-sent events reads what the standard says, wherever the network cuts the bytes, and holds no more than its limit.
//!
//! A `~` in the input is a cut and not part of the stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate::wire::sse::{Decoder, TooLong};

fuzz_target!(|input: &[u8]| {
    let pieces: Vec<&[u8]> = input.split(|byte| *byte == b'~').collect();
    let stream = pieces.concat();
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    let expected = Expected::of(&stream);

    for cut in [&[stream.as_slice()], pieces.as_slice(), bytes.as_slice()] {
        assert_eq!(decode(cut, usize::MAX), (expected.payloads.clone(), Ok(())), "without a limit");

        let (payloads, outcome) = decode(cut, EVENT_BYTES_MAX);
        assert!(expected.payloads.starts_with(&payloads), "a limit changes no payload: {payloads:?}");
        match outcome {
            Ok(()) => {
                assert_eq!(payloads.len(), expected.payloads.len(), "what is not refused is read");
                assert!(expected.unfinished_line_bytes <= EVENT_BYTES_MAX, "an endless line is refused");
            }
            Err(TooLong { .. }) => assert!(expected.longest_event_bytes > EVENT_BYTES_MAX, "an event within the limit is not refused"),
        }
    }
    let (payloads, _) = decode(&bytes, EVENT_BYTES_MAX);
    assert!(payloads.iter().all(|payload| payload.len() <= EVENT_BYTES_MAX), "nothing over the limit is gathered byte by byte");
});

/// So low that short inputs exceed it.
const EVENT_BYTES_MAX: usize = 24;

/// The payloads of a stream that comes in `pieces`, up to its end or to an event that is too long.
fn decode(pieces: &[&[u8]], event_bytes_max: usize) -> (Vec<Vec<u8>>, Result<(), TooLong>) {
    let (mut decoder, mut payloads) = (Decoder::new(event_bytes_max), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(payload)) => payloads.push(payload.to_vec()),
                Ok(None) => break,
                Err(too_long) => return (payloads, Err(too_long)),
            }
        }
    }
    (payloads, Ok(()))
}

/// What the standard says of a stream, read in the plainest way.
#[derive(Default)]
struct Expected {
    payloads: Vec<Vec<u8>>,
    /// All lines of an event, with one byte for each line's end.
    longest_event_bytes: usize,
    unfinished_line_bytes: usize,
}

impl Expected {
    fn of(stream: &[u8]) -> Self {
        let (mut expected, mut data, mut event_bytes) = (Self::default(), None::<Vec<u8>>, 0);
        let mut lines = lines(stream);
        let unfinished = lines.pop().unwrap_or_default();
        for line in lines {
            event_bytes += line.len() + 1;
            expected.longest_event_bytes = event_bytes.max(expected.longest_event_bytes);
            if line.is_empty() {
                expected.payloads.extend(data.take());
                event_bytes = 0;
            } else if let Some(value) = line.strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                data = Some(data.map_or(value.to_vec(), |data| [&data, value].join(&b'\n')));
            }
        }
        expected.unfinished_line_bytes = unfinished.len();
        expected.longest_event_bytes = (event_bytes + unfinished.len()).max(expected.longest_event_bytes);
        expected
    }
}

/// The lines of a stream, the unfinished one last. A CR, a LF and a CR with a LF each end a line.
fn lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let (mut lines, mut before) = (vec![Vec::new()], 0);
    for byte in stream {
        match byte {
            b'\n' if before == b'\r' => {}
            b'\n' | b'\r' => lines.push(Vec::new()),
            _ => lines.last_mut().expect("there is always a last line").push(*byte),
        }
        before = *byte;
    }
    lines
}
