//! How reaching a model server fails.

use hyper_util::client::legacy;
use std::{error, time::Duration};

/// Split by what the caller does next: fail over, give up waiting, or report a broken peer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection: nothing was sent.
    #[error("connect to upstream")]
    Connect(#[source] legacy::Error),
    /// The connection stood, but no response began in time.
    #[error("no response within {} s", .0.as_secs_f64())]
    FirstByte(Duration),
    /// The response stopped arriving.
    #[error("response stalled for {} s", .0.as_secs_f64())]
    Idle(Duration),
    /// The client's own body exceeds the limit.
    #[error("request body exceeds the limit")]
    BodyTooLarge,
    /// The connection broke, or the peer does not speak HTTP.
    #[error("connection to upstream broke")]
    Broken(#[source] Break),
}

/// A broken connection.
#[derive(Debug, thiserror::Error)]
pub enum Break {
    /// Before the head of the response.
    #[error(transparent)]
    Request(legacy::Error),
    /// In the middle of its body.
    #[error(transparent)]
    Body(hyper::Error),
}

impl Break {
    /// Whether the peer closed the connection before it answered anything, as a server does to a connection that was idle.
    pub(super) fn lost_before_response(&self) -> bool {
        let Self::Request(error) = self else { return false };
        cause::<hyper::Error>(error).is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
    }
}

impl From<legacy::Error> for Error {
    fn from(error: legacy::Error) -> Self {
        if error.is_connect() {
            Self::Connect(error)
        } else if cause::<http_body_util::LengthLimitError>(&error).is_some() {
            Self::BodyTooLarge
        } else {
            Self::Broken(Break::Request(error))
        }
    }
}

impl From<hyper::Error> for Error {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(Break::Body(error))
    }
}

/// The first error of type `E` among the causes of `error`.
fn cause<'a, E: error::Error + 'static>(error: &'a (dyn error::Error + 'static)) -> Option<&'a E> {
    std::iter::successors(error.source(), |error| error.source()).find_map(|error| error.downcast_ref())
}
