//! Kinds of problems as HTTP statuses.

use hyper::StatusCode;

use crate::chat::problem::Kind;

/// The status that tells of `kind`.
pub(super) fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::Slow => StatusCode::REQUEST_TIMEOUT,
        Kind::Unauthorized => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
        Kind::Upstream(status) => {
            StatusCode::from_u16(status).ok().filter(|status| status.as_u16() >= 400).unwrap_or(StatusCode::BAD_GATEWAY)
        }
        Kind::Unreachable | Kind::RetriesExhausted => StatusCode::BAD_GATEWAY,
        Kind::Spent => StatusCode::TOO_MANY_REQUESTS,
        Kind::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
    }
}
