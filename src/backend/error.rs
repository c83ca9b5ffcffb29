//! How a model call fails, split by what the caller does next.

use crate::{
    chat::problem::{Kind, Problem},
    upstream,
    wire::openai::ErrorBody,
};

/// A failed upstream call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be reached: nothing was sent.
    #[error("backend cannot be reached")]
    Connect(#[source] upstream::Error),
    /// The server took too long for its first or next byte.
    #[error("backend took too long")]
    Stalled(#[source] upstream::Error),
    /// The server answered with an error.
    #[error("backend answered {}", .0.status)]
    Status(Box<Refusal>),
    /// The server broke off or said what nobody understands.
    #[error("backend broke the protocol: {0}")]
    Protocol(&'static str),
    /// The request body that was being passed on exceeds the limit.
    #[error("request body exceeds the limit")]
    BodyTooLarge,
    /// The request body that was being passed on broke off.
    #[error("request body broke off")]
    BodyBroken,
}

/// An error answer, cleaned of anything that a client must not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// What the body says.
    pub body: ErrorBody,
    /// `Retry-After`, verbatim.
    pub retry_after: Option<String>,
}

impl From<upstream::Error> for Error {
    fn from(error: upstream::Error) -> Self {
        match error {
            upstream::Error::Connect(_) => Self::Connect(error),
            upstream::Error::FirstByte(_) | upstream::Error::Idle(_) => Self::Stalled(error),
            upstream::Error::BodyTooLarge => Self::BodyTooLarge,
            upstream::Error::BodyBroken => Self::BodyBroken,
            upstream::Error::Broken(_) => Self::Protocol("the connection broke before the answer was complete"),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Connect(_) => Self::new(Kind::Unreachable, "The backend cannot be reached.").with_code("backend_unreachable"),
            Error::Stalled(upstream::Error::Idle(wait)) => {
                Self::new(Kind::Timeout, format!("The backend sent nothing for {} s.", wait.as_secs_f64())).with_code("idle_timeout")
            }
            Error::Stalled(cause) => {
                Self::new(Kind::Timeout, format!("The backend was too slow: {cause}.")).with_code("first_byte_timeout")
            }
            Error::Status(refusal) => from_refusal(*refusal),
            Error::Protocol(what) => {
                Self::new(Kind::Unreachable, format!("The backend's answer cannot be used: {what}.")).with_code("backend_protocol_error")
            }
            Error::BodyBroken => Self::new(Kind::Invalid, "The request body was cut off."),
            Error::BodyTooLarge => Self::new(Kind::TooLarge, "The request body exceeds the limit."),
        }
    }
}

fn from_refusal(Refusal { status, body, retry_after }: Refusal) -> Problem {
    Problem {
        kind: Kind::Upstream(status),
        message: body.message.unwrap_or_else(|| format!("The backend answered with status {status}.")),
        param: body.param,
        code: body.code,
        upstream_type: body.kind,
        retry_after,
        report: None,
    }
}
