//! The store of a single process.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

/// A bounded map.
#[derive(Debug)]
pub(super) struct Memory {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    values: HashMap<String, Entry>,
    /// The keys in the order in which they were put, each with the number of its put: of a key that was put again only the last counts.
    order: VecDeque<(String, u64)>,
    bytes: usize,
    puts: u64,
}

#[derive(Debug)]
struct Entry {
    value: Bytes,
    until: Instant,
    put: u64,
}

impl Memory {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        let kept = self.lock();
        kept.values.get(key).filter(|entry| Instant::now() < entry.until).map(|entry| entry.value.clone())
    }

    pub(super) fn put(&self, key: &str, value: Bytes, ttl: Duration) {
        let mut kept = self.lock();
        kept.remove(key);
        // It would drive out all others, and then itself.
        if cost(key, &value) > self.bytes_max {
            return;
        }
        kept.puts += 1;
        let put = kept.puts;
        kept.bytes += cost(key, &value);
        kept.order.push_back((key.to_owned(), put));
        kept.values.insert(key.to_owned(), Entry { value, until: Instant::now() + ttl, put });
        kept.make_room(self.bytes_max);
    }

    pub(super) fn take(&self, key: &str) -> Option<Bytes> {
        let entry = self.lock().remove(key)?;
        (Instant::now() < entry.until).then_some(entry.value)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Whole after any panic: each change leaves the map and its sum in step before anything can fail.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, key: &str) -> Option<Entry> {
        let entry = self.values.remove(key)?;
        self.bytes -= cost(key, &entry.value);
        Some(entry)
    }

    /// Forgets what is over, and then the oldest, until there is room. Entries of keys that were put again or taken go with them.
    fn make_room(&mut self, bytes_max: usize) {
        if self.order.len() > 2 * self.values.len() + ORDER_SLACK {
            let values = &self.values;
            self.order.retain(|(key, put)| values.get(key).is_some_and(|entry| entry.put == *put));
        }
        let now = Instant::now();
        while let Some((key, put)) = self.order.front() {
            let is_current = self.values.get(key).filter(|entry| entry.put == *put);
            let goes = is_current.is_none_or(|entry| entry.until <= now || self.bytes > bytes_max);
            if !goes {
                break;
            }
            let is_current = is_current.is_some();
            let Some((key, _)) = self.order.pop_front() else { break };
            if is_current {
                self.remove(&key);
            }
        }
    }
}

/// So many keys that were put again or taken may stand in the order beyond the length of the map.
const ORDER_SLACK: usize = 16;

/// What an entry weighs: its key stands in the map and in the order.
fn cost(key: &str, value: &Bytes) -> usize {
    2 * key.len() + value.len() + ENTRY_BYTES
}

/// The map's and the queue's own share.
const ENTRY_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_value_is_there_until_its_time_is_over() {
        let memory = Memory::new(1 << 20);
        memory.put("a", "1".into(), MINUTE);
        assert_eq!(memory.get("a").as_deref(), Some(&b"1"[..]));
        tokio::time::advance(MINUTE).await;
        assert_eq!((memory.get("a"), memory.take("a")), (None, None));
    }

    #[tokio::test]
    async fn a_value_is_taken_once() {
        let memory = Memory::new(1 << 20);
        memory.put("a", "1".into(), MINUTE);
        memory.put("a", "2".into(), MINUTE);
        assert_eq!(memory.take("a").as_deref(), Some(&b"2"[..]));
        assert_eq!(memory.take("a"), None);
        assert_eq!(memory.lock().bytes, 0);
    }

    #[tokio::test]
    async fn what_never_fits_drives_nobody_out() {
        let memory = Memory::new(1000);
        memory.put("a", "1".into(), MINUTE);
        memory.put("b", "1".into(), MINUTE);
        memory.put("b", vec![0; 1000].into(), MINUTE);
        assert_eq!((memory.get("a").as_deref(), memory.get("b")), (Some(&b"1"[..]), None));
        assert_eq!(memory.lock().bytes, cost("a", &"1".into()));
    }

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let memory = Memory::new(10 * (ENTRY_BYTES + 100 + 4));
        for n in 10..40 {
            memory.put(&n.to_string(), vec![0; 100].into(), MINUTE);
            memory.put("10", vec![0; 100].into(), MINUTE);
        }
        assert!(memory.get("10").is_some() && memory.get("39").is_some());
        assert!(memory.get("20").is_none());
        let kept = memory.lock();
        assert!(kept.bytes <= memory.bytes_max && kept.order.len() <= 2 * kept.values.len() + ORDER_SLACK + 1);
        drop(kept);
    }
}
