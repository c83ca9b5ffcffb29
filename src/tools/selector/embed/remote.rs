//! A model behind an OpenAI-compatible `/v1/embeddings`.
//!
//! What was embedded is kept. After a failure the model is left alone for a while, so that an outage costs one wait and not one for every
//! call; it is logged when it begins and when it ends.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Request, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::Deserialize;
use serde_json::json;

use super::{Embedder, Error, Kind, Side, Vector};
use crate::{
    resilience::{
        breaker::{self, Breaker, Phase},
        bulkhead::{self, Bulkhead},
    },
    secret::Secret,
    tools::{lru::Lru, output},
    upstream::{self, Client},
};

/// Where the model is.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) kind: Kind,
    pub(super) url: Uri,
    pub(super) model: String,
    pub(super) api_key: Option<Secret>,
    pub(super) timeout: Duration,
}

/// Asks the model.
#[derive(Debug)]
pub struct Remote {
    peer: Peer,
    client: Client,
    documents: Lru<String, Option<Vector>>,
    queries: Lru<String, Option<Vector>>,
    breaker: Mutex<Breaker>,
    bulkhead: Bulkhead,
}

/// How many descriptions are kept: those of all tools that several servers have, at some 8 KiB each.
const DOCUMENTS_MAX: usize = 1024;
/// How many messages are kept: the current ones of some conversations.
const QUERIES_MAX: usize = 256;
/// What of a text is embedded, its head and its tail: most models read 512 tokens.
const TEXT_BYTES_MAX: usize = 2048;
/// The longest answer that is read: a hundred vectors of 4,096 dimensions, spelled out.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// How long the model is left alone after a failure, at first.
const REST: Duration = Duration::from_secs(30);
/// How many questions are asked at once, and how many may wait. One that cannot wait is decided by words.
const ASKED_MAX: usize = 4;
const WAITING_MAX: usize = 64;

impl Remote {
    pub(super) fn new(peer: Peer) -> Self {
        let Peer { ref url, timeout, .. } = peer;
        let waits =
            upstream::Config { connect_timeout: timeout, first_byte_timeout: timeout, idle_timeout: timeout, total_timeout: timeout };
        let places = bulkhead::Config { inside_max: ASKED_MAX, waiting_max: WAITING_MAX, wait_max: timeout };
        Self {
            client: Client::new(url, waits),
            documents: Lru::new(DOCUMENTS_MAX),
            queries: Lru::new(QUERIES_MAX),
            breaker: Mutex::new(Breaker::new(breaker::Config { failures_max: 1, open_for: REST })),
            bulkhead: Bulkhead::new(places),
            peer,
        }
    }

    async fn vectors(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vector>>, Error> {
        let texts: Vec<String> = texts.iter().map(|text| output::bounded(text, TEXT_BYTES_MAX)).collect();
        let kept = match side {
            Side::Query => &self.queries,
            Side::Document => &self.documents,
        };
        // Held here too: what others ask meanwhile may push it out.
        let mut known: BTreeMap<&String, Option<Vector>> = texts.iter().filter_map(|text| Some((text, kept.get(text)?))).collect();
        // Servers refuse to embed nothing.
        let mut missing: Vec<&String> = texts.iter().filter(|text| !text.trim().is_empty() && !known.contains_key(text)).collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            for (text, vector) in missing.iter().zip(self.heard(side, &missing).await?) {
                kept.put((*text).clone(), vector.clone());
                known.insert(text, vector);
            }
        }
        Ok(texts.iter().map(|text| known.get(text).cloned().flatten()).collect())
    }

    /// Asks, unless the model is left alone, and notes how it went.
    async fn heard(&self, side: Side, texts: &[&String]) -> Result<Vec<Option<Vector>>, Error> {
        let timeout = self.peer.timeout;
        let asking = async {
            let _place = self.bulkhead.enter().await.map_err(|_| Error::Busy)?;
            if !self.breaker().try_enter(Instant::now()) {
                return Err(Error::Resting);
            }
            self.ask(side, texts).await
        };
        let answer = tokio::time::timeout(timeout, asking).await.unwrap_or(Err(Error::Timeout(timeout)));
        self.note(&answer);
        answer
    }

