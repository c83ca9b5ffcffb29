//! The lines of a file of any length, one at a time and none longer than memory allows.

use std::io::{self, BufRead, Read};

/// Reads lines.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a line end.
    Whole,
    /// With the file: it is being written, or was cut off.
    Missing,
    /// It is longer than any line of a trace, and only its beginning is given.
    TooLong,
}

/// No line of a trace is as long: arguments are cut at 16 KiB.
const LINE_BYTES_MAX: usize = 1 << 20;

impl<R: BufRead> Lines<R> {
    /// The lines of `from`.
    pub fn new(from: R) -> Self {
        Self { from }
    }

    /// Puts the next line into `line`, without its end; `None` where there is none. Fails where it cannot be read.
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Ending>> {
        line.clear();
        let bytes_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        if self.from.by_ref().take(bytes_max).read_until(b'\n', line)? == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            return Ok(Some(Ending::Whole));
        }
        if line.len() < LINE_BYTES_MAX {
            return Ok(Some(Ending::Missing));
        }
        self.from.skip_until(b'\n')?;
        Ok(Some(Ending::TooLong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_its_end_or_the_file_or_is_too_long() {
        let long = "x".repeat(LINE_BYTES_MAX * 2 + 5);
        let text = format!("one\n\n{long}\ntwo\nthr");
        let (mut lines, mut line) = (Lines::new(text.as_bytes()), Vec::new());
        let mut read = Vec::new();
        while let Some(ending) = lines.next(&mut line).unwrap() {
            read.push((line.len(), ending));
        }
        let whole = |bytes| (bytes, Ending::Whole);
        assert_eq!(read, [whole(3), whole(0), (LINE_BYTES_MAX, Ending::TooLong), whole(3), (3, Ending::Missing)]);
    }
}
