//! How a server fails.

use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};

/// Split by what the caller does next: call again, be content with not knowing, or tell the model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection: nothing was sent.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// It wants a credential that it did not get: nothing was done.
    #[error("the server wants a credential: {0}")]
    AuthNeeded(String),
    /// The connection broke: the call may have been carried out.
    #[error("the connection to the server broke")]
    Lost,
    /// No answer in time: the call may have been carried out.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The server refused the call, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The server does not speak as it should.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
}

impl Error {
    /// Whether the call certainly was not carried out.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::AuthNeeded(_))
    }

    /// Whether it is the way to the server that failed, or the server itself, and not this call.
    pub fn is_transport(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// One word for traces.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::AuthNeeded(_) => "auth_needed",
            Self::Lost => "lost",
            Self::Timeout(_) => "timeout",
            Self::Refused(_) => "refused",
            Self::Protocol(_) => "protocol",
        }
    }
}

impl From<ServiceError> for Error {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Refused(error.message.into_owned()),
            ServiceError::TransportSend(error) => Self::Unreachable(error.to_string()),
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => Self::Lost,
            ServiceError::Timeout { timeout } => Self::Timeout(timeout),
            other => Self::Protocol(other.to_string()),
        }
    }
}

impl From<ClientInitializeError> for Error {
    fn from(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::ConnectionClosed(why) => Self::Unreachable(why),
            ClientInitializeError::TransportError { error, .. } => Self::Unreachable(error.to_string()),
            other => Self::Protocol(other.to_string()),
        }
    }
}
