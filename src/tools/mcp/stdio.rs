//! A server as a child process.

use std::process::Stdio;

use rmcp::transport::TokioChildProcess;
use tokio::process::Command;

use super::{Error, Limits};
use crate::tools::config::{Server, Transport, Variables};

/// What every program needs of the environment; the rest is nobody's business.
const INHERITED: [&str; 10] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Starts the process. Fails when there is no such program or a variable is not set.
pub(super) fn spawn(server: &Server, _limits: Limits, variables: &Variables) -> Result<TokioChildProcess, Error> {
    let Transport::Stdio { command, args, env, cwd } = &server.transport else {
        return Err(Error::Unreachable("it is no child process".to_owned()));
    };
    let look_up = |name: &str| (variables.0)(name);
    let unset = |error: crate::secret::Unset| Error::Unreachable(error.to_string());
    let mut child = Command::new(command);
    child.env_clear();
    child.envs(INHERITED.iter().filter_map(|name| Some((*name, look_up(name)?))));
    for (name, value) in env {
        child.env(name, value.fill(&look_up).map_err(unset)?.expose());
    }
    for argument in args {
        child.arg(argument.fill(&look_up).map_err(unset)?.expose());
    }
    if let Some(cwd) = cwd {
        child.current_dir(cwd);
    }
    let spawned = TokioChildProcess::builder(child).stderr(Stdio::null()).spawn();
    let (transport, _) = spawned.map_err(|error| Error::Unreachable(format!("start `{command}`: {error}")))?;
    Ok(transport)
}
