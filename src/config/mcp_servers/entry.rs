//! One server of the file.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use hyper::{
    Uri,
    header::{HeaderName, HeaderValue},
};
use serde_json::{Map, Value};

use crate::{
    secret::Template,
    tools::{
        config::{Server, Transport, Variables},
        mcp,
    },
};

/// A server's settings as they are written.
pub(super) struct Entry<'a> {
    at: String,
    fields: Map<String, Value>,
    variables: &'a Variables,
    faults: Vec<(String, String)>,
}

/// How a server says that it is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
}

/// `id`, unless no header or setting could name it.
pub(super) fn id(id: String) -> Result<String, String> {
    let is_plain = !id.is_empty() && id.trim() == id && !id.chars().any(|c| c.is_control() || c == ',');
    if !is_plain {
        return Err("its id must not be empty, begin or end with a space, or have commas or control characters".to_owned());
    }
    if id.eq_ignore_ascii_case("off") {
        return Err("no server can be called `off`: it stands for none in x-toolgate-mcp".to_owned());
    }
    Ok(id)
}

impl<'a> Entry<'a> {
    /// The settings `fields`, which stand at `at`.
    pub(super) fn new(at: String, fields: Value, variables: &'a Variables) -> Self {
        match fields {
            Value::Object(fields) => Self { at, fields, variables, faults: Vec::new() },
            _ => Self { faults: vec![(at.clone(), "must be an object".to_owned())], at, fields: Map::new(), variables },
        }
    }

    /// Whether it is to be used.
    pub(super) fn is_enabled(&mut self) -> bool {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| "must be true or false".to_owned());
        let (enabled, disabled) = (self.take("enabled", true, flag), self.take("disabled", false, flag));
        enabled && !disabled
    }

    /// The server called `id`; `None` when it cannot be told how it is reached.
    pub(super) fn server(&mut self, id: &str) -> Option<Server> {
        // For people.
        self.fields.shift_remove("description");
        // More at once is more than most servers were tried with.
        let concurrent_max = self.take("max_concurrent", 10, concurrent);
        // What a person would wait for one step of an answer.
        let timeout = self.take("timeout_seconds", Duration::from_secs(30), seconds);
        let tags = self.take("tags", Vec::new(), texts);
        let transport = if self.faults.is_empty() { self.transport(id)? } else { return None };
        Some(Server { id: id.to_owned(), transport, tags, concurrent_max, timeout })
    }

    /// What is wrong, and the keys that nobody took; each with its path.
    pub(super) fn finish(self) -> (Vec<(String, String)>, Vec<String>) {
        let Self { at, fields, faults, .. } = self;
        (faults, fields.into_iter().map(|(key, _)| format!("{at}.{key}")).collect())
    }

    fn transport(&mut self, id: &str) -> Option<Transport> {
        let kinds = ["transport", "type"].map(|key| self.take(key, None, |value| kind(value).map(Some)));
        let has = ["command", "url"].map(|key| self.fields.get(key).is_some_and(|value| !value.is_null()));
        if !self.faults.is_empty() {
            return None;
        }
        let kind = match (kinds.into_iter().flatten().next(), has) {
            (_, [true, true]) => return self.fault("", "has both `command` and `url`"),
            (_, [false, false]) => return self.fault("", "has neither `command` nor `url`"),
            (Some(Kind::Stdio), [false, true]) => return self.fault("url", "is for a server over HTTP, and this one is over stdio"),
            (Some(Kind::Http), [true, false]) => return self.fault("command", "is for a server over stdio, and this one is over HTTP"),
            (_, [true, false]) => Kind::Stdio,
            (_, [false, true]) => Kind::Http,
        };
        match kind {
            Kind::Stdio => Some(self.stdio(id)),
            Kind::Http => Some(self.http(id)),
        }
    }

    fn stdio(&mut self, id: &str) -> Transport {
        // Where a program is is no secret, and an error should say it.
        let command = self.take("command", String::new(), text);
        let command = self.now(id, "command", &command);
        if command.trim().is_empty() && self.faults.is_empty() {
            self.fault::<()>("command", "must not be empty");
        }
        let args: Vec<Template> = self.take("args", Vec::new(), texts).iter().map(|text| Template::new(text)).collect();
        for (index, argument) in args.iter().enumerate() {
            self.check(id, &format!("args[{index}]"), argument, without_nul);
        }
        let env = self.take("env", BTreeMap::new(), scalars);
        for (name, value) in &env {
            let key = format!("env.{name}");
            if name.is_empty() || name.contains(['=', '\0']) {
                self.fault::<()>(&key, "is no name of a variable");
            }
            self.check(id, &key, value, without_nul);
        }
        let cwd = self.take("cwd", None, |value| text(value).map(Some)).map(|cwd| PathBuf::from(self.now(id, "cwd", &cwd)));
        Transport::Stdio { command, args, env, cwd }
    }

    fn http(&mut self, id: &str) -> Transport {
        let url = Template::new(&self.take("url", String::new(), text));
        if self.faults.is_empty() {
            self.check(id, "url", &url, is_url);
        }
        let headers = self.take("headers", BTreeMap::new(), scalars);
        let mut names: Vec<String> = Vec::new();
        let mut templates = BTreeMap::new();
        for (name, value) in headers {
            let key = format!("headers.{name}");
            if let Err(message) = header_name(&name, &names) {
                self.fault::<()>(&key, message);
            }
            names.push(name.to_lowercase());
            let value = self.key_of(id, &key, value);
            self.check(id, &key, &value, is_header_value);
            templates.insert(name, value);
        }
        let allow_link_local = self.take("allow_link_local", false, |value| value.as_bool().ok_or("must be true or false".to_owned()));
        Transport::Http { url, headers: templates, allow_link_local }
    }

    /// The value of `key`, read by `read`; `default` when there is none or it is wrong, which is noted.
    fn take<T>(&mut self, key: &str, default: T, read: impl FnOnce(&Value) -> Result<T, String>) -> T {
        match self.fields.shift_remove(key).filter(|value| !value.is_null()).map(|value| read(&value)) {
            Some(Ok(value)) => value,
            Some(Err(message)) => {
                self.fault::<()>(key, message);
                default
            }
            None => default,
        }
    }

    /// Notes that `message` is wrong with `key`, or with the server when there is none.
    fn fault<T>(&mut self, key: &str, message: impl Into<String>) -> Option<T> {
        let at = if key.is_empty() { self.at.clone() } else { format!("{}.{key}", self.at) };
        self.faults.push((at, message.into()));
        None
    }

    /// `text` with its placeholders filled in now.
    fn now(&mut self, id: &str, key: &str, text: &str) -> String {
        let template = Template::new(text);
        self.check(id, key, &template, without_nul);
        template.fill(&*self.variables.0).map(|filled| filled.expose().to_owned()).unwrap_or_default()
    }

    /// Notes the variables in `template` that are not set, or else what `wrong` says of it once it is filled in.
    fn check(&mut self, id: &str, key: &str, template: &Template, wrong: fn(&str) -> Result<(), String>) {
        let unset: Vec<&str> = template.required().filter(|name| (self.variables.0)(name).is_none()).collect();
        for name in &unset {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let message = if is_name { "is not set" } else { "is no variable of the environment" };
            self.fault::<()>(key, format!("${{{name}}} {message}, and the server `{id}` needs it"));
        }
        if let Ok(filled) = template.fill(&*self.variables.0)
            && let Err(message) = wrong(filled.expose())
        {
            self.fault::<()>(key, message);
        }
    }

    /// The value of a header, where `Bearer MCP_SERVER_API_KEY_<NAME>` stands for what the variable of that name holds.
    fn key_of(&mut self, id: &str, key: &str, value: Template) -> Template {
        let words = value.text().trim().split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((scheme, name)) = words.map(|(scheme, name)| (scheme, name.trim().to_ascii_uppercase())) else { return value };
        let is_word = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !name.strip_prefix("MCP_SERVER_API_KEY_").is_some_and(is_word) {
            return value;
        }
        let has_scheme = (self.variables.0)(&name).is_some_and(|key| key.trim().to_ascii_lowercase().starts_with("bearer "));
        if has_scheme {
            self.fault::<()>(key, format!("the variable {name} of the server `{id}` begins with `Bearer` too: leave it out there"));
        }
        Template::new(&format!("{scheme} ${{{name}}}"))
    }
}

