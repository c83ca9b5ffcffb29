//! What is known of a connection over HTTP outside the worker that keeps it.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::CancellationToken;

/// What is known of a connection outside the worker that keeps it.
#[derive(Debug, Default)]
pub(super) struct Status {
    gone: CancellationToken,
    why: OnceLock<String>,
    /// Whether the server's own stream is open, on which it says what changed.
    pub(super) hearing: AtomicBool,
    /// Whether it ever was.
    pub(super) heard: AtomicBool,
}

impl Status {
    /// Whether the session has ended or the server cannot be reached: only a new connection helps.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Ready once it is.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Why that is so.
    pub(super) fn why(&self) -> String {
        self.why.get().cloned().unwrap_or_else(|| "the connection is closed".to_owned())
    }

    /// Whether the server would be heard if it said that something changed.
    pub(super) fn is_hearing(&self) -> bool {
        self.hearing.load(Ordering::Relaxed)
    }

    pub(super) fn lose(&self, why: impl Into<String>) {
        // The first reason stays.
        let _ = self.why.set(why.into());
        self.gone.cancel();
    }
}
