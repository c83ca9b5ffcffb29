//! Small values that outlive a request and that replicas share: by key, each with a time after which it is forgotten.

mod memory;
mod remote;

use std::time::Duration;

use bytes::Bytes;

use self::{memory::Memory, remote::Remote};
pub use crate::redis::{Config as Redis, Invalid};

/// Where the values are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How many bytes the memory may hold; the oldest values make room.
    pub bytes_max: usize,
    /// The Redis that holds them in the place of the memory.
    pub redis: Option<Redis>,
}

/// A store. Nothing in it is needed to go on: what it lost is made anew or done without.
#[derive(Debug)]
pub struct Store(Place);

#[derive(Debug)]
enum Place {
    Memory(Memory),
    Remote(Box<Remote>),
}

impl Store {
    /// The store of `config`. A Redis is not asked before there is something to ask for.
    pub fn new(config: Config) -> Self {
        Self(match config.redis {
            Some(redis) => Place::Remote(Box::new(Remote::new(redis))),
            None => Place::Memory(Memory::new(config.bytes_max)),
        })
    }

    /// Whether it is there when this process is not.
    pub fn outlives_the_process(&self) -> bool {
        matches!(self.0, Place::Remote(_))
    }

    /// The value at `key`; `None` when there is none, or no longer, or when the store does not answer.
    pub async fn get(&self, key: &str) -> Option<Bytes> {
        match &self.0 {
            Place::Memory(memory) => memory.get(key),
            Place::Remote(remote) => remote.get(key).await,
        }
    }

    /// Puts `value` at `key` for `ttl`, in the place of what was there.
    pub async fn put(&self, key: &str, value: Bytes, ttl: Duration) {
        match &self.0 {
            Place::Memory(memory) => memory.put(key, value, ttl),
            Place::Remote(remote) => remote.put(key, value, ttl).await,
        }
    }

    /// Removes the value at `key` and returns it. Of several who take it at once one gets it.
    pub async fn take(&self, key: &str) -> Option<Bytes> {
        match &self.0 {
            Place::Memory(memory) => memory.take(key),
            Place::Remote(remote) => remote.take(key).await,
        }
    }
}
