//! The time of an operation: that of this machine, unless a test says otherwise.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in milliseconds since 1970.
pub(in crate::budget) fn now_ms() -> u64 {
    given_ms().unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The time that a test says it is; none otherwise. A place that has a clock of its own asks here first.
#[cfg(not(test))]
pub(super) fn given_ms() -> Option<u64> {
    None
}

#[cfg(test)]
pub(super) use self::given::{given_ms, say};

#[cfg(test)]
mod given {
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<Option<u64>> = const { Cell::new(None) };
    }

    pub(in super::super) fn given_ms() -> Option<u64> {
        NOW.get()
    }

    /// From here on it is so late on this thread.
    pub(in super::super) fn say(now_ms: u64) {
        NOW.set(Some(now_ms));
    }
}
