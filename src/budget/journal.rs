//! A folder of what is still to be done: one file for each thing, kept until somebody removes it.
//!
//! A record is whole or not there: it is written beside, brought to the disk, and renamed. What was put survives the death of the process
//! and of the machine. Files that cannot be read are left where they are, for a person to look at, and reported once.
//!
//! Everything here waits for the disk. Where others must not wait too, it is called on a thread for that.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{self, Write},
    marker::PhantomData,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// Records of one type. Several processes may share a folder: the last to put a record under an id wins.
#[derive(Debug)]
pub struct Journal<T> {
    folder: PathBuf,
    /// Tells apart what is written at the same time.
    written: AtomicU64,
    /// The names of files that were reported.
    reported: Mutex<BTreeSet<OsString>>,
    records: PhantomData<fn() -> T>,
}

/// The form of a file. A file of another form is left to who wrote it.
const VERSION: u32 = 1;
/// Who else uses the machine is not to read what was spent on what.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// What is in a file.
#[derive(Serialize, Deserialize)]
struct Sheet<T> {
    version: u32,
    id: String,
    record: T,
}

/// Why a file is left alone.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("not of the form of a record")]
    Form(#[source] serde_json::Error),
    #[error("of version {0}")]
    Version(u32),
    #[error("under the name of another record")]
    Name,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// The journal in `folder`, which is made where it is not. Fails when it cannot be made.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&folder)?;
        Ok(Self { folder, written: AtomicU64::new(0), reported: Mutex::default(), records: PhantomData })
    }

    /// Keeps `record` under `id`, in the place of one that is there. Once this returns it survives a crash; when it fails, what was there
    /// before still is.
    pub fn put(&self, id: &str, record: &T) -> io::Result<()> {
        let text = serde_json::to_vec(&Sheet { version: VERSION, id: id.to_owned(), record })?;
        let name = name(id);
        let beside = self.folder.join(format!(".{name}.{}-{}", std::process::id(), self.written.fetch_add(1, Ordering::Relaxed)));
        let placed = write(&beside, &text).and_then(|()| fs::rename(&beside, self.folder.join(name)));
        if placed.is_err() {
            // On a full disk the half that was written only makes it worse.
            let _ = fs::remove_file(&beside);
        }
        placed?;
        self.sync()
    }

    /// Forgets what is kept under `id`, if anything is.
    pub fn remove(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(name(id))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync(),
        }
    }

    /// All records that can be read, in no order that means anything. Fails when the folder cannot be read.
    pub fn all(&self) -> io::Result<Vec<T>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let file = entry.file_name();
            // What is written beside begins with a dot, and is not there yet.
            if file.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match read(&entry.path(), &file) {
                Ok(record) => records.push(record),
                // Another process was quicker.
                Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.report(file, &error),
            }
        }
        Ok(records)
    }

    fn report(&self, file: OsString, error: &Unreadable) {
        let path = self.folder.join(&file);
        let is_new = self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
        if is_new {
            tracing::error!(path = %path.display(), %error, "a file of the journal cannot be used and is left as it is");
        }
    }

    /// Brings to the disk which files there are.
    fn sync(&self) -> io::Result<()> {
        fs::File::open(&self.folder)?.sync_all()
    }
}

/// The name of the file for `id`. Ids that differ in anything, be it only case, have files that differ.
fn name(id: &str) -> String {
    digest(id) + ".json"
}

/// SHA-256 of `text` as it is, 64 hexadecimal digits.
pub(super) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

