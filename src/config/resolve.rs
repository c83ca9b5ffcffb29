//! From what was typed to what the program needs. Defaults stand here, each with its reason.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use toml::{Table, Value};

use super::{
    access_keys, backends, budget,
    env::Env,
    keys::{Keys, Problem},
    mcp,
    mcp_servers::{self, Search},
    trace as trace_keys, units,
};
use crate::{
    agent,
    backend::router,
    inference::{self, Constrain, Guardrails, OnText, Reasoning, RetrySampling, ToolArguments, history::Replay},
    server, store, tools, trace, upstream,
};

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Flags, by the path of the key that they set.
    pub flags: BTreeMap<&'static str, Value>,
}

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The edge.
    pub server: server::Config,
    /// The keys that clients show.
    pub keys: crate::budget::Keys,
    /// The model servers and the models that clients ask them for.
    pub backends: router::Config,
    /// The connections to them.
    pub upstream: upstream::Config,
    /// The guardrails.
    pub inference: inference::Config,
    /// The MCP servers and their tools.
    pub tools: tools::Config,
    /// Where those are from.
    pub servers_file: mcp_servers::File,
    /// The limits of a run.
    pub agent: agent::Config,
    /// What outlives a request.
    pub store: store::Config,
    /// What may be spent.
    pub budget: budget::Config,
    /// What is written of runs.
    pub trace: trace::Config,
    /// The log.
    pub log: Log,
}

impl Config {
    /// Where lines of the trace go. Unless that is set, they are written where there is something to look up in them: tools that toolgate
    /// runs itself, or costs that the books have too.
    pub fn trace_sink(&self) -> trace::Sink {
        self.trace.sink.clone().settled(!self.tools.servers.is_empty() || self.budget.books != budget::Books::Off)
    }
}

/// What is logged, to standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// A filter in the syntax of `tracing_subscriber::EnvFilter`.
    pub level: String,
    /// One line for a person or one JSON object.
    pub format: LogFormat,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Reads the configuration, and everything that is wrong with it: where a value is, its default stands in.
pub fn load(typed: Typed, env: &dyn Env) -> (Config, Vec<Problem>) {
    let path = typed.file.or_else(|| env.get("TOOLGATE_CONFIG").map(PathBuf::from));
    // The folder of the shipped file, unless another is named.
    let folder = path.as_deref().map_or(Path::new("config"), |path| path.parent().unwrap_or(Path::new(""))).to_owned();
    let (file, unreadable) = match path.map(read_file).transpose() {
        Ok(file) => (file.unwrap_or_default(), None),
        Err(problem) => (Table::new(), Some(problem)),
    };
    let mut keys = Keys::new(file, env, typed.flags);
    let config = resolve(&mut keys, Search::Folder(&folder));
    (config, unreadable.into_iter().chain(keys.finish()).collect())
}

/// Reads a configuration from the text of a file and the environment. MCP servers are looked for where they say and nowhere else.
pub fn from_text(text: &str, env: &dyn Env) -> (Config, Vec<Problem>) {
    let (file, unreadable) = match text.parse::<Table>() {
        Ok(file) => (file, None),
        Err(error) => (Table::new(), Some(Problem { path: WHOLE_FILE.to_owned(), source: None, message: error.to_string() })),
    };
    let mut keys = Keys::new(file, env, BTreeMap::new());
    let config = resolve(&mut keys, Search::Named);
    (config, unreadable.into_iter().chain(keys.finish()).collect())
}

/// The path of a problem with the file as a whole.
pub const WHOLE_FILE: &str = "configuration";

