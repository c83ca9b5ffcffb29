//! Request bodies, bounded in size and time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    body::{Body, Incoming},
    header::{CONTENT_ENCODING, HeaderMap},
};

use super::Config;
use crate::chat::{Problem, problem::Kind};

/// The whole of `incoming`, sized or chunked.
pub(super) async fn collect(incoming: Incoming, config: &Config) -> Result<Bytes, Problem> {
    let body = limited(incoming, config)?;
    match tokio::time::timeout(config.request_timeout, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(config)),
        Ok(Err(_)) => Err(Problem::new(Kind::Invalid, "The request body was cut off.")),
        Err(_) => {
            let limit = config.request_timeout.as_secs_f64();
            Err(Problem::new(Kind::Slow, format!("The request body did not arrive within {limit} s.")))
        }
    }
}

/// Throws away what comes of `incoming` for a moment: a client that is still sending when the connection is closed may never read its answer.
pub(super) async fn discard(incoming: Incoming) {
    let mut body = Limited::new(incoming, DISCARDED_BYTES_MAX);
    // Whatever has come by then, the connection ends.
    let _ = tokio::time::timeout(DISCARDING_MAX, async { while let Some(Ok(_)) = body.frame().await {} }).await;
}

/// What most requests are shorter than.
const DISCARDED_BYTES_MAX: usize = 1 << 20;
/// Longer than what is on its way needs, shorter than anybody would wait.
const DISCARDING_MAX: Duration = Duration::from_millis(500);

/// `incoming` with the limit on it. Fails at once when its declared length exceeds it.
pub(super) fn limited(incoming: Incoming, config: &Config) -> Result<Limited<Incoming>, Problem> {
    let declared = usize::try_from(incoming.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > config.body_bytes_max {
        return Err(too_large(config));
    }
    Ok(Limited::new(incoming, config.body_bytes_max))
}

/// A body that must be read cannot be compressed: nobody has asked for that yet, and it would hide a larger one.
pub(super) fn refuse_encoded(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(Problem::invalid("content-encoding", "A compressed request body is not supported."))
        }
        _ => Ok(()),
    }
}

fn too_large(config: &Config) -> Problem {
    Problem::new(Kind::TooLarge, format!("The request body exceeds {} bytes.", config.body_bytes_max)).with_code("request_too_large")
}
