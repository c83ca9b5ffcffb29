//! Connections that wait for their next request.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::connection::Connection;

/// llama-server closes an idle connection after 5 s; a request sent into that moment is lost, so ours goes first.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// More than a model server has slots for. Past it, a connection is closed after use.
const KEPT_MAX: usize = 128;

/// The kept connections of one server, the freshest last.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: Mutex<Vec<(Instant, Connection)>>,
}

impl Pool {
    /// The connection that was used last and still stands.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            let (since, mut connection) = self.lock().pop()?;
            if since.elapsed() < IDLE_MAX && connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    /// Keeps `connection` if it can serve again, and closes what has waited too long.
    pub(super) fn put(&self, mut connection: Connection) {
        if !connection.is_reusable() {
            return;
        }
        let mut kept = self.lock();
        let stale = kept.iter().take_while(|(since, _)| since.elapsed() >= IDLE_MAX).count();
        let closed: Vec<_> = kept.drain(..stale).collect();
        if kept.len() < KEPT_MAX {
            kept.push((Instant::now(), connection));
        }
        drop(kept);
        // Sockets are closed without the lock.
        drop(closed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Connection)>> {
        // The list is whole after any panic: entries only come and go.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
