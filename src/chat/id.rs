//! Identifiers for what had none: calls read out of text, completions of a backend that names none, requests.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// `prefix` followed by 16 hexadecimal digits, unique in this process and unlikely to repeat in another: a counter hashed with
/// a key that the standard library draws at random.
pub fn mint(prefix: &str) -> String {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{:016x}", KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::mint;

    #[test]
    fn two_are_never_the_same() {
        let (a, b) = (mint("call_"), mint("call_"));
        assert_ne!(a, b);
        assert_eq!(a.len(), "call_".len() + 16);
    }
}
