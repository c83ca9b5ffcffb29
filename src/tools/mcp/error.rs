//! How a server fails.

use std::time::Duration;

use rmcp::{
    model::ErrorCode,
    service::{ClientInitializeError, ServiceError},
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};

/// How an answer that was not read is told from the server's own errors on its way through rmcp. No number that JSON-RPC or MCP use.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(-31_999);

/// Split by what the caller does next: call again, be content with not knowing, or tell the model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection: nothing was sent.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// It wants a credential that it did not get: nothing was done.
    #[error("the server wants a credential: {0}")]
    AuthNeeded(String),
    /// The server had ended the session: this call was not carried out, and the next one has a new session.
    #[error("the server had ended the session; there is a new one, in which the call can be made again")]
    Expired,
    /// An HTTP status instead of an answer.
    #[error("the server answered with HTTP {code}{said}")]
    Status {
        /// The status.
        code: u16,
        /// What else it said, behind a colon.
        said: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
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
        matches!(self, Self::Unreachable(_) | Self::AuthNeeded(_) | Self::Expired | Self::Status { code: TOO_MANY_REQUESTS, .. })
    }

    /// Whether the call never left, so that it may be made again whatever the tool does. One that a server refused for a reason of its
    /// own did leave.
    pub fn never_left(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Status { code: TOO_MANY_REQUESTS, .. })
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Status { retry_after, .. } = self { *retry_after } else { None }
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
            Self::Expired => "session_expired",
            Self::Status { .. } => "http_status",
            Self::Lost => "lost",
            Self::Timeout(_) => "timeout",
            Self::Refused(_) => "refused",
            Self::Protocol(_) => "protocol",
        }
    }
}

const TOO_MANY_REQUESTS: u16 = 429;

impl From<ServiceError> for Error {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) if error.code == UNREADABLE => Self::Protocol(error.message.into_owned()),
            ServiceError::McpError(error) => Self::Refused(error.message.into_owned()),
            ServiceError::TransportSend(error) => Self::from(error),
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
            ClientInitializeError::TransportError { error, .. } => Self::from(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::from(*fallback),
            ClientInitializeError::JsonRpcError(error) => Self::Protocol(error.message.into_owned()),
            other => Self::Protocol(other.to_string()),
        }
    }
}

impl From<DynamicTransportError> for Error {
    fn from(error: DynamicTransportError) -> Self {
        match error.error.downcast::<StreamableHttpError<Self>>() {
            Ok(http) => Self::from(*http),
            // A child process that does not read what it is told is gone.
            Err(other) => Self::Unreachable(other.to_string()),
        }
    }
}

impl From<StreamableHttpError<Self>> for Error {
    fn from(error: StreamableHttpError<Self>) -> Self {
        match error {
            StreamableHttpError::Client(own) => own,
            StreamableHttpError::SessionExpired => Self::Expired,
            StreamableHttpError::AuthRequired(error) => Self::AuthNeeded(error.www_authenticate_header),
            StreamableHttpError::TransportChannelClosed | StreamableHttpError::UnexpectedEndOfStream => Self::Lost,
            other => Self::Protocol(other.to_string()),
        }
    }
}
