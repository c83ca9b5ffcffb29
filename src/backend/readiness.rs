//! Whether the backend can answer now.

use super::{Error, Target};
use bytes::Bytes;
use hyper::StatusCode;
use std::time::Duration;

/// A health probe that takes longer is no good news.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a probe found.
#[derive(Debug)]
pub enum Readiness {
    /// It answers.
    Ready,
    /// It is there but says no, as llama-server does while it loads its model.
    NotReady(String),
    /// It cannot be reached.
    Unreachable(String),
}

impl Target {
    /// Asks `GET /health`, which llama-server has, and `GET /v1/models` where there is no such path. Takes 4 s at most.
    pub async fn readiness(&self) -> Readiness {
        match self.probe("/health").await {
            Ok(StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => read(self.probe("/v1/models").await),
            outcome => read(outcome),
        }
    }

    /// Whether `GET path` succeeds within 2 s.
    pub async fn answers(&self, path: &str) -> bool {
        self.probe(path).await.is_ok_and(|status| status.is_success())
    }

    async fn probe(&self, path: &str) -> Result<StatusCode, String> {
        let request = self.request(path, None).body(Bytes::new()).map_err(|error| error.to_string())?;
        match tokio::time::timeout(PROBE_TIMEOUT, self.send(request)).await {
            Ok(Ok(response)) => Ok(response.status()),
            Ok(Err(Error::Connect(_))) => Err("it cannot be reached".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
        }
    }
}

fn read(outcome: Result<StatusCode, String>) -> Readiness {
    match outcome {
        Err(reason) => Readiness::Unreachable(reason),
        Ok(StatusCode::SERVICE_UNAVAILABLE) => Readiness::NotReady("it is loading its model".to_owned()),
        // A server that wants a key which the probe does not have is up.
        Ok(status) if status.is_success() || status == StatusCode::UNAUTHORIZED => Readiness::Ready,
        Ok(status) => Readiness::NotReady(format!("it answers its health check with {status}")),
    }
}
