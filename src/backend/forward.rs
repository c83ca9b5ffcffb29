//! Requests that toolgate has no opinion on: bytes in, bytes out, streamed in both directions.

use bytes::Bytes;
use http_body_util::Limited;
use hyper::{
    Method, Response, StatusCode, Version,
    body::Incoming,
    header::{self, HeaderMap, HeaderName},
    http::request,
};

use super::{Error, Target};
use crate::{secret::Secret, upstream};

/// The request headers that travel on: those that say how to read the body and the answer. Everything else may name the caller and
/// stays here; the identity is added apart.
static REQUEST_HEADERS: [HeaderName; 8] = [
    header::ACCEPT,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::IF_NONE_MATCH,
    header::RANGE,
    HeaderName::from_static("anthropic-beta"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("openai-beta"),
];

/// The response headers that belong to one connection only (RFC 9110, section 7.6.1).
static HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What to ask the backend.
#[derive(Debug)]
pub struct Forward<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query, below the backend's address.
    pub path: &'a str,
    /// The client's headers, of which few travel on.
    pub headers: &'a HeaderMap,
    /// The caller's `Authorization`.
    pub caller: Option<&'a Secret>,
}

impl Target {
    /// Forwards a request whose body is at hand. Any status is an answer; dropping the body ends the upstream request.
    pub async fn forward(&self, forward: &Forward<'_>, body: Bytes) -> Result<Response<upstream::Body>, Error> {
        let request = self.head(forward).body(body).map_err(|_| BAD_PATH)?;
        end_to_end(self.send(request).await?)
    }

    /// Forwards a request whose body is passed on as it arrives.
    pub async fn forward_stream(&self, forward: &Forward<'_>, body: Limited<Incoming>) -> Result<Response<upstream::Body>, Error> {
        let request = self.head(forward).body(body).map_err(|_| BAD_PATH)?;
        end_to_end(self.client().pass(request).await?)
    }

    /// Forwards as [`Self::forward`] does, but makes an error status an [`Error::Status`].
    pub async fn forward_success(&self, forward: &Forward<'_>, body: Bytes) -> Result<Response<upstream::Body>, Error> {
        let response = self.forward(forward, body).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response, forward.caller).await)
    }

    fn head(&self, forward: &Forward<'_>) -> request::Builder {
        let mut builder = self.request(forward.path, forward.caller).method(forward.method);
        for name in &REQUEST_HEADERS {
            for value in forward.headers.get_all(name) {
                builder = builder.header(name, value);
            }
        }
        builder
    }
}

const BAD_PATH: Error = Error::Protocol("the path cannot be sent on");

/// `response` without what belongs to the connection it came on. Fails for a switch of protocols, which nobody asked for.
fn end_to_end(mut response: Response<upstream::Body>) -> Result<Response<upstream::Body>, Error> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::Protocol("it switches protocols"));
    }
    *response.version_mut() = Version::HTTP_11;
    let headers = response.headers_mut();
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    Ok(response)
}
