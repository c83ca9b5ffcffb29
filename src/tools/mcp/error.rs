//! How a server fails.

use std::time::Duration;

use rmcp::{
    model::ErrorCode,
    service::{ClientInitializeError, ServiceError},
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};

use crate::secret::Secret;

/// Our own word for an answer that was too long to be read; the message is the limit. No server has reason to send it.
pub(super) const TOO_LONG: ErrorCode = ErrorCode(-31_998);

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
    /// The server went away before it answered: the call may have been carried out.
    #[error("the server went away before it answered: {0}")]
    Gone(String),
    /// No answer in time: the call may have been carried out.
    #[error("no answer within {} s", tenths(*.0))]
    Timeout(Duration),
    /// The server refused the call, in its own words.
    #[error("{0}")]
    Refused(String),
    /// There is an answer, longer than what is read of one. A second one would be as long.
    #[error("its answer is longer than the {0} bytes that are read of one; ask for less")]
    TooLong(String),
    /// The server does not speak as it should.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
}

impl Error {
    /// Whether the call certainly was not carried out.
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::AuthNeeded(_) | Self::Expired | Self::Status { code: TOO_MANY_REQUESTS | FORBIDDEN, .. }
        )
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
        !matches!(self, Self::Refused(_) | Self::TooLong(_) | Self::Status { code: FORBIDDEN, .. })
    }

    /// The same without any of `secrets`: a server may quote what it was given.
    pub(super) fn redacted(self, secrets: &[Secret]) -> Self {
        let redact = |text: String| secrets.iter().fold(text, |text, secret| secret.redact(&text));
        match self {
            Self::Unreachable(why) => Self::Unreachable(redact(why)),
            Self::AuthNeeded(why) => Self::AuthNeeded(redact(why)),
            Self::Status { code, said, retry_after } => Self::Status { code, said: redact(said), retry_after },
            Self::Gone(why) => Self::Gone(redact(why)),
            Self::Refused(why) => Self::Refused(redact(why)),
            Self::TooLong(limit) => Self::TooLong(limit),
            Self::Protocol(why) => Self::Protocol(redact(why)),
            plain @ (Self::Expired | Self::Lost | Self::Timeout(_)) => plain,
        }
    }

    /// One word for traces.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::AuthNeeded(_) => "auth_needed",
            Self::Expired => "session_expired",
            Self::Status { .. } => "http_status",
            Self::Lost => "lost",
            Self::Gone(_) => "gone",
            Self::Timeout(_) => "timeout",
            Self::Refused(_) => "refused",
            Self::TooLong(_) => "too_long",
            Self::Protocol(_) => "protocol",
        }
    }
}

/// What was asked is not allowed; other things may be.
pub(super) const FORBIDDEN: u16 = 403;
const TOO_MANY_REQUESTS: u16 = 429;

impl From<ServiceError> for Error {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) if error.code == TOO_LONG => Self::TooLong(error.message.into_owned()),
            ServiceError::McpError(error) => Self::Refused(error.message.into_owned()),
            ServiceError::TransportSend(error) => Self::from(error),
            ServiceError::TransportClosed => Self::Lost,
            ServiceError::Cancelled { reason } => Self::Refused(reason.unwrap_or_else(|| "the server cancelled it".to_owned())),
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

/// In seconds, to a tenth: what is left of a deadline is an odd number.
fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_told_without_credentials() {
        let told = |error: Error| error.redacted(&[Secret::new("sk-123456")]).to_string();
        let said = || "wrong key sk-123456".to_owned();
        for error in
            [Error::Unreachable(said()), Error::AuthNeeded(said()), Error::Gone(said()), Error::Refused(said()), Error::Protocol(said())]
        {
            let told = told(error);
            assert!(told.ends_with("wrong key [secret]"), "{told}");
        }
        assert_eq!(
            told(Error::Status { code: 500, said: format!(": {}", said()), retry_after: None }),
            "the server answered with HTTP 500: wrong key [secret]"
        );
        let refused = rmcp::model::ErrorData::new(ErrorCode::INTERNAL_ERROR, said(), None);
        assert_eq!(told(ServiceError::McpError(refused).into()), "wrong key [secret]");
    }

    #[test]
    fn what_is_forbidden_is_the_error_of_the_call_alone() {
        let forbidden = Error::Status { code: 403, said: String::new(), retry_after: None };
        assert!(forbidden.is_unsent() && !forbidden.is_transport() && !forbidden.never_left());
    }

    #[test]
    fn times_are_told_in_tenths() {
        assert_eq!(Error::Timeout(Duration::from_micros(2_999_988)).to_string(), "no answer within 3 s");
        assert_eq!(Error::Timeout(Duration::from_millis(250)).to_string(), "no answer within 0.3 s");
    }
}