fn read_file(path: PathBuf) -> Result<Table, Problem> {
    let problem = |what: String| Problem { path: WHOLE_FILE.to_owned(), source: None, message: format!("{}: {what}", path.display()) };
    let text = fs::read_to_string(&path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    text.parse().map_err(|error: toml::de::Error| problem(error.to_string().trim_end().to_owned()))
}

const SECOND: Duration = Duration::from_secs(1);

fn resolve(keys: &mut Keys<'_>, search: Search<'_>) -> Config {
    let servers_file = mcp_servers::read(keys, search);
    let (server, store) = (server(keys), super::store::resolve(keys));
    let names = access_keys::names(keys);
    Config {
        keys: access_keys::resolve(keys, server.listen),
        server,
        backends: backends::resolve(keys),
        upstream: upstream::Config {
            // A host that does not answer within this on a local network is gone.
            connect_timeout: keys.take("timeouts.connect", 5 * SECOND, units::duration),
            // The default of the official clients: a long prompt on a slow CPU takes minutes.
            first_byte_timeout: keys.take("timeouts.first_byte", 600 * SECOND, units::duration),
            // Between two tokens; a minute means that the server hangs.
            idle_timeout: keys.take("timeouts.idle", 60 * SECOND, units::duration),
            // Longer than the longest answer that anybody waits for; it ends what would never end.
            total_timeout: keys.take("timeouts.total", 3600 * SECOND, units::duration),
        },
        inference: inference(keys),
        tools: mcp::tools(keys, &servers_file),
        servers_file,
        agent: mcp::agent(keys),
        budget: budget::resolve(keys, &store, &names),
        store,
        trace: trace_keys::resolve(keys),
        log: Log {
            level: keys.take("log.level", "info".to_owned(), log_level),
            format: keys
                .take("log.format", LogFormat::Text, |value| units::word(value, &[("text", LogFormat::Text), ("json", LogFormat::Json)])),
        },
    }
}

fn server(keys: &mut Keys<'_>) -> server::Config {
    server::Config {
        // Reachable from this machine only until somebody decides otherwise.
        listen: keys.take("listen", SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)), units::address),
        // An agent's transcript with a few images; more is a mistake.
        body_bytes_max: keys.take("server.max_body", 16 << 20, units::bytes),
        // A client that is slower than this with its request holds a place for nothing.
        request_timeout: keys.take("server.request_timeout", 60 * SECOND, units::duration),
        // A local model serves far fewer at once; the rest wait for it, at some 20 KiB each.
        connections_max: keys.take("server.max_connections", 1024, |value| {
            units::count(value, 1, 1 << 20).and_then(|count| usize::try_from(count).map_err(|error| error.to_string()))
        }),
        // Well below the minute after which most proxies and clients give an idle connection up.
        keep_alive: keys.take("server.keep_alive", Some(10 * SECOND), units::duration_or_off),
        // A failure within it still has a status of its own; nobody notices it as a delay.
        head_grace: keys.take("server.head_grace", SECOND / 4, units::duration),
        // Pages of the web have no business with this machine's tools.
        origins: keys.take("mcp.allowed_origins", Vec::new(), units::texts),
        // What Kubernetes and compose give a container to stop, or a little more.
        shutdown_grace: keys.take("server.shutdown_grace", 30 * SECOND, units::duration),
    }
}

fn inference(keys: &mut Keys<'_>) -> inference::Config {
    inference::Config {
        guardrails: Guardrails {
            respond: keys.take("guardrails.respond", true, units::flag),
            rescue: keys.take("guardrails.rescue", true, units::flag),
            validate: keys.take("guardrails.validate", true, units::flag),
            nudge: keys.take("guardrails.nudge", true, units::flag),
        },
        // Four calls in all: a model that has not understood by then will not.
        max_retries: keys.take("guardrails.max_retries", 3, |value| units::count(value, 0, 100)),
        // Arguments that were wrong twice after the schema was spelled out stay wrong.
        max_tool_errors: keys.take("guardrails.max_tool_errors", 2, |value| units::count(value, 0, 100)),
        // A grammar costs little and cannot be misunderstood; but it leaves room for one call only, so the first reply is free.
        constrain: keys.take("guardrails.constrain", Constrain::OnRetry, |value| {
            units::word(value, &[("never", Constrain::Never), ("on_retry", Constrain::OnRetry), ("always", Constrain::Always)])
        }),
        retry_sampling: RetrySampling {
            // What the client asked for, unless somebody decides otherwise.
            temperature_step: keys.take("guardrails.retry_temperature_step", 0.0, |value| units::fraction(value, 2.0)),
            seed_step: keys.take("guardrails.retry_seed_step", 0, |value| units::count(value, 0, 1 << 20).map(u64::from)),
        },
        // People watch it; agents ignore it.
        reasoning: keys.take("guardrails.reasoning", Reasoning::Live, |value| {
            units::word(value, &[("live", Reasoning::Live), ("hold", Reasoning::Hold), ("drop", Reasoning::Drop)])
        }),
        // Text is the rarest right answer where there is a tool to answer with, and the usual one where there is none.
        on_text: keys.take("guardrails.on_text", OnText::Auto, |value| {
            units::word(value, &[("auto", OnText::Auto), ("nudge", OnText::Nudge), ("accept", OnText::Accept)])
        }),
        // What was sent cannot be corrected.
        tool_arguments: keys.take("guardrails.tool_arguments", ToolArguments::Validated, |value| {
            units::word(value, &[("validated", ToolArguments::Validated), ("live", ToolArguments::Live)])
        }),
        // 512 tokens of the same: tables and rules that people write are shorter.
        repetitions_max: keys.take("guardrails.max_repetitions", 8, |value| {
            units::count(value, 0, 1 << 10).and_then(|count| usize::try_from(count).map_err(|error| error.to_string()))
        }),
        // Most models were trained on conversations without it, and it fills their context.
        reasoning_replay: keys.take("guardrails.reasoning_replay", Replay::None, |value| {
            units::word(value, &[("none", Replay::None), ("keep-last", Replay::KeepLast), ("full", Replay::Full)])
        }),
        // Longer than any call that is not itself a document.
        held_bytes_max: keys.take("guardrails.max_held_text", 64 << 10, units::bytes),
        // A 128k-token reply is half of this.
        reply_bytes_max: keys.take("guardrails.max_reply", 1 << 20, units::bytes),
    }
}

