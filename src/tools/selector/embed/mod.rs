//! How near two texts are: by their words, or by what a model makes of them.

mod hashing;
mod remote;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hyper::Uri;

pub use self::{hashing::Hashing, remote::Remote};
use crate::{secret::Secret, upstream};

/// How texts become vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// By the words in them, hashed into 128 buckets.
    Hashing,
    /// By a model behind an OpenAI-compatible `/v1/embeddings`.
    Remote {
        /// Whose dialect of it.
        kind: Kind,
        /// Where it is, with or without `/v1` at its end.
        url: Uri,
        /// The model's name.
        model: String,
        /// The key for it.
        api_key: Option<Secret>,
        /// How long an answer may take; after it words are compared instead.
        timeout: Duration,
    },
}

/// The dialects of `/v1/embeddings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OpenAI's: llama-server, Ollama and most others.
    OpenAi,
    /// Voyage AI's, which is told whether a text is searched or searched for.
    Voyage,
}

/// What a text is to a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is searched for.
    Query,
    /// What is searched.
    Document,
}

/// Makes vectors of texts.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// The vectors of `texts`, one each in their order; `None` for a text that has none, such as an empty one.
    fn embed<'a>(&'a self, side: Side, texts: &'a [&'a str]) -> BoxFuture<'a, Result<Vec<Option<Vector>>, Error>>;
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was asked in vain a moment ago, and is not asked again yet.
    #[error("the embedder is left alone for a while after a failure")]
    Resting,
    /// As many questions wait for it as may.
    #[error("too many questions wait for the embedder")]
    Busy,
    /// No answer in time.
    #[error("the embedder did not answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// It cannot be reached.
    #[error("ask the embedder")]
    Upstream(#[source] upstream::Error),
    /// It refused.
    #[error("the embedder answered with status {0}")]
    Status(u16),
    /// It answered something else.
    #[error("the embedder's answer is {0}")]
    Answer(&'static str),
}

/// A direction in a space of some dimensions. **Of length 1, so that a product of two is the cosine of the angle between them.**
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Arc<[f64]>);

impl Vector {
    /// The direction of `numbers`; `None` when they have none: no dimensions, all zero, or not finite.
    pub fn new(numbers: &[f64]) -> Option<Self> {
        // Scaled first: squares of very large or small numbers leave the range.
        let largest = numbers.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
        if largest == 0.0 || !numbers.iter().all(|number| number.is_finite()) {
            return None;
        }
        let length = numbers.iter().map(|number| (number / largest).powi(2)).sum::<f64>().sqrt();
        Some(Self(numbers.iter().map(|number| number / largest / length).collect()))
    }

    /// The cosine of the angle to `other`; `None` where that lives in another space.
    pub fn cosine(&self, other: &Self) -> Option<f64> {
        (self.0.len() == other.0.len()).then(|| self.0.iter().zip(&*other.0).map(|(a, b)| a * b).sum())
    }
}

/// The embedder that `config` says.
pub fn embedder(config: Config) -> Arc<dyn Embedder> {
    match config {
        Config::Hashing => Arc::new(Hashing),
        Config::Remote { kind, url, model, api_key, timeout } => Arc::new(Remote::new(remote::Peer { kind, url, model, api_key, timeout })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_direction_is_no_vector() {
        for numbers in [&[][..], &[0.0, 0.0], &[f64::NAN, 1.0], &[f64::INFINITY, 1.0]] {
            assert_eq!(Vector::new(numbers), None, "{numbers:?}");
        }
    }

    #[test]
    fn the_cosine_is_of_the_angle_alone() {
        let cosine = |a: &[f64], b: &[f64]| Vector::new(a).unwrap().cosine(&Vector::new(b).unwrap());
        let near = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} {expected}");
        near(cosine(&[1.0, 0.0], &[5.0, 0.0]), 1.0);
        near(cosine(&[1.0, 0.0], &[-1.0, 0.0]), -1.0);
        near(cosine(&[3.0, 4.0], &[4.0, 3.0]), 0.96);
        near(cosine(&[1e300, 1e300], &[1e-300, 0.0]), 0.5_f64.sqrt());
        // Never cut to the shorter.
        assert_eq!(cosine(&[1.0, 0.0], &[1.0, 0.0, 0.0]), None);
    }
}