fn kind(value: &Value) -> Result<Kind, String> {
    match value.as_str() {
        Some("stdio") => Ok(Kind::Stdio),
        Some("http" | "streamable-http" | "streamable_http" | "streamableHttp") => Ok(Kind::Http),
        Some("sse") => {
            Err("is the old transport of server-sent events, which is not supported: most servers have streamable HTTP".to_owned())
        }
        _ => Err("must be \"stdio\" or \"http\"".to_owned()),
    }
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "must be a string".to_owned())
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let texts = value.as_array().map(|list| list.iter().map(|text| text.as_str().map(str::to_owned)));
    texts.and_then(Iterator::collect).ok_or_else(|| "must be a list of strings".to_owned())
}

/// Strings by name. Numbers will do: people write ports so.
fn scalars(value: &Value) -> Result<BTreeMap<String, Template>, String> {
    let scalar = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Some((name.clone(), Template::new(text))),
        Value::Number(number) => Some((name.clone(), Template::new(&number.to_string()))),
        _ => None,
    };
    let scalars = value.as_object().map(|object| object.iter().filter(|(_, value)| !value.is_null()).map(scalar));
    scalars.and_then(Iterator::collect).ok_or_else(|| "must be an object of strings".to_owned())
}

fn concurrent(value: &Value) -> Result<usize, String> {
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    count.filter(|count| (1..=1024).contains(count)).ok_or_else(|| "must be a whole number from 1 to 1024".to_owned())
}

fn seconds(value: &Value) -> Result<Duration, String> {
    let seconds = value.as_f64().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "must be a number of seconds above 0, a day at most".to_owned())
}

fn without_nul(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err("must not have NUL characters".to_owned()) } else { Ok(()) }
}

/// What is wrong with a URL, in words that do not show it: it may have a key in it.
fn is_url(text: &str) -> Result<(), String> {
    let expected = || "must be a URL that begins with http:// or https://".to_owned();
    let uri: Uri = text.parse().map_err(|_| expected())?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err("must not hold a password: use `headers`".to_owned())
        }
        (Some("http" | "https"), Some(authority)) if !authority.host().is_empty() => Ok(()),
        _ => Err(expected()),
    }
}

fn header_name(name: &str, seen: &[String]) -> Result<(), String> {
    let lower = name.to_lowercase();
    if name.parse::<HeaderName>().is_err() {
        return Err("is no name of a header".to_owned());
    }
    if mcp::RESERVED_HEADERS.contains(&lower.as_str()) {
        return Err("is a header that toolgate sets itself".to_owned());
    }
    if seen.contains(&lower) { Err("is there twice".to_owned()) } else { Ok(()) }
}

fn is_header_value(text: &str) -> Result<(), String> {
    HeaderValue::from_str(text).map(drop).map_err(|_| "holds characters that no header can hold".to_owned())
}
