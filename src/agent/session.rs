//! What is remembered of a conversation from one request to the next: who served it, and in which order it was offered tools.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{chat::Request, store::Store};

/// The memory of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    /// The names of the tools that it was offered, in that order.
    pub(super) seen: Vec<String>,
    /// The servers that served it, the newest first.
    pub(super) servers: Vec<String>,
}

/// How a conversation is known: by what the client calls it, by its user, or by how it began.
pub(super) fn key(request: &Request) -> String {
    let user = || request.field("user").and_then(|user| serde_json::from_slice::<String>(user).ok()).filter(|user| !user.is_empty());
    request.session.clone().or_else(user).unwrap_or_else(|| format!("{:016x}", request.conversation()))
}

impl Session {
    /// What is known of the conversation `key`.
    pub(super) async fn load(store: &Store, key: &str) -> Self {
        let kept = store.get(&place(key)).await;
        kept.and_then(|kept| serde_json::from_slice(&kept).ok()).unwrap_or_default()
    }

    /// Remembers it for `ttl`.
    pub(super) async fn save(&self, store: &Store, key: &str, ttl: Duration) {
        // Lists of strings always serialise.
        let Ok(kept) = serde_json::to_vec(self) else { return };
        store.put(&place(key), kept.into(), ttl).await;
    }

    /// Notes that `server` served it now.
    pub(super) fn served_by(&mut self, server: &str) {
        self.servers.retain(|known| known != server);
        self.servers.insert(0, server.to_owned());
    }
}

fn place(key: &str) -> String {
    format!("session:{key}")
}
