//! The keys that were typed, where each comes from, and what is wrong with them.

use std::{collections::BTreeMap, fmt};

use toml::{Table, Value};

use super::env::{self, Env};

/// Values by path, from three sources of rising precedence.
pub struct Keys<'a> {
    file: BTreeMap<String, Value>,
    env: &'a dyn Env,
    flags: BTreeMap<&'static str, Value>,
    problems: Vec<Problem>,
}

/// Something wrong with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its path in the file, such as `guardrails.max_retries`.
    pub path: String,
    /// The variable or flag that set it, when it was not the file.
    pub source: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, " (set by {source})"))
    }
}

impl<'a> Keys<'a> {
    /// The values of `file`, overridden by `env` and `flags`.
    pub fn new(file: Table, env: &'a dyn Env, flags: BTreeMap<&'static str, Value>) -> Self {
        let mut flat = BTreeMap::new();
        flatten("", file, &mut flat);
        Self { file: flat, env, flags, problems: Vec::new() }
    }

    /// The value at `path`, read by `read`; `default` when nothing sets it or what sets it is wrong, which is noted.
    pub fn take<T>(&mut self, path: &'static str, default: T, read: impl Fn(&Value) -> Result<T, String>) -> T {
        let (value, source) = match self.find(path) {
            Some(found) => found,
            None => return default,
        };
        read(&value).unwrap_or_else(|message| {
            self.problems.push(Problem { path: path.to_owned(), source, message });
            default
        })
    }

    fn find(&mut self, path: &'static str) -> Option<(Value, Option<String>)> {
        let in_file = self.file.remove(path).map(|value| (value, None));
        let variable = env::variable(path);
        let in_env = || self.env.get(&variable).map(|text| (Value::String(text), Some(variable.clone())));
        let in_flags = self.flags.remove(path).map(|value| (value, Some(format!("--{}", path.replace(['.', '_'], "-")))));
        in_flags.or_else(in_env).or(in_file)
    }

    /// Every problem found. A key of the file that nobody took is one.
    pub fn finish(mut self) -> Vec<Problem> {
        let unknown = |path: String| Problem { path, source: None, message: "is not a setting".to_owned() };
        self.problems.extend(std::mem::take(&mut self.file).into_keys().map(unknown));
        self.problems
    }
}

fn flatten(prefix: &str, table: Table, flat: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(table) => flatten(&path, table, flat),
            value => drop(flat.insert(path, value)),
        }
    }
}