fn read<T: DeserializeOwned>(path: &Path, file: &OsString) -> Result<T, Unreadable> {
    /// What must be known before the rest is looked at.
    #[derive(Deserialize)]
    struct Front {
        version: u32,
    }
    let text = fs::read(path)?;
    let front: Front = serde_json::from_slice(&text).map_err(Unreadable::Form)?;
    if front.version != VERSION {
        return Err(Unreadable::Version(front.version));
    }
    let sheet: Sheet<T> = serde_json::from_slice(&text).map_err(Unreadable::Form)?;
    if name(&sheet.id).as_str() != file { Err(Unreadable::Name) } else { Ok(sheet.record) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A journal in a folder of its own.
    fn journal(test: &str) -> Journal<String> {
        let folder = std::env::temp_dir().join(format!("toolgate-journal-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Journal::open(folder.join("deep")).unwrap()
    }

    fn sorted(journal: &Journal<String>) -> Vec<String> {
        let mut records = journal.all().unwrap();
        records.sort();
        records
    }

    fn put(journal: &Journal<String>, id: &str, record: &str) {
        journal.put(id, &record.to_owned()).unwrap();
    }

    #[test]
    fn what_was_put_is_there_until_it_is_removed() {
        let journal = journal("kept");
        put(&journal, "a", "1");
        put(&journal, "b", "2");
        put(&journal, "a", "3");
        let again: Journal<String> = Journal::open(journal.folder.clone()).unwrap();
        assert_eq!(sorted(&again), ["2", "3"]);
        again.remove("a").unwrap();
        again.remove("a").unwrap();
        assert_eq!(sorted(&journal), ["2"]);
    }

    #[test]
    fn only_the_owner_reads_it() {
        let journal = journal("mode");
        put(&journal, "a", "1");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&journal.folder), 0o700);
        assert_eq!(mode(&journal.folder.join(name("a"))), 0o600);
    }

    #[test]
    fn cr_durable_007_ids_that_differ_in_anything_have_files_that_differ() {
        // The digest of the id as it is, in lower case: what any other program would compute too.
        assert_eq!(name("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.json");
        let journal = journal("ids");
        for id in ["a/b", "a_b", "a b", "A_B", "a_b\u{301}", "../a_b"] {
            put(&journal, id, id);
        }
        assert_eq!(journal.all().unwrap().len(), 6);
        journal.remove("a/b").unwrap();
        assert_eq!(sorted(&journal), ["../a_b", "A_B", "a b", "a_b", "a_b\u{301}"]);
    }

    #[test]
    fn cr_durable_005_what_cannot_be_read_stays_and_hides_nothing_else() {
        let journal = journal("corrupt");
        put(&journal, "a", "1");
        let sheet = |version: u32, id: &str| format!(r#"{{"version":{version},"id":"{id}","record":"2"}}"#);
        let wrong = [
            ("cut.json", r#"{"version":1,"id":"b","rec"#.to_owned()),
            ("text.json", "none".to_owned()),
            ("other.json", sheet(1, "c")),
            (name("d").leak(), sheet(2, "d")),
            (".beside", sheet(1, "e")),
        ];
        for (file, text) in &wrong {
            fs::write(journal.folder.join(file), text).unwrap();
        }
        assert_eq!(sorted(&journal), ["1"]);
        assert_eq!(journal.all().unwrap().len(), 1);
        assert_eq!(journal.reported.lock().unwrap().len(), 4);
        for (file, text) in &wrong {
            assert_eq!(fs::read_to_string(journal.folder.join(file)).unwrap(), *text, "{file}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_told_and_leaves_nothing_behind() {
        let journal = journal("full");
        put(&journal, "a", "1");
        // The place of the file is taken by a folder that is not empty: renaming fails, as writing does on a full disk.
        fs::create_dir_all(journal.folder.join(name("b")).join("x")).unwrap();
        assert!(journal.put("b", &"2".to_owned()).is_err());
        assert_eq!(sorted(&journal), ["1"]);
        let hidden =
            fs::read_dir(&journal.folder).unwrap().filter(|entry| entry.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
        assert_eq!(hidden.count(), 0);
        fs::remove_dir_all(&journal.folder).unwrap();
        assert!(journal.put("b", &"2".to_owned()).is_err());
        assert!(journal.all().is_err());
    }
}
