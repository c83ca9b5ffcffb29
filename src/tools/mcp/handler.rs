//! What a server says of its own accord.

use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation},
    service::NotificationContext,
};
use tokio::sync::mpsc;

/// Something that a server said unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Its list of tools is another now.
    ToolsChanged,
}

/// Listens to one server.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    news: mpsc::Sender<News>,
}

impl Handler {
    pub(super) fn new(news: mpsc::Sender<News>) -> Self {
        Self { news }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("toolgate", env!("CARGO_PKG_VERSION")))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        // One that waits already says the same.
        let _ = self.news.try_send(News::ToolsChanged);
    }
}
