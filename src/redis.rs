//! A connection to a Redis, for all who keep something there.
//!
//! The Redis may be slow, gone, or something else altogether. No question takes longer than its time, and after one without an answer the
//! Redis is left alone for a while, so that an outage costs a wait now and then and not one a request.

use std::{
    fmt,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ::redis::{
    Client, ErrorKind, RedisError, RedisResult, ServerErrorKind,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
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

/// Why there is no answer. Tells no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the Redis {0}")]
pub struct Failure(String);

/// A Redis, connected to when there is something to ask for.
pub struct Connection {
    config: Config,
    pause: Duration,
    state: Mutex<State>,
}

/// Whether a question may be asked again when its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Asked twice it does what it does once.
    Once,
    /// It is asked once and no more.
    Never,
}

#[derive(Default)]
struct State {
    /// Made when there is something to ask for, and anew after each failure.
    manager: Option<ConnectionManager>,
    /// Counts them: a failure of one that was replaced since says nothing of the next.
    number: u64,
    /// When it is asked again, and why not before; there only after a failure.
    left_alone: Option<(Instant, Failure)>,
    /// Whether it was told that it does not answer.
    is_told: bool,
}

impl Config {
    /// The Redis at `url`, whose keys begin with `prefix`, and which gets `timeout` for each question. Fails when it is no such address.
    pub fn new(url: Secret, prefix: String, timeout: Duration) -> Result<Self, Invalid> {
        // The message holds no part of the address.
        Client::open(url.expose()).map_err(|error| Invalid(error.to_string()))?;
        Ok(Self { url, prefix, timeout })
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Connection {
    /// One to the Redis of `config`, which is left alone for `pause` after a failure. Nothing is asked yet.
    pub fn new(config: Config, pause: Duration) -> Self {
        Self { config, pause, state: Mutex::default() }
    }

    /// The answer to `question`, if one comes in time: both tries of one that is repeated have that time together. Fails at once while the
    /// Redis is left alone.
    pub async fn ask<T, F>(&self, repeat: Repeat, question: impl Fn(ConnectionManager) -> F) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let (mut manager, mut number) = self.manager()?;
        let asked = async {
            let answer = question(manager).await;
            if repeat == Repeat::Never || !answer.as_ref().is_err_and(RedisError::is_io_error) {
                return answer;
            }
            // The connection may have been dead before it was used.
            self.drop_manager(number);
            let Ok(next) = self.manager() else { return answer };
            (manager, number) = next;
            question(manager).await
        };
        let answer = tokio::time::timeout(self.config.timeout, asked).await;
        let failure = match answer {
            Ok(Ok(answer)) => {
                self.note_success();
                return Ok(answer);
            }
            // It answers well; what it was asked for was wrong.
            Ok(Err(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) => {
                return Err(Failure(format!("refuses: {error}")));
            }
            Ok(Err(error)) => Failure(format!("cannot be used: {error}")),
            Err(_) => Failure(format!("gave no answer in {} ms", self.config.timeout.as_millis())),
        };
        self.note_failure(number, &failure);
        Err(failure)
    }

    /// Whether a question now fails without being asked.
    pub fn is_left_alone(&self) -> bool {
        self.lock().left_alone.as_ref().is_some_and(|(until, _)| Instant::now() < *until)
    }

    /// The connection and its number; fails while the Redis is left alone.
    fn manager(&self) -> Result<(ConnectionManager, u64), Failure> {
        let mut state = self.lock();
        if let Some((until, why)) = &state.left_alone
            && Instant::now() < *until
        {
            return Err(why.clone());
        }
        if let Some(manager) = &state.manager {
            return Ok((manager.clone(), state.number));
        }
        let timeout = Some(self.config.timeout);
        let config = ConnectionManagerConfig::new().set_number_of_retries(0).set_connection_timeout(timeout).set_response_timeout(timeout);
        let made = Client::open(self.config.url.expose()).and_then(|client| ConnectionManager::new_lazy_with_config(client, config));
        let manager = made.map_err(|error| Failure(format!("cannot be used: {error}")))?;
        state.number += 1;
        state.manager = Some(manager.clone());
        Ok((manager, state.number))
    }

    fn drop_manager(&self, number: u64) {
        let mut state = self.lock();
        if state.number == number {
            state.manager = None;
        }
    }

    fn note_success(&self) {
        let mut state = self.lock();
        state.left_alone = None;
        if std::mem::take(&mut state.is_told) {
            tracing::info!("the Redis answers again");
        }
    }

    fn note_failure(&self, number: u64, failure: &Failure) {
        let mut state = self.lock();
        if state.number != number {
            return;
        }
        state.manager = None;
        state.left_alone = Some((Instant::now() + self.pause, failure.clone()));
        if !std::mem::replace(&mut state.is_told, true) {
            tracing::warn!(error = failure.0, "the Redis does not answer");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after any panic: each change is a few assignments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_refused_and_not_told() {
        let check = |url: &str, good: bool| {
            let config = Config::new(Secret::new(url), String::new(), Duration::from_secs(1));
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
