//! A server as a child process that is spoken to through its pipes: one JSON-RPC message a line.
//!
//! Nothing it writes can fill our memory, nothing it does not read can hold us up, and neither it nor what it started outlives us.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    process::{self, ExitStatus},
    sync::Arc,
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde::Deserialize;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Error, Limits,
    child::Group,
    error::TOO_LONG,
    lines::{LEFT_OUT_MAX, Line, Lines},
    link::Link,
    output::clipped,
};
use crate::{
    resilience::tasks::Tasks,
    secret::{Secret, Template},
    tools::config::{self, Variables},
};

/// What every program needs of the environment; the rest is nobody's business.
const INHERITED: [&str; 10] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Starts the process of `server`. Fails when there is no such program, or a variable is not set.
pub(super) fn spawn(server: &config::Server, limits: Limits, variables: &Variables, tasks: &Tasks, link: Link) -> Result<Stdio, Error> {
    let config::Transport::Stdio { command, args, env, cwd } = &server.transport else {
        return Err(Error::Unreachable("it is no child process".to_owned()));
    };
    let variable = |name: &str| (variables.0)(name);
    let fill = |template: &Template| template.fill(&variable).map_err(|error| Error::Unreachable(error.to_string()));
    let mut child = Command::new(command);
    child.env_clear().envs(INHERITED.iter().filter_map(|name| Some((*name, variable(name)?))));
    for (name, value) in env {
        child.env(name, fill(value)?.expose());
    }
    for argument in args {
        child.arg(fill(argument)?.expose());
    }
    if let Some(cwd) = cwd {
        if !cwd.is_dir() {
            return Err(Error::Unreachable(format!("there is no folder `{}`", cwd.display())));
        }
        child.current_dir(cwd);
    }
    child.stdin(process::Stdio::piped()).stdout(process::Stdio::piped()).stderr(process::Stdio::piped());
    let started =
        Group::spawn(&mut child, tasks).and_then(|group| Stdio::new(&server.id, group, server.credentials(variables), limits, link));
    started.map_err(|error| Error::Unreachable(format!("start `{command}`: {error}")))
}

/// The pipes of a running server, and its process.
#[derive(Debug)]
pub(super) struct Stdio {
    server: Arc<str>,
    group: Group,
    /// Writing takes turns: a message is never within another.
    input: Arc<Mutex<Option<ChildStdin>>>,
    output: Option<Lines<ChildStdout>>,
    errors: Option<Lines<ChildStderr>>,
    /// What it wrote last to its standard error.
    last_words: VecDeque<String>,
    /// What it was given and may say again.
    secrets: Vec<Secret>,
    /// How many lines in a row were no message.
    garbage: usize,
    status: Option<ExitStatus>,
    /// When we stop to listen to a server that has ended or fallen silent for good.
    until: Option<Instant>,
    message_bytes_max: usize,
    link: Link,
}

/// So many lines without a message between them are more than a banner.
const GARBAGE_MAX: usize = 100;
/// The longest line of the standard error that is logged whole.
const ERROR_LINE_BYTES_MAX: usize = 4096;
/// How many lines of it are kept to say why the server ended.
const LAST_WORDS_MAX: usize = 3;
/// How much of a reason is told.
const REASON_BYTES_MAX: usize = 400;
/// How long a server may leave its standard input unread while a message waits for it.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// How long the other pipes, and the end of the process, may take once one of them has ended.
const END_GRACE: Duration = Duration::from_millis(500);
/// How long a server gets to end by itself once its standard input is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// How long it gets after SIGTERM; then it is killed.
const TERM_GRACE: Duration = Duration::from_secs(2);

