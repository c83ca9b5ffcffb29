//! What the definitions of tools were when they were first seen.
//!
//! A server may say today that a tool adds numbers and tomorrow that it does so after reading a file aloud. The hash of each definition is
//! kept, and one that is another is told. With a file the hashes outlive the process, and an operator accepts a change there
//! (`toolgate mcp accept`), which a running process notices. A file that cannot be read is left alone, and one that cannot be written is
//! tried again: both are warned about, and nothing else comes of it.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The pins of all servers.
#[derive(Debug)]
pub struct Pins {
    file: Option<PathBuf>,
    kept: Mutex<Kept>,
    /// Told when there is something to write.
    unsaved: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    pins: Servers,
    /// How the file looked when it was last read or written.
    stamp: Option<Stamp>,
    is_unsaved: bool,
    /// Whether the file holds something else than pins; it is not written over.
    is_foreign: bool,
    /// Whether it was told that there are too many.
    is_full: bool,
}

/// By server and tool.
type Servers = BTreeMap<String, BTreeMap<String, Pin>>;

/// One tool's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    /// The hash of the definition that counts.
    hash: String,
    /// That of another one, last seen, that nobody accepted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
}

/// The file as a whole.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    servers: Servers,
}

/// The form of the file.
const VERSION: u32 = 1;
/// How many tools of one server are remembered: a server that invents new names for ever fills no memory.
const PINS_MAX: usize = 10_000;

/// By what a changed file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
    /// A file that was put in its place may be as long and as old.
    node: u64,
}

impl Pins {
    /// The pins of `file`, or none, kept in memory only.
    pub fn load(file: Option<PathBuf>) -> Self {
        let pins = Self { file, kept: Mutex::default(), unsaved: Notify::new() };
        pins.sync();
        pins
    }

    /// Whether they are kept beyond this process.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the definition of `tool` is another than the one that counts. The first one seen counts.
    pub fn check(&self, server: &str, tool: &str, hash: &str) -> bool {
        let mut kept = self.lock();
        let known = kept.pins.get_mut(server).and_then(|tools| tools.get_mut(tool));
        let Some(pin) = known else {
            kept.add(server, tool, hash);
            self.unsaved.notify_one();
            return false;
        };
        let changed = (pin.hash != hash).then(|| hash.to_owned());
        if pin.changed == changed {
            return changed.is_some();
        }
        if changed.is_some() {
            tracing::warn!(server, tool, "the definition of the tool is not what it was when it was first seen");
        }
        pin.changed.clone_from(&changed);
        kept.is_unsaved = true;
        drop(kept);
        self.unsaved.notify_one();
        changed.is_some()
    }

    /// Waits until there is something to write.
    pub async fn unsaved(&self) {
        self.unsaved.notified().await;
    }

    /// Takes over what another process wrote to the file, and writes what is new here. Returns whether a pin is another now. Blocks.
    pub fn sync(&self) -> bool {
        let Some(file) = &self.file else { return false };
        let is_other = self.read_changes(file);
        self.write_changes(file);
        is_other
    }

    /// What the file says counts, where it says something.
    fn read_changes(&self, file: &Path) -> bool {
        let stamp = match stamp(file) {
            Ok(stamp) => stamp,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.lock().start_anew(),
            Err(error) => {
                warn_unreadable(file, &error);
                return false;
            }
        };
        if self.lock().stamp == Some(stamp) {
            return false;
        }
        let read = read(file);
        let mut kept = self.lock();
        kept.stamp = Some(stamp);
        kept.is_foreign = read.is_err();
        match read {
            Ok(servers) => kept.merge(servers),
            Err(error) => {
                drop(kept);
                warn_unreadable(file, &error);
                false
            }
        }
    }

