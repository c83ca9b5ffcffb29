//! Whether the backend can answer now.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;

use super::{Error, Target};

/// A health probe that takes longer is no good news.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const PROBE_BYTES_MAX: usize = 1 << 20;

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

    /// Asks `GET path`. Takes 2 s at most.
    pub(super) async fn readiness_at(&self, path: &str) -> Readiness {
        read(self.probe(path).await)
    }

    /// Whether `GET path` succeeds within 2 s.
    pub async fn answers(&self, path: &str) -> bool {
        self.probe(path).await.is_ok_and(|status| status.is_success())
    }

    /// Whether the configured key is refused. Asks `GET /v1/models`, which every server guards that guards anything.
    pub async fn refuses_key(&self) -> bool {
        matches!(self.probe("/v1/models").await, Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
    }

    async fn probe(&self, path: &str) -> Result<StatusCode, String> {
        let request = self.request(path, None).body(Bytes::new()).map_err(|error| error.to_string())?;
        match tokio::time::timeout(PROBE_TIMEOUT, self.send(request)).await {
            Ok(Ok(response)) => {
                let status = response.status();
                // Read to its end, the connection can be used again.
                let _ = Limited::new(response.into_body(), PROBE_BYTES_MAX).collect().await;
                Ok(status)
            }
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
        Ok(status) if status.is_success() || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Readiness::Ready,
        Ok(status) => Readiness::NotReady(format!("it answers its health check with {status}")),
    }
}