impl Stdio {
    /// Speaks to the child in `group`, whose three pipes are still there to take.
    fn new(server: &str, mut group: Group, secrets: Vec<Secret>, limits: Limits, link: Link) -> io::Result<Self> {
        let child = group.child().ok_or_else(|| io::Error::other("the process is gone"))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("the process has no pipes"));
        };
        Ok(Self {
            server: server.into(),
            group,
            input: Arc::new(Mutex::new(Some(input))),
            output: Some(Lines::new(output, limits.message_bytes_max)),
            errors: Some(Lines::new(errors, ERROR_LINE_BYTES_MAX)),
            last_words: VecDeque::new(),
            secrets,
            garbage: 0,
            status: None,
            until: None,
            message_bytes_max: limits.message_bytes_max,
            link,
        })
    }

    /// Waits for the next line of output, and sees to everything else meanwhile. `None` when there will be no more.
    async fn next_line(&mut self) -> Option<Line> {
        while self.output.is_some() || self.errors.is_some() || self.status.is_none() {
            tokio::select! {
                line = next(&mut self.output), if self.output.is_some() => match line {
                    Some(line) => return Some(line),
                    None => {
                        self.output = None;
                        self.begin_end();
                    }
                },
                line = next(&mut self.errors), if self.errors.is_some() => self.note(line),
                status = self.group.wait(), if self.status.is_none() => {
                    self.status = Some(status.unwrap_or_default());
                    self.begin_end();
                }
                () = sleep_until(self.until.unwrap_or_else(Instant::now)), if self.until.is_some() => return None,
            }
        }
        None
    }

    fn begin_end(&mut self) {
        self.until.get_or_insert_with(|| Instant::now() + END_GRACE);
    }

    /// Logs what it wrote to its standard error.
    fn note(&mut self, line: Option<Line>) {
        let Some(line) = line else {
            self.errors = None;
            return;
        };
        let said = self.redacted(&String::from_utf8_lossy(&line.bytes));
        tracing::debug!(target: "toolgate::mcp::stderr", server = &*self.server, left_out = line.left_out, "{said}");
        if said.trim().is_empty() {
            return;
        }
        if self.last_words.len() == LAST_WORDS_MAX {
            self.last_words.pop_front();
        }
        self.last_words.push_back(said);
    }

    fn redacted(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// The message in `line`, if there is one.
    fn read(&mut self, line: &Line) -> Option<RxJsonRpcMessage<RoleClient>> {
        if line.left_out > 0 {
            let bytes = line.bytes.len() as u64 + line.left_out;
            tracing::warn!(
                server = &*self.server,
                bytes,
                max = self.message_bytes_max,
                "a message of the MCP server is too long and is skipped"
            );
            if line.left_out >= LEFT_OUT_MAX {
                self.link.fail("it writes a line without end to its standard output");
            }
            let id = line.answers.clone()?;
            return Some(failure(id, TOO_LONG, self.message_bytes_max.to_string()));
        }
        if line.bytes.trim_ascii().is_empty() {
            return None;
        }
        match serde_json::from_slice(&line.bytes) {
            Ok(message) => {
                self.garbage = 0;
                Some(message)
            }
            Err(error) => self.read_garbage(&line.bytes, &error),
        }
    }

    /// A line that is no message. Where it answers a request all the same, that request has failed.
    fn read_garbage(&mut self, line: &[u8], error: &serde_json::Error) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.garbage += 1;
        let said = clipped(&self.redacted(&String::from_utf8_lossy(line)), REASON_BYTES_MAX);
        tracing::debug!(server = &*self.server, %error, "no JSON-RPC from the MCP server: {said}");
        if self.garbage >= GARBAGE_MAX {
            self.link.fail(format!("it writes what is no JSON-RPC to its standard output: {said}"));
        }
        let answered = serde_json::from_slice::<Answered>(line).ok().filter(|answered| answered.method.is_none())?;
        Some(failure(answered.id, ErrorCode::INTERNAL_ERROR, "its answer is no JSON-RPC".to_owned()))
    }

    /// Why there is nothing more to hear.
    fn reason(&self) -> String {
        let mut reason = match self.status {
            Some(status) => format!("its process ended with {status}"),
            None => "it closed its standard output".to_owned(),
        };
        if !self.last_words.is_empty() {
            let last_words: Vec<&str> = self.last_words.iter().map(|line| line.trim()).collect();
            reason = format!("{reason}: {}", last_words.join(" / "));
        }
        clipped(&reason, REASON_BYTES_MAX)
    }

    /// Waits for the end of the process. What it still writes is thrown away, so that it is not held up by a full pipe.
    async fn ended(&mut self) {
        while self.status.is_none() {
            tokio::select! {
                status = self.group.wait() => self.status = Some(status.unwrap_or_default()),
                line = next(&mut self.output), if self.output.is_some() => if line.is_none() { self.output = None },
                line = next(&mut self.errors), if self.errors.is_some() => self.note(line),
            }
        }
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (input, link) = (Arc::clone(&self.input), self.link.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let writing = async {
                let mut input = input.lock().await;
                let Some(pipe) = input.as_mut() else { return Err(io::Error::new(io::ErrorKind::NotConnected, link.why())) };
                pipe.write_all(&line).await
            };
            tokio::select! {
                // A message that was not begun when the end came was reported as unsent, and stays that.
                biased;
                () = link.gone() => Err(io::Error::new(io::ErrorKind::BrokenPipe, link.why())),
                written = timeout(WRITE_MAX, writing) => written.unwrap_or_else(|_| {
                    // Part of a message may be in the pipe: no other can follow it.
                    link.fail("it does not read its standard input");
                    Err(io::ErrorKind::TimedOut.into())
                }),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let link = self.link.clone();
        loop {
            let line = tokio::select! {
                line = self.next_line() => line,
                () = link.gone() => return None,
            };
            let Some(line) = line else {
                self.link.fail(self.reason());
                return None;
            };
            if let Some(message) = self.read(&line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // Whoever writes at this moment gives up.
        self.link.fail("the connection is closed");
        drop(self.input.lock().await.take());
        if timeout(CLOSE_GRACE, self.ended()).await.is_ok() {
            return Ok(());
        }
        self.group.terminate();
        if timeout(TERM_GRACE, self.ended()).await.is_ok() {
            return Ok(());
        }
        tracing::warn!(server = &*self.server, "MCP server does not end and is killed");
        self.group.kill();
        self.ended().await;
        Ok(())
    }
}

/// What is enough of an answer to know what it answers.
#[derive(Deserialize)]
struct Answered {
    id: RequestId,
    method: Option<serde::de::IgnoredAny>,
}

/// The next line of a pipe that is still open.
async fn next<R: tokio::io::AsyncRead + Unpin>(lines: &mut Option<Lines<R>>) -> Option<Line> {
    let lines = lines.as_mut()?;
    lines.next().await
}

fn failure(id: RequestId, code: ErrorCode, message: String) -> RxJsonRpcMessage<RoleClient> {
    ServerJsonRpcMessage::error(ErrorData::new(code, message, None), Some(id))
}
