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
    /// The server has as much to do as it may.
    #[error("backend is busy: {reason}")]
    Busy {
        /// How much that is.
        reason: String,
        /// When it may have time, in seconds from now.
        retry_after_s: u64,
    },
    /// No backend has such a model.
    #[error("no backend has the model")]
    UnknownModel {
        /// The name asked for.
        model: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The request wants what this server cannot do.
    #[error("backend cannot do what `{param}` asks for")]
    Unsupported {
        /// The request's field.
        param: &'static str,
        /// What it cannot do, as a sentence.
        message: String,
    },
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

/// How llama-server begins to tell that it could not read a reply.
const UNPARSED: &str = "Failed to parse input";

impl Error {
    /// What the model said, where the answer is llama-server's that it could not read it: the model spoke all the same.
    pub fn unparsed(&self) -> Option<&str> {
        let Self::Status(refusal) = self else { return None };
        let message = refusal.body.message.as_deref().filter(|_| refusal.status >= 500)?;
        message.split_once(UNPARSED).map(|(_, said)| said)
    }

    /// Whether the model certainly was not asked, or refused to answer.
    pub fn is_unmade(&self) -> bool {
        match self {
            Self::Status(_) if self.unparsed().is_some() => false,
            Self::Connect(_) | Self::Stalled(upstream::Error::ConnectTimeout(_)) | Self::Status(_) | Self::Busy { .. } => true,
            Self::UnknownModel { .. } | Self::Unsupported { .. } => true,
            Self::Stalled(_) | Self::Protocol(_) | Self::BodyTooLarge | Self::BodyBroken => false,
        }
    }

    /// Whether another backend may do better.
    pub(super) fn may_fail_over(&self) -> bool {
        match self {
            // llama-server answers 500 for a reply that it cannot read: that is a reply all the same.
            Self::Status(refusal) if refusal.body.message.as_deref().is_some_and(|said| said.starts_with("Failed to parse")) => false,
            Self::Status(refusal) => matches!(refusal.status, 404 | 408 | 429 | 500..),
            Self::Connect(_) | Self::Stalled(_) | Self::Protocol(_) | Self::Busy { .. } | Self::Unsupported { .. } => true,
            Self::UnknownModel { .. } | Self::BodyTooLarge | Self::BodyBroken => false,
        }
    }

    /// Whether it tells that the server does not work, whatever it is asked.
    pub(super) fn is_servers_fault(&self) -> bool {
        match self {
            Self::Status(refusal) => matches!(refusal.status, 502..=504 | 529),
            Self::Connect(_) | Self::Stalled(_) | Self::Protocol(_) => true,
            Self::Busy { .. } | Self::UnknownModel { .. } | Self::Unsupported { .. } | Self::BodyTooLarge | Self::BodyBroken => false,
        }
    }
}

impl From<upstream::Error> for Error {
    fn from(error: upstream::Error) -> Self {
        match error {
            upstream::Error::Connect(_) => Self::Connect(error),
            upstream::Error::ConnectTimeout(_) | upstream::Error::FirstByte(_) | upstream::Error::Idle(_) | upstream::Error::Total(_) => {
                Self::Stalled(error)
            }
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
            Error::Stalled(cause @ upstream::Error::ConnectTimeout(_)) => {
                Self::new(Kind::Timeout, format!("The backend was too slow: {cause}.")).with_code("connect_timeout")
            }
            Error::Stalled(cause @ upstream::Error::Total(_)) => {
                Self::new(Kind::Timeout, format!("The backend was too slow: {cause}.")).with_code("total_timeout")
            }
            Error::Busy { reason, retry_after_s } => Self {
                retry_after: Some(retry_after_s.to_string()),
                ..Self::new(Kind::NotReady, format!("The backend is busy: {reason}.")).with_code("queue_full")
            },
            Error::UnknownModel { model, known } => unknown_model(&model, &known),
            Error::Unsupported { param, message } => Self::invalid(param, message).with_code("unsupported_by_backend"),
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

fn unknown_model(model: &str, known: &[String]) -> Problem {
    let there_is = if known.is_empty() { "No backend lists any model.".to_owned() } else { format!("There is {}.", known.join(", ")) };
    let asked = if model.is_empty() { "The request names no model.".to_owned() } else { format!("There is no model `{model}`.") };
    Problem { param: Some("model".to_owned()), ..Problem::new(Kind::NotFound, format!("{asked} {there_is}")).with_code("model_not_found") }
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
