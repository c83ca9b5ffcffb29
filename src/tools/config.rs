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
    /// Its credentials as they are now: what `variables` fill into its environment and its headers, and headers that hold theirs as it is.
    pub fn credentials(&self, variables: &Variables) -> Vec<Secret> {
        let (env, headers) = match &self.transport {
            Transport::Stdio { env, .. } => (Some(env), None),
            Transport::Http { headers, .. } => (None, Some(headers)),
        };
        let filled = env.into_iter().chain(headers).flat_map(BTreeMap::values);
        let names = filled.flat_map(Template::required).filter(|name| !PLACES.contains(name));
        let written = headers.into_iter().flat_map(BTreeMap::values).filter(|template| template.required().next().is_none());
        names
            .filter_map(|name| variables.0(name))
            .chain(written.map(|template| template.text().to_owned()))
            .map(|it| Secret::new(&it))
            .collect()
    }
}

/// Variables that hold no secret, and whose value stands in many a message.
const PLACES: [&str; 5] = ["HOME", "PATH", "PWD", "TMPDIR", "USER"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credentials_of_a_server_are_known() {
        let template = |(name, text): (&str, &str)| (name.to_owned(), Template::new(text));
        let env = [("TOKEN", "a ${ONE} b"), ("ROOT", "${HOME}/x"), ("LEVEL", "literal-of-env")].map(template).into();
        let headers = [("Authorization", "Bearer ${TWO}"), ("X-Key", "literal-key")].map(template).into();
        let variables = Variables(Arc::new(|name| Some(format!("value-of-{name}"))));
        let known = |transport| {
            let timeout = Duration::from_secs(1);
            let server = Server { id: "s".to_owned(), transport, tags: Vec::new(), concurrent_max: 1, timeout };
            server.credentials(&variables).iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(known(Transport::Stdio { command: "c".to_owned(), args: Vec::new(), env, cwd: None }), ["value-of-ONE"]);
        let http = Transport::Http { url: Template::new("http://a"), headers, allow_link_local: false };
        assert_eq!(known(http), ["value-of-TWO", "literal-key"]);
    }
}
