//! Idempotency keys: the same for each try of one operation, another for each other.

use crate::budget::journal::digest;

/// The longest key, in characters, that the protocol takes.
const KEY_CHARS_MAX: usize = 256;

/// The key of what the caller asks for under `key`.
pub(super) fn ask(key: &str) -> String {
    bounded(key.to_owned())
}

/// The key by which the cost of what was asked for under `key` is settled, be it as a commit or as an event.
pub(super) fn commit(key: &str) -> String {
    bounded(format!("commit:{key}"))
}

/// The key by which what was asked for under `key` is given back.
pub(super) fn release(key: &str) -> String {
    bounded(format!("release:{key}"))
}

/// The key of the `count`th extension, from 1, of what was asked for under `key`.
pub(super) fn extend(count: u32, key: &str) -> String {
    bounded(format!("extend:{count}:{key}"))
}

fn bounded(key: String) -> String {
    if key.chars().count() > KEY_CHARS_MAX { digest(&key) } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_is_for() {
        assert_eq!(ask("acme:s1:c7"), "acme:s1:c7");
        assert_eq!(commit("k"), "commit:k");
        assert_eq!(release("k"), "release:k");
        assert_eq!([extend(1, "k"), extend(2, "k")], ["extend:1:k", "extend:2:k"]);
    }

    #[test]
    fn a_key_that_is_too_long_is_hashed_with_what_it_is_for() {
        let long = "é".repeat(250);
        assert_eq!(ask(&long), long);
        let keys = [commit(&long), release(&long), extend(1, &long), extend(2, &long), extend(1, &format!("{long}x"))];
        // "commit:" and 250 characters are 257.
        assert!(keys.iter().all(|key| key.chars().count() <= 256));
        assert_eq!(keys[0].len(), 64);
        let mut distinct = keys.to_vec();
        distinct.dedup();
        assert_eq!(distinct.len(), 5);
    }
}
