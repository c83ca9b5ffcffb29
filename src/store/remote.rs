//! The store of several processes: a Redis.
//!
//! What it does not answer is not there: a request never fails for it, and hardly waits for it.

use std::time::Duration;

use ::redis::{Cmd, FromRedisValue};
use bytes::Bytes;

use crate::redis::{Config, Connection, Repeat};

/// A Redis.
#[derive(Debug)]
pub(super) struct Remote {
    prefix: String,
    connection: Connection,
}

/// How long a Redis that failed is left alone, so that an outage costs one wait a second and not one a request.
const PAUSE: Duration = Duration::from_secs(1);

impl Remote {
    pub(super) fn new(config: Config) -> Self {
        Self { prefix: config.prefix().to_owned(), connection: Connection::new(config, PAUSE) }
    }

    pub(super) async fn get(&self, key: &str) -> Option<Bytes> {
        let get = self.command("GET", key);
        self.ask::<Option<Vec<u8>>>(&get).await.flatten().map(Bytes::from)
    }

    pub(super) async fn put(&self, key: &str, value: Bytes, ttl: Duration) {
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64);
        let mut set = self.command("SET", key);
        set.arg(&value[..]).arg("PX").arg(ms);
        // What is not kept is done without.
        let _ = self.ask::<()>(&set).await;
    }

    pub(super) async fn take(&self, key: &str) -> Option<Bytes> {
        let take = self.command("GETDEL", key);
        self.ask::<Option<Vec<u8>>>(&take).await.flatten().map(Bytes::from)
    }

    fn command(&self, name: &str, key: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg(name).arg(format!("{}{key}", self.prefix));
        command
    }

    /// The answer to `command`, if one comes in time. None is asked twice: what was taken is gone.
    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let answer = self.connection.ask(Repeat::Never, |mut manager| async move { command.query_async(&mut manager).await });
        answer.await.ok()
    }
}
