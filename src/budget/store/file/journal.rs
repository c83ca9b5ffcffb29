//! What was changed since the database was written: a record of each operation, appended before the operation is answered.
//!
//! There are two files, and one is written at a time. When the database is about to take over what was changed, the other one begins the
//! next generation; the first is emptied once the database has its rows. Each file begins with the number of its generation, and the
//! database knows the last that it took over, so that what is left of an old generation is never read again. Rows are absolute values: it
//! does no harm when the database has some of them already.
//!
//! A record has a length, a checksum of its place and its content, and the content. Whatever death of the process or loss of power leaves
//! is read up to the first record that is not whole, and nothing after it: the ledger is as it was after some operation.

use std::{
    fs, io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::rows::{self, Rows};

/// Both files.
#[derive(Debug)]
pub(super) struct Journal {
    /// Where records are appended.
    current: Half,
    /// What the database takes over, or has taken over.
    other: Half,
    generation: u64,
    /// How many records the current file has, and how long it is with them.
    records: u64,
    bytes: u64,
    /// Whether something may be in it after `bytes`, of a record that could not be written.
    is_torn: bool,
    record: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Half {
    path: PathBuf,
    file: Arc<fs::File>,
}

/// What was in the files when they were opened.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// What the database does not have.
    pub(super) rows: Rows,
    /// How many operations that were.
    pub(super) records: u64,
    /// The last generation of them.
    pub(super) generation: u64,
    /// The last generation that is in any file, read or not.
    pub(super) newest: u64,
    /// Whether the last operation was cut off while it was written: it was not answered.
    pub(super) is_torn: bool,
    /// Whether there is more that cannot be read, or that does not follow what could.
    pub(super) is_damaged: bool,
}

const MAGIC: &[u8; 8] = b"TGLEDGR1";
/// The magic, the generation, and the checksum of that.
const HEADER: usize = 24;
/// The length of a record, a checksum of that, and one of the record: a wrong length is told from a record that was cut off.
const FRAME: usize = 16;

impl Journal {
    /// Opens the files beside the database at `path`, or makes them. Nobody else has them open until they are dropped. Fails with
    /// [`io::ErrorKind::WouldBlock`] when somebody has.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let current = Half::open(path, "journal-a")?;
        current.file.try_lock().map_err(io::Error::from)?;
        let other = Half::open(path, "journal-b")?;
        Ok(Self { current, other, generation: 0, records: 0, bytes: 0, is_torn: false, record: Vec::new() })
    }

    /// What the files have after the generation that the database took over last.
    pub(super) fn left(&self, taken_over: u64) -> io::Result<Left> {
        let mut left = Left { generation: taken_over, newest: taken_over, ..Left::default() };
        let (mut found, mut has_bad_header) = (Vec::new(), false);
        for half in [&self.current, &self.other] {
            let bytes = fs::read(&half.path)?;
            match Content::read(&bytes) {
                Some(content) => found.push(content),
                // A header that was cut off has no records after it.
                None => has_bad_header |= bytes.len() >= HEADER,
            }
        }
        found.retain(|content| content.generation > taken_over);
        found.sort_by_key(|content| content.generation);
        left.newest = found.last().map_or(taken_over, |content| content.generation);
        for content in found {
            // Nothing is read after a gap.
            if left.is_torn || left.is_damaged || content.generation != left.generation + 1 {
                left.is_damaged = true;
                break;
            }
            left.generation = content.generation;
            left.records += content.records;
            left.rows.extend(content.rows);
            left.is_torn = content.end == End::Torn;
            left.is_damaged |= content.end == End::Damaged;
        }
        // Which generation it was, nobody knows; what follows the database without a gap is whole all the same.
        left.is_damaged |= has_bad_header;
        Ok(left)
    }

    /// Copies both files as they are, for a person to look at. Returns where they are.
    pub(super) fn set_aside(&self, name: &str) -> io::Result<Vec<PathBuf>> {
        let copy = |half: &Half| {
            let mut place = half.path.clone().into_os_string();
            place.push(format!(".{name}"));
            fs::copy(&half.path, &place).map(|_| place.into())
        };
        [&self.current, &self.other].into_iter().map(copy).collect()
    }

    /// Empties both files, and begins anew after `generation`, which the database has.
    pub(super) fn begin(&mut self, generation: u64) -> io::Result<()> {
        self.generation = generation;
        self.is_torn = false;
        self.turn()?;
        self.empty_other()
    }

    /// Appends the rows of one operation. When it fails, the journal is as before.
    pub(super) fn append(&mut self, rows: &Rows) -> io::Result<()> {
        self.cut()?;
        self.record.clear();
        self.record.resize(FRAME, 0);
        rows::encode(rows, &mut self.record);
        let (frame, content) = self.record.split_at_mut(FRAME);
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "the operation changes too much");
        let length = u32::try_from(content.len()).map_err(too_long)?;
        let sum = checksum(self.generation, self.records, content);
        let length_sum = short_checksum(self.generation, self.records, length);
        frame.copy_from_slice(&[&length.to_le_bytes()[..], &length_sum.to_le_bytes(), &sum.to_le_bytes()].concat());
        if let Err(error) = self.current.file.write_all_at(&self.record, self.bytes) {
            // There may be a part of it. If it cannot be cut off now, it is before anything else is written.
            self.is_torn = true;
            let _ = self.cut();
            return Err(error);
        }
        self.bytes += self.record.len() as u64;
        self.records += 1;
        Ok(())
    }

    /// Begins the next generation in the other file. When it fails, the current one goes on.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        self.cut()?;
        let generation = self.generation + 1;
        self.other.file.set_len(0)?;
        self.other.file.write_all_at(&header(generation), 0)?;
        std::mem::swap(&mut self.current, &mut self.other);
        (self.generation, self.records, self.bytes) = (generation, 0, HEADER as u64);
        Ok(())
    }

    /// Empties the file that was written before: the database has its rows.
    pub(super) fn empty_other(&self) -> io::Result<()> {
        self.other.file.set_len(0)
    }

    /// The generation that is written.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// How long the file is that is written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file that is written, to bring it to the disk.
    pub(super) fn file(&self) -> Arc<fs::File> {
        self.current.file.clone()
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.current.file.set_len(self.bytes)?;
            self.is_torn = false;
        }
        Ok(())
    }
}

