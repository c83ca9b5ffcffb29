//! A bounded map that forgets what was not used for longest.

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A map of at most so many values. It is shared by reference; a value is cloned out.
pub(super) struct Lru<K, V> {
    values_max: usize,
    kept: Mutex<Kept<K, V>>,
}

struct Kept<K, V> {
    /// Counts uses.
    clock: u64,
    values: HashMap<K, (V, u64)>,
}

impl<K: Eq + Hash + Clone, V: Clone> Lru<K, V> {
    /// An empty map of at most `values_max`.
    pub(super) fn new(values_max: usize) -> Self {
        Self { values_max, kept: Mutex::new(Kept { clock: 0, values: HashMap::new() }) }
    }

    /// The value at `key`.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let mut kept = self.lock();
        kept.clock += 1;
        let now = kept.clock;
        let (value, used) = kept.values.get_mut(key)?;
        *used = now;
        Some(value.clone())
    }

    /// Puts `value` at `key`. A full map forgets its oldest eighth first: looking for the oldest costs a pass over all.
    pub(super) fn put(&self, key: K, value: V) {
        let mut kept = self.lock();
        if kept.values.len() >= self.values_max && !kept.values.contains_key(&key) {
            let mut uses: Vec<u64> = kept.values.values().map(|(_, used)| *used).collect();
            uses.sort_unstable();
            let last = uses.get(self.values_max / 8).copied().unwrap_or(u64::MAX);
            kept.values.retain(|_, (_, used)| *used > last);
        }
        kept.clock += 1;
        let now = kept.clock;
        kept.values.insert(key, (value, now));
    }

    fn lock(&self) -> MutexGuard<'_, Kept<K, V>> {
        // A map is whole after any panic: entries only come and go.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> fmt::Debug for Lru<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lru").field("values_max", &self.values_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_is_forgotten_first() {
        let lru = Lru::new(8);
        (0..8).for_each(|key| lru.put(key, key));
        assert_eq!(lru.get(&0), Some(0));
        lru.put(8, 8);
        assert_eq!((lru.get(&0), lru.get(&1), lru.get(&2), lru.get(&8)), (Some(0), None, None, Some(8)));
        assert_eq!(lru.get(&3), Some(3));
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let lru = Lru::new(1);
        (0..100).for_each(|key| lru.put(key, key));
        assert_eq!((0..100).filter(|key| lru.get(key).is_some()).count(), 1);
        // What is there already needs no room.
        lru.put(99, 0);
        assert_eq!(lru.get(&99), Some(0));
    }
}
