//! Questions about a server itself: a small JSON document, soon.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use super::{Error, Target};
use crate::upstream;

/// A list of some hundred models is that long.
const ANSWER_BYTES_MAX: usize = 8 << 20;

impl Target {
    /// What `GET path` says, within `patience`. Fails as a request does; what cannot be read is a broken protocol.
    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str, patience: Duration) -> Result<T, Error> {
        let asking = async {
            let request = self.request(path, None).body(Bytes::new()).map_err(|_| Error::Protocol("the request has no valid address"))?;
            let response = self.send(request).await?;
            if !response.status().is_success() {
                return Err(self.refusal(response, None).await);
            }
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|_| Error::Protocol("what it says about itself broke off or is too long"))?;
            serde_json::from_slice(&body.to_bytes()).map_err(|_| Error::Protocol("what it says about itself cannot be read"))
        };
        let late = |_| Error::Stalled(upstream::Error::FirstByte(patience));
        tokio::time::timeout(patience, asking).await.map_err(late)?
    }
}
