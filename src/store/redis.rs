//! The store of several processes: a Redis.
//!
//! It may be slow, gone, or something else altogether. No operation takes longer than its time, what it does not answer is not there, and
//! after a failure it is left alone for a while: a request never fails for it, and hardly waits for it.

use std::{
    fmt,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ::redis::{
    Client, Cmd, FromRedisValue, RedisResult,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use bytes::Bytes;
use tokio::time::Instant;

use crate::secret::Secret;

/// Which Redis, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    url: Secret,
    prefix: String,
    timeout: Duration,
}

/// An address that is none of a Redis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be an address such as \"redis://127.0.0.1:6379\": {0}")]
pub struct Invalid(String);

/// A Redis.
pub(super) struct Remote {
    config: Config,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Made when there is something to ask for, and anew after each failure.
    manager: Option<ConnectionManager>,
    /// When it is asked again; there only after a failure.
    asked_again: Option<Instant>,
    /// Whether it was told that it does not answer.
    is_told: bool,
}

/// How long a Redis that failed is left alone, so that an outage costs one wait a second and not one a request.
const PAUSE: Duration = Duration::from_secs(1);

impl Config {
    /// The Redis at `url`, whose keys begin with `prefix`, and which gets `timeout` for each operation.
    pub fn new(url: Secret, prefix: String, timeout: Duration) -> Result<Self, Invalid> {
        // The message holds no part of the address.
        Client::open(url.expose()).map_err(|error| Invalid(error.to_string()))?;
        Ok(Self { url, prefix, timeout })
    }
}

impl Remote {
    pub(super) fn new(config: Config) -> Self {
        Self { config, state: Mutex::default() }
    }

    pub(super) async fn get(&self, key: &str) -> Option<Bytes> {
        let mut get = self.command("GET", key);
        self.ask::<Option<Vec<u8>>>(&mut get).await.flatten().map(Bytes::from)
    }

    pub(super) async fn put(&self, key: &str, value: Bytes, ttl: Duration) {
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64);
        let mut set = self.command("SET", key);
        set.arg(&value[..]).arg("PX").arg(ms);
        // What is not kept is done without.
        let _ = self.ask::<()>(&mut set).await;
    }

    pub(super) async fn take(&self, key: &str) -> Option<Bytes> {
        let mut take = self.command("GETDEL", key);
        self.ask::<Option<Vec<u8>>>(&mut take).await.flatten().map(Bytes::from)
    }

    fn command(&self, name: &str, key: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg(name).arg(format!("{}{key}", self.config.prefix));
        command
    }

    /// The answer to `command`, if one comes in time.
    async fn ask<T: FromRedisValue>(&self, command: &mut Cmd) -> Option<T> {
        let mut manager = self.manager()?;
        let asked: RedisResult<T> = within(self.config.timeout, command.query_async(&mut manager)).await;
        match asked {
            Ok(answer) => {
                self.note_success();
                Some(answer)
            }
            Err(error) => {
                self.note_failure(&error.to_string());
                None
            }
        }
    }

    /// The connection; `None` while the Redis is left alone.
    fn manager(&self) -> Option<ConnectionManager> {
        let mut state = self.lock();
        if state.asked_again.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        if state.manager.is_none() {
            let timeout = Some(self.config.timeout);
            let config =
                ConnectionManagerConfig::new().set_number_of_retries(0).set_connection_timeout(timeout).set_response_timeout(timeout);
            let client = Client::open(self.config.url.expose()).ok()?;
            state.manager = ConnectionManager::new_lazy_with_config(client, config).ok();
        }
        state.manager.clone()
    }

    fn note_success(&self) {
        let mut state = self.lock();
        state.asked_again = None;
        if std::mem::take(&mut state.is_told) {
            tracing::info!("the Redis answers again");
        }
    }

    fn note_failure(&self, error: &str) {
        let mut state = self.lock();
        state.manager = None;
        state.asked_again = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut state.is_told, true) {
            tracing::warn!(error, "the Redis does not answer; what it holds is done without");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after any panic: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("config", &self.config).finish_non_exhaustive()
    }
}

async fn within<T>(timeout: Duration, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(answer) => answer,
        Err(_) => Err((::redis::ErrorKind::Io, "no answer in time").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_refused_and_not_told() {
        let check = |url: &str, good: bool| {
            let config = Config::new(Secret::new(url), String::new(), PAUSE);
            assert_eq!(config.is_ok(), good, "{url}");
            assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
            assert!(config.err().is_none_or(|error| !error.to_string().contains("hunter2")));
        };
        check("redis://127.0.0.1:6379", true);
        check("redis://user:hunter2@cache.example:6379/2", true);
        check("http://:hunter2@127.0.0.1", false);
        check("hunter2", false);
        check("", false);
        // There is no TLS in it.
        check("rediss://:hunter2@127.0.0.1", false);
    }
}
