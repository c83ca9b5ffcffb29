//! The server: one question, one answer, within a time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Request, Response, Uri,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};
use serde::{Serialize, de::DeserializeOwned};

use super::wire::{self, Fault};
use crate::{
    budget::ledger::Code,
    secret::Secret,
    upstream::{self, Client},
};

/// Where it is, and how it is asked.
#[derive(Debug)]
pub(super) struct Peer {
    client: Client,
    /// Scheme, host, port and path, without what may be a password.
    pub(super) address: String,
    path: String,
    header: Option<HeaderValue>,
    key: Option<Secret>,
    pub(super) timeout: Duration,
}

/// What it said, whatever that is.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// How long it wants to be left alone, at most an hour.
    pub(super) retry_after: Option<Duration>,
    body: Bytes,
}

/// No answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unheard {
    /// The question certainly did not arrive.
    #[error("it cannot be reached")]
    Unsent(#[source] upstream::Error),
    /// It may have arrived, and may have been acted upon.
    #[error("its answer was lost")]
    Lost(#[source] upstream::Error),
    /// The same.
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The same.
    #[error("its answer broke off or is too long")]
    Cut,
}

/// An API key that no header can hold.
#[derive(Debug, thiserror::Error)]
#[error("the API key of the Cycles server has characters that no header may have")]
pub struct BadKey;

const API_KEY: HeaderName = HeaderName::from_static("x-cycles-api-key");
/// The longest answer that is read: one with the balances of a few hundred scopes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The longest that it is left alone when it asks for that: what is owed is not to wait for a day because a clock was wrong.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);
/// How much of what it says about a failure is logged.
const MESSAGE_CHARS_MAX: usize = 300;

impl Peer {
    /// The server at `url`, which may have a path, with or without `/v1`. Fails when `key` cannot be sent.
    pub(super) fn new(url: &Uri, key: Option<Secret>, timeout: Duration) -> Result<Self, BadKey> {
        let waits =
            upstream::Config { connect_timeout: timeout, first_byte_timeout: timeout, idle_timeout: timeout, total_timeout: timeout };
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        let host = url.authority().map_or("", |authority| authority.as_str()).rsplit('@').next().unwrap_or_default();
        let header = key.as_ref().map(|key| HeaderValue::from_str(key.bare())).transpose().map_err(|_| BadKey)?;
        let header = header.map(|mut header| {
            header.set_sensitive(true);
            header
        });
        let address = format!("{}://{host}{path}", url.scheme_str().unwrap_or("http"));
        Ok(Self { client: Client::new(url, waits), address, path, header, key, timeout })
    }

    /// Asks `question` of `path` below the server's address.
    pub(super) async fn post(&self, path: &str, question: &impl Serialize) -> Result<Answer, Unheard> {
        self.send(path, serde_json::to_vec(question).unwrap_or_default().into()).await
    }

    /// The same with a question that is spelled out.
    pub(super) async fn send(&self, path: &str, question: Bytes) -> Result<Answer, Unheard> {
        let mut request = Request::post(format!("{}{path}", self.path)).header(CONTENT_TYPE, "application/json");
        if let Some(header) = &self.header {
            request = request.header(API_KEY, header);
        }
        // A path that is none cannot be asked; ids are spelled so that they are one.
        let request = request.body(question).map_err(|_| Unheard::Cut)?;
        let exchange = async {
            let response = self.client.send(request).await.map_err(|error| match error {
                upstream::Error::Connect(_) | upstream::Error::ConnectTimeout(_) => Unheard::Unsent(error),
                _ => Unheard::Lost(error),
            })?;
            read(response).await
        };
        tokio::time::timeout(self.timeout, exchange).await.unwrap_or(Err(Unheard::Late(self.timeout)))
    }

    /// What the server says about a failure, as it may be logged: short, and without the key.
    pub(super) fn said(&self, answer: &Answer) -> String {
        let Some(fault) = answer.read::<Fault>() else { return format!("status {}", answer.status) };
        let said = format!("status {} {}: {}", answer.status, fault.error, fault.message);
        let said = wire::cut(&said, MESSAGE_CHARS_MAX);
        self.key.as_ref().map_or_else(|| said.clone(), |key| key.redact(&said))
    }
}

impl Answer {
    /// The body, where it is of the form of a `T`. Fields that are not known are passed over.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The word that says which failure it is; `None` where the server says nothing of the kind.
    pub(super) fn word(&self) -> Option<String> {
        self.read::<Fault>().map(|fault| fault.error)
    }

    /// The code of the protocol that it says no with; `None` for one that is not known, and for none.
    pub(super) fn code(&self) -> Option<Code> {
        wire::code(&self.word()?)
    }

    #[cfg(test)]
    pub(super) fn of(status: u16, body: &str) -> Self {
        Self { status, retry_after: None, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    #[cfg(test)]
    pub(super) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }
}

async fn read(response: Response<upstream::Body>) -> Result<Answer, Unheard> {
    let status = response.status().as_u16();
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|_| Unheard::Cut)?.to_bytes();
    let retry_after = seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    Ok(Answer { status, retry_after, body })
}

/// The path of an operation on the reservation `id`. Whatever the id has in it stays within its segment.
pub(super) fn reservation_path(id: &str, operation: &str) -> String {
    let mut path = "/v1/reservations/".to_owned();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => path.push(char::from(byte)),
            // A dot too, since `..` would be another place.
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{path}/{operation}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(url: &str) -> Peer {
        Peer::new(&url.parse().unwrap(), Some(Secret::new("cyc_live_abcdef")), Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn an_address_has_no_password_and_no_version() {
        let check = |url: &str, address: &str, path: &str| {
            let peer = peer(url);
            assert_eq!((peer.address.as_str(), peer.path.as_str()), (address, path), "{url}");
        };
        check("http://127.0.0.1:7878", "http://127.0.0.1:7878", "");
        check("http://127.0.0.1:7878/v1/", "http://127.0.0.1:7878", "");
        check("https://me:pw@cycles.example/budget/", "https://cycles.example/budget", "/budget");
    }

    #[test]
    fn an_id_stays_in_its_place() {
        assert_eq!(reservation_path("res_1-a", "commit"), "/v1/reservations/res_1-a/commit");
        assert_eq!(reservation_path("../é?", "extend"), "/v1/reservations/%2E%2E%2F%C3%A9%3F/extend");
    }

    #[test]
    fn what_is_logged_is_short_and_has_no_key() {
        let peer = peer("http://127.0.0.1:7878");
        let answer = Answer::of(403, r#"{"error":"FORBIDDEN","message":"key cyc_live_abcdef is not of acme","request_id":"r"}"#);
        assert_eq!(peer.said(&answer), "status 403 FORBIDDEN: key [secret] is not of acme");
        assert!(!format!("{peer:?}").contains("cyc_live"));
        let long = format!(r#"{{"error":"X","message":"{}"}}"#, "a".repeat(1000));
        assert_eq!(peer.said(&Answer::of(500, &long)).chars().count(), 300);
        assert_eq!(peer.said(&Answer::of(502, "<html>bad gateway cyc_live_abcdef</html>")), "status 502");
    }

    #[test]
    fn a_key_that_is_no_header_is_refused_at_once() {
        assert!(Peer::new(&"http://a".parse().unwrap(), Some(Secret::new("a\nb")), Duration::from_secs(1)).is_err());
    }
}
