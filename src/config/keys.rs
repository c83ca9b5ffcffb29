//! The keys that were typed, where each comes from, and what is wrong with them.

use std::{collections::BTreeMap, fmt};

use toml::{Table, Value};

use super::env::{self, Env};
use crate::tools::config::Variables;

/// Values by path, from three sources of rising precedence.
pub struct Keys<'a> {
    file: BTreeMap<String, Value>,
    /// How long the lists of tables are.
    lists: BTreeMap<String, usize>,
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
        let is_list = |value: &Value| value.as_array().filter(|list| !list.is_empty() && list.iter().all(Value::is_table)).map(Vec::len);
        let lists = file.iter().filter_map(|(name, value)| Some((name.clone(), is_list(value)?))).collect();
        let mut flat = BTreeMap::new();
        flatten("", file, &mut flat);
        Self { file: flat, lists, env, flags, problems: Vec::new() }
    }

    /// The value at `path`, read by `read`; `default` when nothing sets it or what sets it is wrong, which is noted.
    pub fn take<T>(&mut self, path: &str, default: T, read: impl Fn(&Value) -> Result<T, String>) -> T {
        let Some((value, source)) = self.find(path) else { return default };
        self.noted(path, source, read(&value)).unwrap_or(default)
    }

    /// The value at `path`, read by `read`; `None` when what sets it is wrong, or nothing does, of which `missing` is said.
    pub fn require<T>(&mut self, path: &str, missing: &str, read: impl Fn(&Value) -> Result<T, String>) -> Option<T> {
        let Some((value, source)) = self.find(path) else {
            self.fault(path, format!("is missing: {missing}"));
            return None;
        };
        self.noted(path, source, read(&value))
    }

    fn noted<T>(&mut self, path: &str, source: Option<String>, read: Result<T, String>) -> Option<T> {
        read.map_err(|message| self.problems.push(Problem { path: path.to_owned(), source, message })).ok()
    }

    /// A variable or flag that means one of several tables means none.
    fn refuse_for_all(&mut self, path: &str) {
        let Some((table, (_, key))) = path.split_once('[').and_then(|(table, rest)| Some((table, rest.split_once(']')?))) else { return };
        let path = format!("{table}{key}");
        let told = |known: &Problem| known.path == path;
        if let Some(source) = self.source(&path)
            && !self.problems.iter().any(told)
        {
            let message = format!("there are several tables [[{table}]]: set it in the file");
            self.problems.push(Problem { path, source: Some(source), message });
        }
    }

    fn find(&mut self, path: &str) -> Option<(Value, Option<String>)> {
        self.refuse_for_all(path);
        let in_file = self.file.remove(path).map(|value| (value, None));
        let variable = env::variable(path);
        let in_env = || self.env.get(&variable).map(|text| (Value::String(text), Some(variable.clone())));
        let in_flags = self.flags.remove(path).map(|value| (value, Some(flag(path))));
        in_flags.or_else(in_env).or(in_file)
    }

    /// Where the tables called `name` are: `["name"]` for one, written `[name]` or `[[name]]`, else `["name[0]", …]`; none when there is none.
    pub fn tables(&self, name: &str) -> Vec<String> {
        let is_below = |path: &String| path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        match self.lists.get(name) {
            Some(1) => vec![name.to_owned()],
            Some(length) => (0..*length).map(|index| format!("{name}[{index}]")).collect(),
            None if self.file.keys().any(is_below) => vec![name.to_owned()],
            None => Vec::new(),
        }
    }

    /// The text at `path` of the file, which stays to be taken.
    pub fn peek(&self, path: &str) -> Option<String> {
        self.file.get(path).and_then(Value::as_str).map(str::to_owned)
    }

    /// The values of a table whose keys are nobody's to know.
    pub fn take_table(&mut self, path: &str) -> Vec<(String, Value)> {
        let prefix = format!("{path}.");
        let names: Vec<String> = self.file.keys().filter_map(|key| key.strip_prefix(&prefix).map(str::to_owned)).collect();
        names.into_iter().filter_map(|name| self.file.remove(&format!("{prefix}{name}")).map(|value| (name, value))).collect()
    }

    /// The variable `name` of the environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name)
    }

    /// The environment, for those who look variables up later.
    pub fn variables(&self) -> Variables {
        self.env.variables()
    }

    /// What set `path`, unless it was the file or nothing did.
    fn source(&self, path: &str) -> Option<String> {
        let variable = env::variable(path);
        let flag = || self.flags.contains_key(path).then(|| flag(path));
        flag().or_else(|| self.env.get(&variable).map(|_| variable))
    }

    /// Whether anything sets `path`.
    pub fn is_set(&self, path: &str) -> bool {
        self.file.contains_key(path) || self.source(path).is_some()
    }

    /// Notes that `message` is wrong with the value at `path`.
    pub fn fault(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { path: path.into(), source: None, message: message.into() });
    }

    /// Every problem found. A key of the file that nobody took is one.
    pub fn finish(mut self) -> Vec<Problem> {
        let unknown = |path: String| Problem { path, source: None, message: "is not a setting".to_owned() };
        self.problems.extend(std::mem::take(&mut self.file).into_keys().map(unknown));
        self.problems
    }
}

fn flag(path: &str) -> String {
    format!("--{}", path.replace(['.', '_'], "-"))
}

/// A list of tables at the top is numbered, unless it has one only.
fn flatten(prefix: &str, table: Table, flat: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(table) => flatten(&path, table, flat),
            Value::Array(list) if prefix.is_empty() && !list.is_empty() && list.iter().all(Value::is_table) => {
                let several = list.len() > 1;
                for (index, table) in list.into_iter().filter_map(|value| value.try_into().ok()).enumerate() {
                    flatten(&if several { format!("{path}[{index}]") } else { path.clone() }, table, flat);
                }
            }
            value => drop(flat.insert(path, value)),
        }
    }
}
