//! How near two texts are.

use std::time::Duration;

use hyper::Uri;

use crate::secret::Secret;

/// How texts become vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// By the words in them, hashed into 128 buckets.
    Hashing,
    /// By a model behind an OpenAI-compatible `/v1/embeddings`.
    Remote {
        /// Where it is, up to `/v1`.
        url: Uri,
        /// The model's name.
        model: String,
        /// The key for it.
        api_key: Option<Secret>,
        /// How long an answer may take; after it words are compared instead.
        timeout: Duration,
    },
}