    fn write_changes(&self, file: &Path) {
        let mut kept = self.lock();
        if !kept.is_unsaved || kept.is_foreign {
            return;
        }
        kept.is_unsaved = false;
        let pins = kept.pins.clone();
        drop(kept);
        match write(file, pins) {
            Ok(stamp) => self.lock().stamp = Some(stamp),
            Err(error) => {
                self.lock().is_unsaved = true;
                tracing::warn!(file = %file.display(), %error, "the pins of the tools cannot be written");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Whole after any panic: each change is one assignment.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, server: &str, tool: &str, hash: &str) {
        let tools = self.pins.entry(server.to_owned()).or_default();
        if tools.len() < PINS_MAX {
            tools.insert(tool.to_owned(), Pin { hash: hash.to_owned(), changed: None });
            self.is_unsaved = true;
        } else if !std::mem::replace(&mut self.is_full, true) {
            tracing::warn!(server, "more tools than are remembered: changes of the others go unnoticed");
        }
    }

    /// The file is gone: what is known is written again.
    fn start_anew(&mut self) -> bool {
        self.is_unsaved |= self.stamp.take().is_some();
        self.is_foreign = false;
        false
    }

    /// Takes over what was read. Pins that are only here stay, and are written with the next change.
    fn merge(&mut self, read: Servers) -> bool {
        let mut is_other = false;
        for (server, tools) in read {
            let known = self.pins.entry(server).or_default();
            for (tool, pin) in tools {
                match known.get_mut(&tool) {
                    Some(here) if here.hash != pin.hash => {
                        is_other = true;
                        // What was seen last is what this process saw.
                        let seen = here.changed.take().unwrap_or_else(|| here.hash.clone());
                        *here = Pin { changed: (seen != pin.hash).then_some(seen), hash: pin.hash };
                        self.is_unsaved |= here.changed != pin.changed;
                    }
                    // Another process may see another list: both would write in turn for ever.
                    Some(_) => {}
                    None => drop(known.insert(tool, pin)),
                }
            }
        }
        is_other
    }
}

/// Accepts the changed definitions of the tools whose `server.tool` is `chosen`, in `file`. Returns which they are.
pub fn accept(file: &Path, chosen: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut servers = read(file)?;
    let mut accepted = Vec::new();
    for (server, tools) in &mut servers {
        for (tool, pin) in tools {
            let name = format!("{server}.{tool}");
            if pin.changed.is_some() && chosen(&name) {
                pin.hash = pin.changed.take().unwrap_or_default();
                accepted.push(name);
            }
        }
    }
    if !accepted.is_empty() {
        write(file, servers)?;
    }
    Ok(accepted)
}

fn read(file: &Path) -> io::Result<Servers> {
    let text = fs::read(file)?;
    let file: File = serde_json::from_slice(&text)?;
    if file.version != VERSION {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("version {} is not known", file.version)));
    }
    Ok(file.servers)
}

/// Whole or not at all: under another name first.
fn write(file: &Path, servers: Servers) -> io::Result<Stamp> {
    let mut text = serde_json::to_vec_pretty(&File { version: VERSION, servers })?;
    text.push(b'\n');
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = (|| {
        let mut new = fs::File::create(&beside)?;
        new.write_all(&text)?;
        new.sync_all()?;
        fs::rename(&beside, file)
    })();
    if written.is_err() {
        // What could not be written may not have been made either.
        let _ = fs::remove_file(&beside);
    }
    written?;
    stamp(file)
}

fn stamp(file: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(file)?;
    Ok(Stamp { modified: found.modified()?, length: found.len(), node: found.ino() })
}

