//! What is remembered of a conversation from one request to the next: who served it, and in which order it was offered tools.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::shelf::Shelf;
use crate::{chat::Request, tools::Offer};

/// The memory of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    /// The names of the tools that it was offered, in that order.
    pub(super) seen: Vec<String>,
    /// The servers that served it, the newest first.
    pub(super) servers: Vec<String>,
    /// When it was saved, in seconds since 1970.
    #[serde(default)]
    saved: u64,
    /// Whether it is another than the one that was saved.
    #[serde(skip)]
    is_changed: bool,
}

/// The longest name of a conversation that is kept as it is: several UUIDs. Of a longer one its SHA-256 is.
const KEY_BYTES_MAX: usize = 256;

/// How a conversation is known: by what the client calls it, by its user, or by how it began.
pub(super) fn key(request: &Request) -> String {
    let user = || request.field("user").and_then(|user| serde_json::from_slice::<String>(user).ok()).filter(|user| !user.is_empty());
    let key = request.session.clone().or_else(user).unwrap_or_else(|| format!("{:016x}", request.conversation()));
    if key.len() > KEY_BYTES_MAX { Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect() } else { key }
}

impl Session {
    /// What is known of the conversation `key`.
    pub(super) async fn load(shelf: &Shelf, key: &str) -> Self {
        let kept = shelf.get(&place(key)).await;
        kept.and_then(|kept| serde_json::from_slice(&kept).ok()).unwrap_or_default()
    }

    /// Remembers it for `ttl`. One that is as it was is saved again only when half of its time is over: most requests change nothing, and
    /// a store may be far away.
    pub(super) async fn save(&mut self, shelf: &Shelf, key: &str, ttl: Duration) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        if !self.is_changed && now.saturating_sub(self.saved) < ttl.as_secs() / 2 {
            return;
        }
        (self.saved, self.is_changed) = (now, false);
        // Lists of strings always serialise.
        let Ok(kept) = serde_json::to_vec(self) else { return };
        shelf.put(&place(key), kept.into(), ttl).await;
    }

    /// Notes which tools it is offered now.
    pub(super) fn offered(&mut self, offer: &Offer) {
        self.is_changed |= offer.remember_in(&mut self.seen);
    }

    /// Notes that `server` served it now.
    pub(super) fn served_by(&mut self, server: &str) {
        if self.servers.first().is_some_and(|newest| newest == server) {
            return;
        }
        self.is_changed = true;
        self.servers.retain(|known| known != server);
        self.servers.insert(0, server.to_owned());
    }
}

fn place(key: &str) -> String {
    format!("session:{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn the_newest_server_comes_first() {
        let shelf = Shelf::alone(1 << 20);
        let mut session = Session::default();
        ["a", "b", "a"].iter().for_each(|server| session.served_by(server));
        session.save(&shelf, "k", HOUR).await;
        let read = Session::load(&shelf, "k").await;
        assert_eq!(read.servers, ["a", "b"]);
    }

    #[test]
    fn a_long_name_is_kept_as_its_digest() {
        let key = |session: String| key(&Request { session: Some(session), ..Request::default() });
        let (kept, long) = ("a".repeat(KEY_BYTES_MAX), "a".repeat(KEY_BYTES_MAX + 1));
        assert_eq!(key(kept.clone()), kept);
        assert_eq!(key(long.clone()).len(), 64);
        assert_eq!(key(long.clone()), key(long.clone()));
        assert_ne!(key(format!("{long}b")), key(format!("{long}c")));
    }

    #[tokio::test]
    async fn what_did_not_change_is_not_saved_again() {
        let shelf = Shelf::alone(1 << 20);
        let mut session = Session::default();
        session.served_by("a");
        session.save(&shelf, "k", HOUR).await;
        shelf.take("session:k").await;
        session.served_by("a");
        session.offered(&Offer::default());
        session.save(&shelf, "k", HOUR).await;
        assert!(shelf.get("session:k").await.is_none());
        session.save(&shelf, "k", Duration::ZERO).await;
        session.served_by("b");
        session.save(&shelf, "k", HOUR).await;
        assert!(shelf.get("session:k").await.is_some());
    }
}
