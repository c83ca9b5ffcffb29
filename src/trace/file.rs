//! A file to whose end lines are appended, put aside when it is long enough, and opened anew when somebody else put it aside.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Lines end up in it whole, also those of several processes that share it.
#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    bytes_max: u64,
    kept_max: usize,
    open: Option<File>,
    /// Whether the last line was cut off, so that a line end is due before the next.
    is_torn: bool,
}

/// Lines tell of who asked what: nobody else's business.
const MODE: u32 = 0o640;

impl Appender {
    /// Appends to the file at `path`, which is put aside before it grows beyond `bytes_max`; `kept_max` such files are kept.
    pub(super) fn new(path: PathBuf, bytes_max: usize, kept_max: usize) -> Self {
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        Self { path, bytes_max, kept_max, open: None, is_torn: false }
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole `lines`, in one write where the system takes them so.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let added = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if let Some(file) = &self.open
            && !self.is_at_path(file)
        {
            self.open = None;
        }
        if self.is_full(added)? {
            self.put_aside()?;
        }
        if std::mem::take(&mut self.is_torn) {
            self.write(b"\n")?;
        }
        self.write(lines)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = match self.file()?.write(rest) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                written => written,
            };
            match written {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) => {
                    self.is_torn |= rest.len() < bytes.len();
                    self.open = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.open.take() {
            Some(file) => file,
            None => {
                if let Some(folder) = self.path.parent() {
                    fs::create_dir_all(folder)?;
                }
                OpenOptions::new().append(true).create(true).mode(MODE).open(&self.path)?
            }
        };
        Ok(self.open.insert(file))
    }

    /// Whether `added` bytes are too many for the file. A device or a pipe never is full, nor an empty file.
    fn is_full(&mut self, added: u64) -> io::Result<bool> {
        let known = self.file()?.metadata()?;
        Ok(known.is_file() && known.len() > 0 && known.len().saturating_add(added) > self.bytes_max)
    }

    /// Whether `file` still is what is at the path.
    fn is_at_path(&self, file: &File) -> bool {
        let identity = |known: fs::Metadata| (known.dev(), known.ino());
        let (own, there) = (file.metadata().map(identity), fs::metadata(&self.path).map(identity));
        own.is_ok_and(|own| there.is_ok_and(|there| own == there))
    }

    /// Makes room for a new file. Where another process is about to do the same, it is left to that.
    fn put_aside(&mut self) -> io::Result<()> {
        let Some(file) = self.open.take() else { return Ok(()) };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                self.open = Some(file);
                return Ok(());
            }
            // Where files cannot be locked, two processes may each put one aside.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Looked at again under the lock: another process may have been first.
        if !self.is_at_path(&file) {
            return Ok(());
        }
        if self.kept_max == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.kept_max).rev() {
            match fs::rename(self.aside(number), self.aside(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.aside(1))
    }

    /// Where the file number `number` is, the youngest being 1.
    fn aside(&self, number: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("toolgate-trace-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| format!("{error}"))
    }

    #[test]
    fn a_file_is_put_aside_before_it_is_too_long() {
        let path = folder("aside").join("deep/traces.jsonl");
        let mut appender = Appender::new(path.clone(), 8, 2);
        for line in ["one\n", "two\n", "3\n", "longer than all\n", "5\n", "6\n"] {
            appender.append(line.as_bytes()).unwrap();
        }
        let files: Vec<String> = [path.clone(), appender.aside(1), appender.aside(2)].iter().map(|path| read(path)).collect();
        assert_eq!(files, ["5\n6\n", "longer than all\n", "3\n"]);
        assert!(!appender.aside(3).exists(), "what is older is gone");
    }

    #[test]
    fn none_are_kept_where_none_are_wanted() {
        let path = folder("none").join("traces.jsonl");
        let mut appender = Appender::new(path.clone(), 4, 0);
        appender.append(b"one\n").unwrap();
        appender.append(b"two\n").unwrap();
        assert_eq!(read(&path), "two\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_moved_or_removed_is_opened_anew() {
        let path = folder("moved").join("traces.jsonl");
        let mut appender = Appender::new(path.clone(), 1 << 20, 2);
        appender.append(b"one\n").unwrap();
        let moved = path.with_extension("old");
        fs::rename(&path, &moved).unwrap();
        appender.append(b"two\n").unwrap();
        fs::remove_file(&path).unwrap();
        appender.append(b"three\n").unwrap();
        assert_eq!([read(&moved), read(&path)], ["one\n", "three\n"]);
    }

    #[test]
    fn two_that_share_a_file_put_it_aside_once() {
        let path = folder("shared").join("traces.jsonl");
        let [mut a, mut b] = [(); 2].map(|()| Appender::new(path.clone(), 8, 3));
        a.append(b"a1\n").unwrap();
        b.append(b"b1\n").unwrap();
        a.append(b"a2\n").unwrap();
        b.append(b"b2\n").unwrap();
        assert_eq!([read(&path), read(&a.aside(1))], ["a2\nb2\n", "a1\nb1\n"]);
        assert!(!a.aside(2).exists());
    }

    #[test]
    fn lines_of_several_writers_stay_whole() {
        let path = folder("whole").join("traces.jsonl");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = path.clone();
                scope.spawn(move || {
                    let mut appender = Appender::new(path, 20_000, 100);
                    let line = format!("{}\n", char::from(b'a' + writer).to_string().repeat(99));
                    for _ in 0..200 {
                        appender.append(line.as_bytes()).unwrap();
                    }
                });
            }
        });
        let files = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| read(&entry.unwrap().path()));
        let lines: Vec<String> = files.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let is_whole = |line: &&String| line.len() == 99 && line.chars().all(|c| line.starts_with(c));
        assert_eq!((lines.len(), lines.iter().filter(is_whole).count()), (800, 800));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_and_tried_again() {
        let folder = folder("refused");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("logs"), "a file where a folder should be").unwrap();
        let mut appender = Appender::new(folder.join("logs/traces.jsonl"), 1 << 20, 1);
        assert!(appender.append(b"one\n").is_err());
        fs::remove_file(folder.join("logs")).unwrap();
        appender.append(b"two\n").unwrap();
        assert_eq!(read(&folder.join("logs/traces.jsonl")), "two\n");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut appender = Appender::new("/dev/full".into(), 8, 1);
        assert_eq!(appender.append(b"one\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