impl Half {
    fn open(path: &Path, extension: &str) -> io::Result<Self> {
        let mut place = path.as_os_str().to_owned();
        place.push(format!(".{extension}"));
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&place)?;
        Ok(Self { path: place.into(), file: Arc::new(file) })
    }
}

/// What is in one file.
struct Content {
    generation: u64,
    rows: Rows,
    records: u64,
    end: End,
}

/// How a file ends.
#[derive(PartialEq, Eq)]
enum End {
    /// After a whole record.
    Whole,
    /// Within a record.
    Torn,
    /// There is more, after something that is no record.
    Damaged,
}

impl Content {
    /// `None` for a file that does not begin like a journal.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (start, mut rest) = bytes.split_at_checked(HEADER)?;
        let generation = u64::from_le_bytes(*start.split_first_chunk::<8>()?.1.first_chunk()?);
        if start != header(generation) {
            return None;
        }
        let mut content = Self { generation, rows: Rows::new(), records: 0, end: End::Whole };
        while !rest.is_empty() {
            match Next::read(rest, generation, content.records) {
                Next::Record(rows, after) => {
                    content.rows.extend(rows);
                    content.records += 1;
                    rest = after;
                }
                Next::End(end) => {
                    content.end = end;
                    break;
                }
            }
        }
        Some(content)
    }
}

/// What comes next in a file.
enum Next<'a> {
    /// The rows of a record, and what is after it.
    Record(Rows, &'a [u8]),
    /// Nothing that can be read.
    End(End),
}

impl<'a> Next<'a> {
    /// Reads the record of this number.
    fn read(bytes: &'a [u8], generation: u64, number: u64) -> Self {
        let Some((length, length_sum, sum, rest)) = split_frame(bytes) else { return Self::End(End::Torn) };
        if length_sum != short_checksum(generation, number, length) {
            return Self::End(End::Damaged);
        }
        let Some((record, after)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else {
            return Self::End(End::Torn);
        };
        let rows = (sum == checksum(generation, number, record)).then(|| rows::decode(record)).flatten();
        rows.map_or(Self::End(End::Damaged), |rows| Self::Record(rows, after))
    }
}

/// The length of a record, the checksums of that and of the record, and what is after them; `None` when the file ends before.
fn split_frame(bytes: &[u8]) -> Option<(u32, u32, u64, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (length_sum, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    Some((u32::from_le_bytes(*length), u32::from_le_bytes(*length_sum), u64::from_le_bytes(*sum), rest))
}

fn header(generation: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let sum = checksum(generation, u64::MAX, MAGIC);
    let parts = MAGIC.iter().copied().chain(generation.to_le_bytes()).chain(sum.to_le_bytes());
    header.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
    header
}

/// The upper half of the checksum of a length.
fn short_checksum(generation: u64, number: u64, length: u32) -> u32 {
    let sum = checksum(generation, number, &length.to_le_bytes());
    u32::try_from(sum >> 32).unwrap_or_default()
}

/// FNV-1a of where a record is and what is in it: quick, and it tells every change of a single byte. Nobody forges a journal that could not
/// as well forge the database beside it.
fn checksum(generation: u64, number: u64, content: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(PRIME);
    let place = [generation.to_le_bytes(), number.to_le_bytes()];
    content.iter().fold(place.as_flattened().iter().fold(BASIS, step), step)
}
