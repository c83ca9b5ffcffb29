//! The settings of the tools that toolgate runs itself.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use hyper::Uri;

use super::selector;
use crate::{
    resilience::breaker,
    secret::{Secret, Template},
};

/// Everything about MCP servers and their tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The servers, the first ones preferred.
    pub servers: Vec<Server>,
    /// Whether requests that do not say are offered their tools.
    pub attach: bool,
    /// Tools that do the same: each list names tools that are alternatives for one another.
    pub overlaps: Vec<Vec<Named>>,
    /// What may be run; the first rule that matches a tool counts, and what none matches is allowed.
    pub approvals: Vec<Approval>,
    /// How descriptions are compared with what the user says.
    pub embedder: selector::embed::Config,
    /// How long a list of tools counts as fresh where the server does not announce its changes.
    pub list_ttl: Duration,
    /// After how long a list that could not be renewed counts as stale.
    pub stale_after: Duration,
    /// How long the first request waits for servers that are still starting.
    pub start_timeout: Duration,
    /// What becomes of a tool whose definition is not what it was when it was first seen.
    pub changed: Changed,
    /// Where the hashes of the definitions are kept beyond this process; nowhere when unset.
    pub pins: Option<PathBuf>,
    /// The longest message of a server that is read.
    pub message_bytes_max: usize,
    /// How much of a result the model reads; the middle of a longer one is left out.
    pub result_bytes_max: usize,
    /// How images of a result are shown to the model.
    pub images: Images,
    /// When a server is left alone.
    pub breaker: breaker::Config,
    /// What of the environment is looked up when a server is started or asked.
    pub variables: Variables,
}

/// Looks up a variable of the environment.
#[derive(Clone)]
pub struct Variables(pub Arc<LookUp>);

/// The variable of that name.
pub type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

// There is one environment.
impl PartialEq for Variables {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Variables {}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Variables")
    }
}

/// One MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its id: the name by which users mention it and the configuration refers to it.
    pub id: String,
    /// How it is reached.
    pub transport: Transport,
    /// What it is good for, in words of the operator's choice.
    pub tags: Vec<String>,
    /// How many of its tools run at once.
    pub concurrent_max: usize,
    /// How long a call may take, and the connecting too.
    pub timeout: Duration,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that is spoken to through its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<Template>,
        /// What its environment has beside the few variables that every program needs.
        env: BTreeMap<String, Template>,
        /// Where it runs; here when unset.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// Its end point. Checked when it is read, without its placeholders filled in.
        url: Template,
        /// Headers sent with every request.
        headers: BTreeMap<String, Template>,
        /// Whether the address may be one that only this machine's own network knows how to reach without asking: link-local and the
        /// like, where clouds keep their credentials.
        allow_link_local: bool,
    },
}

impl Transport {
    /// An end point without placeholders and headers.
    pub fn http(url: &Uri) -> Self {
        Self::Http { url: Template::new(&url.to_string()), headers: BTreeMap::new(), allow_link_local: false }
    }
}

/// A tool by its server's id and its own name there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Named {
    /// The server's id.
    pub server: String,
    /// The tool's name.
    pub tool: String,
}

/// Who decides about the tools that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// `server.tool`, where `*` stands for any characters.
    pub pattern: String,
    /// What may be done.
    pub policy: Policy,
}

/// Who decides whether a tool is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is.
    Allow,
    /// The client is asked.
    Ask,
    /// It is not, and the model does not see it.
    Deny,
}

impl Policy {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What becomes of a tool whose definition changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is reported and used.
    Report,
    /// It is reported and not used until the change is accepted.
    Withhold,
}

/// How images are shown to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Images {
    /// As a line of text that says what was there.
    Note,
    /// As content of the tool's message, for backends that take it there.
    Content,
}

impl Server {
    /// Its credentials as they are now, the longest first: the values of the variables in its settings, what is written out in a header, and
    /// what is written out in its environment under the name of a secret.
    pub fn credentials(&self, variables: &Variables) -> Vec<Secret> {
        let (templates, written): (Vec<&Template>, Vec<&Template>) = match &self.transport {
            Transport::Stdio { args, env, .. } => {
                let named = env.iter().filter(|(name, _)| is_of_a_secret(name)).map(|(_, value)| value);
                (args.iter().chain(env.values()).collect(), named.collect())
            }
            Transport::Http { url, headers, .. } => ([url].into_iter().chain(headers.values()).collect(), headers.values().collect()),
        };
        let names = templates.into_iter().flat_map(Template::variables).filter(|name| !PLACES.contains(name));
        let mut values: Vec<String> = names.filter_map(|name| variables.0(name)).collect();
        // With its variables filled in: what is written out may stand around one, or be its default.
        values.extend(written.iter().filter_map(|template| Some(template.fill(&|name| variables.0(name)).ok()?.expose().to_owned())));
        values.retain(|value| !value.trim().is_empty());
        // A secret may be part of another, which is then looked for first.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        values.iter().map(|value| Secret::new(value)).collect()
    }
}

/// Whether a variable of this name most likely holds a secret.
fn is_of_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// What names of variables have in them that hold a secret. `PASS` is part of `PASSWORD`, too.
const SECRET_WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"];

/// Variables that hold no secret, and whose value stands in many a message.
const PLACES: [&str; 11] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(transport: Transport) -> Vec<String> {
        let set = |name: &str| (name != "NONE").then(|| format!("value-of-{name}"));
        let server = Server { id: "s".to_owned(), transport, tags: Vec::new(), concurrent_max: 1, timeout: Duration::from_secs(1) };
        server.credentials(&Variables(Arc::new(set))).iter().map(|secret| secret.expose().to_owned()).collect()
    }

    fn named<const N: usize>(values: [(&str, &str); N]) -> BTreeMap<String, Template> {
        values.map(|(name, text)| (name.to_owned(), Template::new(text))).into()
    }

    #[test]
    fn the_credentials_of_a_child_are_known() {
        let env = named([
            ("GREETING", "a ${ONE} b"),
            ("ROOT", "${HOME}/x"),
            ("LEVEL", "no-secret"),
            ("GITHUB_PERSONAL_ACCESS_TOKEN", "written-out"),
            ("db_password", "${NONE:-default-one}"),
            ("SITE", "${SITE:-no-secret}"),
            ("API_KEY", ""),
        ]);
        let args = ["--dsn", "sql://u:${TWO}@db", "--place=${HOME}", "${NONE}"].map(Template::new).into();
        let known = credentials(Transport::Stdio { command: "c".to_owned(), args, env, cwd: None });
        assert_eq!(known, ["value-of-SITE", "value-of-ONE", "value-of-TWO", "default-one", "written-out"]);
    }

    #[test]
    fn the_credentials_of_an_end_point_are_known() {
        let headers = named([("Authorization", "Bearer ${FIRST:-x}"), ("X-Key", "written-out-key")]);
        let known = credentials(Transport::Http { url: Template::new("http://a/${OTHER}"), headers, allow_link_local: false });
        assert_eq!(known, ["Bearer value-of-FIRST", "written-out-key", "value-of-FIRST", "value-of-OTHER"]);
    }
}
