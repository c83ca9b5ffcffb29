//! What a server says of its own accord.

#![expect(deprecated, reason = "servers of 2025-11-25 still send log messages")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, Implementation, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
        ProtocolVersion,
    },
    service::NotificationContext,
};
use tokio::sync::mpsc;

use super::{credentials::Credentials, output::clipped};

/// Something that a server said unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Its list of tools is another now.
    ToolsChanged,
}

/// Listens to one server.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    server: Arc<str>,
    credentials: Credentials,
    news: mpsc::Sender<News>,
    progress: Progress,
}

/// The longest word about how far a call is, or about anything else, that is passed on.
const WORD_BYTES_MAX: usize = 256;

impl Handler {
    pub(super) fn new(server: Arc<str>, credentials: Credentials, news: mpsc::Sender<News>, progress: Progress) -> Self {
        Self { server, credentials, news, progress }
    }

    /// Who it listens to.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// What it says is logged without.
    pub(super) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Tells that its list of tools is another now.
    pub(super) fn tools_changed(&self) {
        // One that waits already says the same.
        let _ = self.news.try_send(News::ToolsChanged);
    }
}

impl ClientHandler for Handler {
    /// What servers are told of us: no sampling, no elicitation, no roots. They ask for nothing that nobody here can give.
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("toolgate", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed();
    }

    async fn on_progress(&self, mut progress: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        progress.message = progress.message.map(|message| self.credentials.redact(&message));
        self.progress.tell(&progress);
    }

    async fn on_logging_message(&self, message: LoggingMessageNotificationParam, _context: NotificationContext<RoleClient>) {
        let said = message.data.as_str().map_or_else(|| message.data.to_string(), ToOwned::to_owned);
        let said = clipped(&self.credentials.redact(&said), WORD_BYTES_MAX);
        tracing::debug!(target: "toolgate::mcp::message", server = &*self.server, level = ?message.level, logger = message.logger, "{said}");
    }
}

/// Who wants to know how far which call is. Cloning it shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>>);

impl Progress {
    /// Passes on how far the call of `token` is, as long as the result lives. What `to` has no room for is left out.
    pub(super) fn follow(&self, token: ProgressToken, to: mpsc::Sender<String>) -> Following {
        self.calls().insert(token.clone(), to);
        Following { progress: self.clone(), token }
    }

    fn tell(&self, progress: &ProgressNotificationParam) {
        let to = self.calls().get(&progress.progress_token).cloned();
        if let Some(to) = to {
            let _ = to.try_send(words(progress));
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<String>>> {
        // Each change is one insertion or removal: the map is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that somebody follows.
#[derive(Debug)]
pub(super) struct Following {
    progress: Progress,
    token: ProgressToken,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.progress.calls().remove(&self.token);
    }
}

fn words(progress: &ProgressNotificationParam) -> String {
    let far = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => clipped(&format!("{far}: {message}"), WORD_BYTES_MAX),
        None => far,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    #[test]
    fn progress_reaches_its_call_and_no_other() {
        let progress = Progress::default();
        let (to, mut told) = mpsc::channel(2);
        let following = progress.follow(token(1), to);
        progress.tell(&ProgressNotificationParam::new(token(1), 1.0).with_total(3.0).with_message("half\nway"));
        progress.tell(&ProgressNotificationParam::new(token(2), 2.0));
        progress.tell(&ProgressNotificationParam::new(token(1), 2.5));
        // There is no room for this one, and nobody waits for room.
        progress.tell(&ProgressNotificationParam::new(token(1), 3.0));
        assert_eq!(told.try_recv().unwrap(), "1 of 3: half way");
        assert_eq!(told.try_recv().unwrap(), "2.5");
        assert!(told.try_recv().is_err());
        drop(following);
        assert!(progress.calls().is_empty());
    }
}
