//! Small values that outlive a request and that replicas share: by key, each with a time after which it is forgotten.

mod memory;

use std::time::Duration;

use bytes::Bytes;

use self::memory::Memory;

/// Where the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many bytes the memory may hold; the oldest values make room.
    pub bytes_max: usize,
}

/// A store. Nothing in it is needed to go on: what it lost is made anew or done without.
#[derive(Debug)]
pub struct Store(Memory);

impl Store {
    /// An empty one.
    pub fn new(config: Config) -> Self {
        Self(Memory::new(config.bytes_max))
    }

    /// The value at `key`; `None` when there is none, or no longer.
    pub async fn get(&self, key: &str) -> Option<Bytes> {
        self.0.get(key)
    }

    /// Puts `value` at `key` for `ttl`, in the place of what was there.
    pub async fn put(&self, key: &str, value: Bytes, ttl: Duration) {
        self.0.put(key, value, ttl);
    }

    /// Removes the value at `key` and returns it. Of several who take it at once one gets it.
    pub async fn take(&self, key: &str) -> Option<Bytes> {
        self.0.take(key)
    }
}
