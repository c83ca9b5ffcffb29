//! How reaching a model server fails.

use std::{error, time::Duration};

/// Split by what the caller does next: fail over, give up waiting, or report a broken peer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection: nothing was sent.
    #[error("connect to upstream")]
    Connect(#[source] Box<dyn error::Error + Send + Sync>),
    /// No connection in time: nothing was sent.
    #[error("no connection within {} s", .0.as_secs_f64())]
    ConnectTimeout(Duration),
    /// The connection stood, but the response's first byte did not come in time.
    #[error("no response within {} s", .0.as_secs_f64())]
    FirstByte(Duration),
    /// The response stopped arriving.
    #[error("response stalled for {} s", .0.as_secs_f64())]
    Idle(Duration),
    /// The whole response took too long.
    #[error("response not complete within {} s", .0.as_secs_f64())]
    Total(Duration),
    /// The client's own body exceeds the limit.
    #[error("request body exceeds the limit")]
    BodyTooLarge,
    /// The client's own body broke off.
    #[error("request body broke off")]
    BodyBroken,
    /// The connection broke, or the peer does not speak HTTP.
    #[error("connection to upstream broke")]
    Broken(#[source] Break),
}

/// A broken connection.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Break(hyper::Error);

impl Break {
    /// Whether the connection ended before anything was answered.
    pub(super) fn is_before_response(&self) -> bool {
        let reset = || cause::<std::io::Error>(&self.0).is_some();
        self.0.is_incomplete_message() || self.0.is_canceled() || self.0.is_closed() || reset()
    }

    /// Whether the connection had ended before it took the request up.
    pub(super) fn is_unsent(&self) -> bool {
        self.0.is_canceled()
    }
}

impl From<hyper::Error> for Error {
    fn from(error: hyper::Error) -> Self {
        if cause::<http_body_util::LengthLimitError>(&error).is_some() {
            Self::BodyTooLarge
        } else if error.is_user() {
            // The only code of ours that hyper calls is the request's body.
            Self::BodyBroken
        } else {
            Self::Broken(Break(error))
        }
    }
}

/// The first error of type `E` among the causes of `error`.
fn cause<'a, E: error::Error + 'static>(error: &'a (dyn error::Error + 'static)) -> Option<&'a E> {
    std::iter::successors(error.source(), |error| error.source()).find_map(|error| error.downcast_ref())
}
