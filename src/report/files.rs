//! The files that a trace is in.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A file of a trace, open: what it is called does not matter any more.
#[derive(Debug)]
pub struct Source {
    /// What it was called.
    pub path: PathBuf,
    /// It, to be read from its beginning.
    pub file: File,
}

/// The numbers that files which were put aside may have.
const ASIDE_MAX: usize = 1000;

impl Source {
    /// Opens `path`. Fails where it cannot be opened, or is no file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// It, as it is to be read.
    pub fn reader(self) -> BufReader<impl Read> {
        BufReader::with_capacity(1 << 16, self.file)
    }
}

/// The trace at `path` and what of it was put aside, the oldest first. Fails where one that is there cannot be opened.
///
/// All are open before one is read, the youngest first: one that is put aside meanwhile is met again under its new name, and taken once.
pub fn all_of(path: &Path) -> io::Result<Vec<Source>> {
    let aside = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let (mut found, mut met) = (Vec::new(), HashSet::new());
    for path in std::iter::once(path.to_owned()).chain((1..=ASIDE_MAX).map(aside)) {
        let source = match Source::open(&path) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let known = source.file.metadata()?;
        if met.insert((known.dev(), known.ino())) {
            found.push(source);
        }
    }
    found.reverse();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_put_aside_is_read_first_and_no_file_twice() {
        let folder = std::env::temp_dir().join(format!("toolgate-report-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("traces.jsonl");
        assert_eq!(all_of(&path).unwrap().len(), 0);
        fs::write(&path, "3\n").unwrap();
        fs::write(folder.join("traces.jsonl.2"), "2\n").unwrap();
        fs::write(folder.join("traces.jsonl.7"), "1\n").unwrap();
        fs::hard_link(&path, folder.join("traces.jsonl.1")).unwrap();
        let sources = all_of(&path).unwrap();
        // Renamed after it was opened, it is read all the same.
        fs::rename(&path, folder.join("traces.jsonl.3")).unwrap();
        let texts: Vec<String> = sources.into_iter().map(|source| io::read_to_string(source.reader()).unwrap()).collect();
        assert_eq!(texts, ["1\n", "2\n", "3\n"]);
        assert!(Source::open(&folder).is_err() && all_of(&folder).is_err());
    }
}
