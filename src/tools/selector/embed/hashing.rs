//! Words, counted in buckets: no model, no network, the same everywhere.

use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};

use super::{Embedder, Error, Side, Vector};

/// Counts the words of a text in 128 buckets. A word is a run of letters and digits in lower case; its bucket is the first eight bytes of
/// its SHA-256, as a big-endian number, modulo 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashing;

/// Few enough to be cheap, enough that the words of a short description rarely meet.
const BUCKETS: usize = 128;

impl Embedder for Hashing {
    fn embed<'a>(&'a self, _: Side, texts: &'a [&'a str]) -> BoxFuture<'a, Result<Vec<Option<Vector>>, Error>> {
        Box::pin(std::future::ready(Ok(texts.iter().map(|text| vector(text)).collect())))
    }
}

/// The vector of `text`; `None` when it has no words.
fn vector(text: &str) -> Option<Vector> {
    let mut counts = [0.0; BUCKETS];
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if let Some(count) = counts.get_mut(bucket(&word.to_lowercase())) {
            *count += 1.0;
        }
    }
    Vector::new(&counts)
}

fn bucket(word: &str) -> usize {
    let digest = Sha256::digest(word.as_bytes());
    // Modulo a power of two, the first eight bytes as a number are as good as the eighth.
    digest.get(7).map_or(0, |byte| usize::from(*byte) % BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_buckets_that_another_program_computes() {
        // python: int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 128
        for (word, expected) in [
            ("look", 121),
            ("up", 95),
            ("term", 14),
            ("read", 49),
            ("file", 27),
            ("github", 87),
            ("local", 16),
            ("page", 37),
            ("the", 26),
            ("über", 56),
            ("読む", 33),
        ] {
            assert_eq!(bucket(word), expected, "{word}");
        }
    }

    #[test]
    fn case_order_and_punctuation_do_not_count() {
        assert_eq!(vector("Read the FILE."), vector("file, (the) read!"));
        assert_ne!(vector("read the file"), vector("read the file file"));
        assert_ne!(vector("read_file"), vector("readfile"));
    }

    #[test]
    fn what_has_no_words_has_no_vector() {
        assert_eq!(vector(""), None);
        assert_eq!(vector(" —!? "), None);
    }

    #[test]
    fn common_words_make_texts_near() {
        let cosine = |a: &str, b: &str| vector(a).unwrap().cosine(&vector(b).unwrap()).unwrap();
        // One word of two is common: 1 / (√2 · √2).
        assert!((cosine("read file", "read page") - 0.5).abs() < 1e-12);
        assert!((cosine("read file", "file read") - 1.0).abs() < 1e-12);
    }
}
