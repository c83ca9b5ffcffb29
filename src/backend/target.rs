//! Where a backend is and how a request to it is addressed and signed.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Request, Response, Uri,
    header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER},
    http::request,
};

use super::{Error, error::Refusal};
use crate::{
    secret::Secret,
    upstream::{self, Client},
    wire::openai::ErrorBody,
};

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Scheme, host, port and perhaps a path, without `/v1`.
    pub url: Uri,
    /// Replaces the caller's `Authorization` when set.
    pub api_key: Option<Secret>,
    /// Where the server looks for the identity.
    pub slot: Slot,
}

/// The header that carries the identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Slot {
    /// `Authorization`, with its scheme.
    #[default]
    Authorization,
    /// Anthropic's `x-api-key`, which holds the bare key.
    ApiKey,
}

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// An error body is read up to here; what is longer is no sentence.
const ERROR_BODY_BYTES_MAX: usize = 64 << 10;
/// A sentence from a backend is cut here.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// One model server and the client that reaches it.
#[derive(Debug, Clone)]
pub struct Target {
    config: Config,
    client: Client,
}

impl Target {
    /// A target reached within the limits of `upstream`.
    pub fn new(config: Config, upstream: upstream::Config) -> Self {
        let client = Client::new(&config.url, upstream);
        Self { config, client }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// A request to `path` (with its query) below the backend's address, carrying exactly one identity: the configured key, else the
    /// caller's.
    pub(super) fn request(&self, path: &str, caller: Option<&Secret>) -> request::Builder {
        let base = self.config.url.path().trim_end_matches('/');
        let builder = if base.is_empty() { Request::builder().uri(path) } else { Request::builder().uri(format!("{base}{path}")) };
        let (name, value) = match (self.identity(caller), self.config.slot) {
            (None, _) => return builder,
            (Some(secret), Slot::Authorization) => (AUTHORIZATION, secret.expose()),
            (Some(secret), Slot::ApiKey) => (API_KEY, secret.bare()),
        };
        match HeaderValue::from_str(value) {
            Ok(mut value) => {
                value.set_sensitive(true);
                builder.header(name, value)
            }
            Err(_) => builder,
        }
    }

    fn identity<'a>(&'a self, caller: Option<&'a Secret>) -> Option<&'a Secret> {
        self.config.api_key.as_ref().or(caller)
    }

    /// Sends a request whose body is at hand.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<upstream::Body>, Error> {
        Ok(self.client.send(request).await?)
    }

    /// Turns an error response into what may be shown of it.
    pub(super) async fn refusal(&self, response: Response<upstream::Body>, caller: Option<&Secret>) -> Error {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), ERROR_BODY_BYTES_MAX).collect().await;
        let mut body = body.map(|body| ErrorBody::read(&body.to_bytes())).unwrap_or_default();
        self.clean(&mut body, caller);
        Error::Status(Box::new(Refusal { status, body, retry_after }))
    }

    /// An error inside a stream that had begun well.
    pub(super) fn refusal_in_stream(&self, error: &[u8], caller: Option<&Secret>) -> Error {
        let mut body = ErrorBody::read(error);
        self.clean(&mut body, caller);
        let is_clients = body.kind.as_deref().is_some_and(|kind| kind.starts_with("invalid_request"));
        let status = body.status.filter(|status| (400..600).contains(status)).unwrap_or(if is_clients { 400 } else { 502 });
        Error::Status(Box::new(Refusal { status, body, retry_after: None }))
    }

    /// Takes credentials out of everything that a client may see.
    fn clean(&self, body: &mut ErrorBody, caller: Option<&Secret>) {
        for text in [&mut body.message, &mut body.kind, &mut body.param, &mut body.code].into_iter().flatten() {
            *text = self.presentable(text, caller);
        }
    }

    fn presentable(&self, message: &str, caller: Option<&Secret>) -> String {
        let message = self.identity(caller).map_or_else(|| message.to_owned(), |secret| secret.redact(message));
        match message.char_indices().nth(MESSAGE_CHARS_MAX) {
            Some((end, _)) => message.get(..end).unwrap_or_default().to_owned() + " …",
            None => message,
        }
    }
}