    fn note<T>(&self, answer: &Result<T, Error>) {
        let mut breaker = self.breaker();
        let was_well = breaker.phase(Instant::now()) == Phase::Closed;
        match answer {
            Ok(_) => breaker.succeeded(),
            Err(Error::Busy | Error::Resting) => return,
            Err(_) => breaker.failed(Instant::now()),
        }
        drop(breaker);
        match answer {
            Ok(_) if !was_well => tracing::info!(url = %self.peer.url, "the embedder answers again"),
            Err(error) if was_well => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::warn!(url = %self.peer.url, %error, cause, "the embedder fails; servers are chosen by the words of their descriptions");
            }
            Ok(_) | Err(_) => {}
        }
    }

    async fn ask(&self, side: Side, texts: &[&String]) -> Result<Vec<Option<Vector>>, Error> {
        let (model, side) = (&self.peer.model, if side == Side::Query { "query" } else { "document" });
        let body = match self.peer.kind {
            Kind::OpenAi => json!({"model": model, "input": texts}),
            Kind::Voyage => json!({"model": model, "input": texts, "input_type": side}),
        };
        let base = self.peer.url.path().trim_end_matches('/');
        let path = format!("{}/v1/embeddings", base.strip_suffix("/v1").unwrap_or(base));
        let mut request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let key = self.peer.api_key.as_ref().map(|key| HeaderValue::from_str(&format!("Bearer {}", key.bare())));
        if let Some(Ok(mut key)) = key {
            key.set_sensitive(true);
            request = request.header(AUTHORIZATION, key);
        }
        let request = request.body(Bytes::from(body.to_string())).map_err(|_| Error::Answer("never to come: its URL is none"))?;
        let response = self.client.send(request).await.map_err(Error::Upstream)?;
        if !response.status().is_success() {
            return Err(Error::Status(response.status().as_u16()));
        }
        let read = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        read_vectors(&read.map_err(|_| Error::Answer("cut off or too long"))?.to_bytes(), texts.len())
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        // A breaker is whole after any panic: each change is one assignment.
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedder for Remote {
    fn embed<'a>(&'a self, side: Side, texts: &'a [&'a str]) -> BoxFuture<'a, Result<Vec<Option<Vector>>, Error>> {
        Box::pin(self.vectors(side, texts))
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: Option<usize>,
    embedding: Vec<f64>,
}

/// The vectors of an answer to a question about `count` texts, in the order of their indices.
fn read_vectors(answer: &[u8], count: usize) -> Result<Vec<Option<Vector>>, Error> {
    let answer: Answer = serde_json::from_slice(answer).map_err(|_| Error::Answer("no list of embeddings"))?;
    if answer.data.len() != count {
        return Err(Error::Answer("of another length than the question"));
    }
    let mut vectors = vec![None; count];
    let mut is_there = vec![false; count];
    for (place, embedding) in answer.data.iter().enumerate() {
        let index = embedding.index.unwrap_or(place);
        let (Some(vector), Some(there)) = (vectors.get_mut(index), is_there.get_mut(index)) else {
            return Err(Error::Answer("about texts that were not asked about"));
        };
        *vector = Vector::new(&embedding.embedding);
        *there = true;
    }
    if is_there.contains(&false) { Err(Error::Answer("without some of the texts")) } else { Ok(vectors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_their_indices() {
        let answer = br#"{"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 0]}]}"#;
        assert_eq!(read_vectors(answer, 2).unwrap(), [Vector::new(&[1.0, 0.0]), Vector::new(&[0.0, 1.0])]);
        assert_eq!(read_vectors(br#"{"data": [{"embedding": [0, 0]}]}"#, 1).unwrap(), [None]);
    }

    #[test]
    fn an_answer_about_other_texts_is_none() {
        for answer in [
            &br#"{"data": []}"#[..],
            br#"{"data": [{"index": 0, "embedding": [1]}]}"#,
            br#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#,
            br#"{"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}"#,
            br#"{"data": [{"index": 0, "embedding": "AACAPw=="}, {"index": 1, "embedding": [1]}]}"#,
            br#"{"error": "no"}"#,
            b"",
        ] {
            assert!(read_vectors(answer, 2).is_err(), "{}", String::from_utf8_lossy(answer));
        }
    }
}
