//! Keeps one server connected: connects, lists its tools, renews the list, and begins again with a back-off when it fails.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{
    config::Config,
    mcp::{Connection, Error, Limits, News},
    server::{Server, State, View},
};

/// The wait after a first failure; it doubles with each that follows.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// The longest wait between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often a connection is looked at, whether it still stands.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Supervises `server` until dropped. `changed` is told whenever what is known of it changed.
pub(super) async fn supervise(server: Arc<Server>, config: Arc<Config>, changed: impl Fn() + Send) {
    let mut wait = RETRY_FIRST;
    loop {
        let (news, mut heard) = mpsc::channel(1);
        let limits = Limits { message_bytes_max: config.message_bytes_max };
        let failed = match Connection::open(&server.config, limits, &config.variables, news).await {
            Ok(connection) => attend(&server, &config, &connection, &mut heard, &changed).await,
            Err(error) => error,
        };
        tracing::warn!(server = server.config.id, error = %failed, retry_s = wait.as_secs_f64(), "MCP server is not connected");
        let known = server.view();
        server.publish(View {
            state: state_after(&failed, &known),
            reason: Some(failed.to_string()),
            connection: None,
            ..(*known).clone()
        });
        changed();
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

fn state_after(error: &Error, known: &View) -> State {
    match error {
        Error::AuthNeeded(_) => State::AuthNeeded,
        _ if known.listed.is_some() => State::Stale,
        _ => State::Broken,
    }
}

/// Lists and listens until the connection fails.
async fn attend(
    server: &Server,
    config: &Config,
    connection: &Connection,
    heard: &mut mpsc::Receiver<News>,
    changed: &(impl Fn() + Send),
) -> Error {
    loop {
        match connection.list(server.config.timeout).await {
            Ok(tools) => {
                let state = if tools.is_empty() { State::Empty } else { State::Ready };
                let view =
                    View { state, reason: None, tools: tools.into(), listed: Some(Instant::now()), connection: Some(connection.clone()) };
                server.publish(view);
                changed();
            }
            Err(error) => return error,
        }
        let renew = tokio::time::sleep(config.list_ttl);
        tokio::pin!(renew);
        loop {
            tokio::select! {
                _ = heard.recv() => break,
                () = &mut renew, if !connection.announces() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if connection.is_closed() {
                        return Error::Lost;
                    }
                }
            }
        }
    }
}
