//! What the Messages API cannot be asked is refused here, in the words in which the server itself would.

use crate::{
    backend::{Error, Refusal},
    wire::openai::ErrorBody,
};

/// The request's field `param` cannot be sent on, because of `message`.
pub(super) fn invalid(param: &str, message: impl Into<String>) -> Error {
    let body = ErrorBody {
        message: Some(message.into()),
        kind: Some("invalid_request_error".to_owned()),
        param: Some(param.to_owned()),
        ..ErrorBody::default()
    };
    Error::Status(Box::new(Refusal { status: 400, body, retry_after: None }))
}