fn log_level(value: &Value) -> Result<String, String> {
    let level = units::text(value)?;
    match level.parse::<tracing_subscriber::EnvFilter>() {
        Ok(_) => Ok(level),
        Err(error) => Err(format!("must be error, warn, info, debug, trace or a filter: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn resolved(file: &str, env: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let env: HashMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut keys = Keys::new(file.parse().unwrap(), &env, BTreeMap::new());
        let config = resolve(&mut keys, Search::Named);
        let problems: Vec<_> = keys.finish().iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    #[test]
    fn later_sources_win() {
        let file = "listen = \"127.0.0.1:1\"\n[guardrails]\nmax_retries = 1";
        let config = resolved(file, &[("TOOLGATE_GUARDRAILS_MAX_RETRIES", "2")]).unwrap();
        assert_eq!((config.server.listen.port(), config.inference.max_retries), (1, 2));
        let env = HashMap::from([("TOOLGATE_LISTEN".to_owned(), "127.0.0.1:2".to_owned())]);
        let flags = BTreeMap::from([("listen", Value::from("127.0.0.1:3"))]);
        let (config, _) = load(Typed { file: None, flags }, &env);
        assert_eq!(config.server.listen.port(), 3);
    }

    #[test]
    fn every_problem_is_reported_with_its_path() {
        let file = "typo = 1\n[backend]\nurl = \"localhost:8080\"\n[guardrails]\nnudge = \"maybe\"\n[timeouts]\nidel = \"3s\"";
        let problems = resolved(file, &[("TOOLGATE_TIMEOUTS_CONNECT", "5")]).unwrap_err();
        let begins = |start: &str| problems.iter().any(|problem| problem.starts_with(start));
        for start in ["typo: ", "backend.url: ", "guardrails.nudge: ", "timeouts.idel: ", "timeouts.connect: "] {
            assert!(begins(start), "{start} {problems:?}");
        }
        assert_eq!(problems.len(), 5);
        assert!(problems.iter().any(|problem| problem.ends_with("(set by TOOLGATE_TIMEOUTS_CONNECT)")));
    }

    #[test]
    fn a_file_that_is_not_there_or_not_toml_is_a_problem() {
        let missing = Typed { file: Some("no/such/file.toml".into()), ..Typed::default() };
        assert!(load(missing, &HashMap::new()).1[0].message.contains("cannot be read"));
        let not_toml = Typed { file: Some("src/config/resolve.rs".into()), ..Typed::default() };
        assert!(load(not_toml, &HashMap::new()).1[0].message.contains("line 1"));
    }

    #[test]
    fn the_shipped_file_is_the_defaults() {
        let shipped = Typed { file: Some("config/toolgate.toml".into()), ..Typed::default() };
        let (defaults, problems) = load(Typed::default(), &HashMap::new());
        assert_eq!(problems, []);
        assert_eq!(load(shipped, &HashMap::new()), (defaults, problems));
    }
}
