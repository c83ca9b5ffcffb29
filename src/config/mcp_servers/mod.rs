//! `mcp_servers.json`: which MCP servers there are.
//!
//! The files of other programs are read as they are (`shape` finds the servers in them, `entry` reads one). The first file that exists
//! counts: one that is broken is an error, since the next would have other servers than those that were meant.

mod entry;
mod shape;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use toml::Value;

use self::entry::Entry;
use super::{keys::Keys, units};
use crate::tools::{
    self,
    config::{Server, Transport, Variables},
};

/// The servers, and where they are from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Where it is; `None` when there is none.
    pub path: Option<PathBuf>,
    /// The keys in it that are other programs', by their path.
    pub ignored: Vec<String>,
    /// Its servers, the first ones preferred.
    pub(super) servers: Vec<Server>,
    /// The servers that are switched off.
    disabled: Vec<String>,
    /// Whether all its servers are known.
    is_read: bool,
}

/// Where the file may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Search<'a> {
    /// Where `mcp.servers` says and nowhere else.
    Named,
    /// There, or else in this folder or that of the user.
    Folder(&'a Path),
}

/// Its name wherever it is looked for.
const FILE: &str = "mcp_servers.json";

/// Reads the file; what is wrong with it is noted in `keys`.
pub(super) fn read(keys: &mut Keys<'_>, search: Search<'_>) -> File {
    let named = keys.take("mcp.servers", None, |value: &Value| units::text(value).map(Some));
    let found = match (named, search) {
        // The way to have none, whatever lies about.
        (Some(path), _) if path.is_empty() => return File::default(),
        (Some(path), _) => Some((fs::read_to_string(&path), path.into())),
        (None, Search::Named) => None,
        (None, Search::Folder(folder)) => find(&places(keys, folder)),
    };
    let Some((text, path)) = found else { return File::default() };
    match text {
        Ok(text) => parsed(keys, &path, &text),
        Err(error) => {
            keys.fault(path.display().to_string(), format!("cannot be read: {error}"));
            File { path: Some(path), ..File::default() }
        }
    }
}

/// Where the file is looked for when nobody says where it is: beside the configuration, then in the user's own folder.
fn places(keys: &Keys<'_>, folder: &Path) -> Vec<PathBuf> {
    let absolute = |name: &str| keys.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    [Some(folder.join(FILE)), own.map(|own| own.join("toolgate").join(FILE))].into_iter().flatten().collect()
}

/// The first of `places` that exists. One that cannot be read does.
fn find(places: &[PathBuf]) -> Option<(io::Result<String>, PathBuf)> {
    let is_missing = |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let read = places.iter().map(|path| (fs::read_to_string(path), path.clone()));
    read.into_iter().find(|(text, _)| !text.as_ref().is_err_and(is_missing))
}

fn parsed(keys: &mut Keys<'_>, path: &Path, text: &str) -> File {
    let mut file = File { path: Some(path.to_owned()), ..File::default() };
    let written = match shape::written(text) {
        Ok(written) => written,
        Err(message) => {
            keys.fault(path.display().to_string(), message);
            return file;
        }
    };
    let variables = keys.variables();
    let faults = file.take(written, &variables);
    file.is_read = faults.is_empty();
    for (at, message) in faults {
        keys.fault(format!("{}: {at}", path.display()), message);
    }
    file
}

/// The servers that cannot be started, since there is no such program. Without one of them toolgate serves all the same.
pub fn without_program(config: &tools::Config) -> Vec<String> {
    let path = (config.variables.0)("PATH").unwrap_or_default();
    let is_there = |command: &str| match command.contains('/') {
        true => Path::new(command).is_file(),
        false => env::split_paths(&path).any(|folder| folder.join(command).is_file()),
    };
    let missing = |server: &Server| match &server.transport {
        Transport::Stdio { command, .. } if !is_there(command) => {
            Some(format!("the MCP server `{}` cannot be started: there is no program `{command}`", server.id))
        }
        Transport::Stdio { .. } | Transport::Http { .. } => None,
    };
    config.servers.iter().filter_map(missing).collect()
}

impl File {
    /// Takes the servers in. Returns what is wrong with them, each with its path in the file.
    fn take(&mut self, written: Vec<shape::Written>, variables: &Variables) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut ids = HashMap::new();
        for shape::Written { at, id, fields } in written {
            let mut entry = Entry::new(at.clone(), fields, variables);
            let is_enabled = entry.is_enabled();
            match id.and_then(entry::id) {
                // What is switched off may be unfinished.
                Ok(id) if !is_enabled => self.disabled.push(id),
                // Users mention servers in whatever case they like.
                Ok(id) if ids.insert(id.to_lowercase(), at.clone()).is_some() => {
                    faults.push((at, format!("another server is called `{id}` too")));
                }
                Ok(id) => {
                    self.servers.extend(entry.server(&id));
                    let (wrong, ignored) = entry.finish();
                    faults.extend(wrong);
                    self.ignored.extend(ignored);
                }
                Err(_) if !is_enabled => {}
                Err(message) => faults.push((at, message)),
            }
        }
        faults
    }

    /// The server and the tool that `name` names: `server.tool`, the server being the longest that there is, since an id may have dots.
    /// `None` when there is no such server. Where no file was read, the first dot parts them.
    pub(super) fn split<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let parts = |id: &str| Some((name.get(..id.len())?, name.strip_prefix(id)?.strip_prefix('.')?));
        let known = if self.is_read { self.ids().filter_map(parts).max_by_key(|(id, _)| id.len()) } else { name.split_once('.') };
        known.filter(|(_, tool)| !tool.is_empty())
    }

    /// Whether a tool of a server could be what `pattern` matches: `server.tool` with `*` for any characters. What was not read may have it.
    pub(super) fn may_match(&self, pattern: &str) -> bool {
        let begins = |literal: &str| {
            self.ids().any(|id| {
                let begin = format!("{id}.");
                begin.starts_with(literal) || literal.starts_with(&begin)
            })
        };
        match pattern.split_once('*') {
            Some((literal, _)) => !self.is_read || begins(literal),
            None => self.split(pattern).is_some(),
        }
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.id.as_str()).chain(self.disabled.iter().map(String::as_str))
    }
}