fn warn_unreadable(file: &Path, error: &io::Error) {
    tracing::warn!(file = %file.display(), %error, "the pins of the tools cannot be read: changes since the last run go unnoticed");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("toolgate-pins-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("pins.json")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn the_first_definition_counts() {
        let pins = Pins::load(None);
        assert!(!pins.check("files", "read", "1"));
        assert!(!pins.check("files", "read", "1"));
        assert!(pins.check("files", "read", "2"));
        assert!(pins.check("files", "read", "2"), "nobody accepted it");
        assert!(!pins.check("files", "read", "1"), "it is what it was");
        assert!(!pins.check("other", "read", "2"));
        assert!(!pins.sync());
    }

    #[test]
    fn pins_outlive_the_process_in_a_file_that_people_can_read() {
        let folder = Folder::new("outlive");
        let pins = Pins::load(Some(folder.file()));
        pins.check("files", "write", "2");
        pins.check("files", "read", "1");
        pins.sync();
        let text = fs::read_to_string(folder.file()).unwrap();
        assert!(text.contains("\n  \"servers\": {\n    \"files\": {\n      \"read\": {\n        \"hash\": \"1\"\n      },\n"), "{text}");
        let later = Pins::load(Some(folder.file()));
        assert!(later.check("files", "read", "3"));
        assert!(!later.check("files", "write", "2"));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_change_is_accepted_in_the_file_and_noticed() {
        let folder = Folder::new("accept");
        let pins = Pins::load(Some(folder.file()));
        for (tool, hash) in [("read", "1"), ("write", "2"), ("list", "3")] {
            pins.check("files", tool, hash);
        }
        pins.check("files", "read", "10");
        pins.check("files", "write", "20");
        pins.sync();
        assert_eq!(accept(&folder.file(), |name| name == "files.list").unwrap(), [""; 0]);
        assert_eq!(accept(&folder.file(), |name| name == "files.read").unwrap(), ["files.read"]);
        assert!(pins.sync(), "it is noticed");
        assert!(!pins.sync(), "once");
        assert!(!pins.check("files", "read", "10"));
        assert!(pins.check("files", "read", "1"), "what it was before is a change now");
        assert!(pins.check("files", "write", "20"));
    }

    #[test]
    fn what_is_not_accepted_stays_changed_when_the_file_is_read_again() {
        let folder = Folder::new("stays");
        let pins = Pins::load(Some(folder.file()));
        pins.check("files", "read", "1");
        pins.sync();
        pins.check("files", "read", "2");
        pins.sync();
        pins.check("files", "read", "3");
        // Accepted is what was told, not what came after.
        accept(&folder.file(), |_| true).unwrap();
        pins.sync();
        assert!(pins.check("files", "read", "3"));
        assert!(!pins.check("files", "read", "2"));
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        let folder = Folder::new("foreign");
        for text in ["", "[]", "{\"version\":2,\"servers\":{}}", "{\"version\":1,\"servers\":{\"a\":{\"b\":3}}}", "not JSON"] {
            fs::write(folder.file(), text).unwrap();
            let pins = Pins::load(Some(folder.file()));
            assert!(!pins.check("files", "read", "1"));
            pins.sync();
            assert_eq!(fs::read_to_string(folder.file()).unwrap(), text);
            assert!(accept(&folder.file(), |_| true).is_err());
            assert!(pins.check("files", "read", "2"), "in memory they are kept");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_does_no_harm_and_is_tried_again() {
        let folder = Folder::new("unwritable");
        let file = folder.0.join("missing").join("pins.json");
        let pins = Pins::load(Some(file.clone()));
        pins.check("files", "read", "1");
        pins.sync();
        assert!(pins.check("files", "read", "2"));
        fs::create_dir(folder.0.join("missing")).unwrap();
        pins.sync();
        assert!(fs::read_to_string(&file).unwrap().contains("\"changed\": \"2\""));
        fs::remove_file(&file).unwrap();
        pins.sync();
        assert!(file.exists(), "a file that was removed is written again");
    }

    #[test]
    fn two_processes_share_a_file() {
        let folder = Folder::new("share");
        let (one, other) = (Pins::load(Some(folder.file())), Pins::load(Some(folder.file())));
        one.check("files", "read", "1");
        one.sync();
        other.check("time", "now", "5");
        other.sync();
        one.sync();
        let third = Pins::load(Some(folder.file()));
        assert!(third.check("files", "read", "2") && third.check("time", "now", "6"));
    }

    #[test]
    fn a_server_fills_no_memory() {
        let pins = Pins::load(None);
        for n in 0..PINS_MAX + 10 {
            pins.check("wild", &n.to_string(), "1");
        }
        assert_eq!(pins.lock().pins.get("wild").unwrap().len(), PINS_MAX);
    }
}
