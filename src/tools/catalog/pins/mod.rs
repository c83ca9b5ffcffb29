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
mod tests;
