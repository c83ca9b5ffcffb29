//! Responses: JSON at hand, a stream, or an upstream body passed through.

use std::{convert::Infallible, error::Error};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    body::{Body as HttpBody, Frame},
    header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};

use super::{error, headers};
use crate::{
    api::Dialect,
    chat::{Problem, problem::Kind},
};

/// Any response body. An error in it cuts the connection, so that nobody takes half an answer for a whole one.
pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// `body` as JSON.
pub(super) fn json(status: StatusCode, body: Bytes) -> Response<Body> {
    let body = Full::new(body).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// `frames` as server-sent events.
pub(super) fn events(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures_util::StreamExt;
    let frames = frames.map(|bytes| Ok(Frame::data(bytes)));
    let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// An upstream response as it is.
pub(super) fn passed<B>(response: Response<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error: Error + Send + Sync + 'static> + Send + 'static,
{
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}

/// `problem` with its status, in the form of `dialect`, about the request of that id.
pub(super) fn problem(problem: &Problem, dialect: &dyn Dialect, id: Option<&HeaderValue>, explain: bool) -> Response<Body> {
    let status = error::status(problem.kind);
    let body = match id.and_then(|id| id.to_str().ok()) {
        Some(id) => dialect.error_of(problem, id, explain),
        None => dialect.error(problem, explain),
    };
    let mut response = json(status, body);
    if let Some(report) = &problem.report {
        headers::report(response.headers_mut(), report);
    }
    if let Some(value) = problem.retry_after.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    // The official clients come again after a 429 unless they are told not to.
    if problem.kind == Kind::Spent {
        response.headers_mut().insert(headers::SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if let Kind::Method(allowed) = problem.kind {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    if problem.kind == Kind::Unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        // There may be a body on it that nobody has read.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
