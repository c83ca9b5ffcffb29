//! What a server answers over HTTP: a status, one JSON message or a stream of events, read up to a limit.

use std::{
    error, iter,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_core::stream::BoxStream;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper::{
    Response,
    header::{CONTENT_TYPE, HeaderName, RETRY_AFTER},
};
use rmcp::{
    model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_client::{SseError, StreamableHttpError, StreamableHttpPostResponse},
};
use sse_stream::Sse;
use tokio::time::Instant;

use super::{
    Error,
    error::TOO_LONG,
    events::{Parser, TooLong},
    status::Status,
};
use crate::{
    secret::{Secret, Template},
    upstream::Body,
};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// A longer answer to something that is no request holds nothing that is wanted.
const ACCEPTED_BYTES_MAX: usize = 64 << 10;
/// How much of an error that is no JSON is quoted.
const QUOTE_CHARS_MAX: usize = 200;
/// A stream that ends sooner after its beginning is not sought again before that: a server that ends each at once is not asked without end.
const LISTEN_MIN: Duration = Duration::from_millis(250);

/// The answer to one request.
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    pub(super) had_session: bool,
    /// What was sent and is not to be quoted.
    pub(super) secrets: Vec<Secret>,
}

type Failure = StreamableHttpError<Error>;

impl Answer {
    pub(super) fn has_type(&self, wanted: &str) -> bool {
        let value = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let name = value.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case(wanted)
    }

    /// The answer to the request `id`.
    pub(super) async fn reply(self, id: RequestId, bytes_max: usize) -> Result<StreamableHttpPostResponse, Failure> {
        let session = self.response.headers().get(SESSION_ID).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if !self.response.status().is_success() {
            return self.error(id, bytes_max).await;
        }
        if self.has_type("text/event-stream") {
            let reading = Reading::of_a_call(self.response.into_body(), bytes_max, id);
            return Ok(StreamableHttpPostResponse::Sse(reading.stream(), session));
        }
        if !self.has_type("application/json") {
            return Err(Error::Protocol("its answer is neither JSON nor a stream of events".to_owned()).into());
        }
        let body = read(self.response.into_body(), bytes_max).await?;
        let message = serde_json::from_slice(&body).map_err(|error| Error::Protocol(format!("its answer is no message: {error}")))?;
        Ok(StreamableHttpPostResponse::Json(message, session))
    }

    /// The answer to what is no request: that it came is all that it says.
    pub(super) async fn accepted(self) -> Result<StreamableHttpPostResponse, Failure> {
        if !self.response.status().is_success() {
            // There is nobody to whom an error could be told in the protocol's words.
            let (failure, _) = self.failure(ACCEPTED_BYTES_MAX).await;
            return Err(failure);
        }
        // Read, so that the connection can be used again; unless it does not end.
        if !self.has_type("text/event-stream") {
            let _ = read(self.response.into_body(), ACCEPTED_BYTES_MAX).await;
        }
        Ok(StreamableHttpPostResponse::Accepted)
    }

    /// The server's own words, where it has any in the protocol, else what the status says.
    async fn error(self, id: RequestId, bytes_max: usize) -> Result<StreamableHttpPostResponse, Failure> {
        match self.failure(bytes_max).await {
            // Not every server knows the id of what it refuses to read.
            (_, Some(error)) => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None)),
            (failure, None) => Err(failure),
        }
    }

    async fn failure(self, bytes_max: usize) -> (Failure, Option<ErrorData>) {
        let Self { response, had_session, secrets } = self;
        let code = response.status().as_u16();
        match code {
            401 => return (Error::AuthNeeded(format!("it answered with HTTP {code}")).into(), None),
            404 if had_session => return (StreamableHttpError::SessionExpired, None),
            300..=399 => return (Error::Protocol(format!("it answered with HTTP {code}, and redirects are not followed")).into(), None),
            _ => {}
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(delay);
        let body = read(response.into_body(), bytes_max).await.unwrap_or_default();
        if code != 429
            && let Ok(ServerJsonRpcMessage::Error(error)) = serde_json::from_slice(&body)
        {
            return (Error::Refused(error.error.message.to_string()).into(), Some(error.error));
        }
        let text = secrets.iter().fold(String::from_utf8_lossy(&body).into_owned(), |text, secret| secret.redact(&text));
        // Only then: half a secret would not be found.
        let text: String = text.trim().chars().take(QUOTE_CHARS_MAX).collect();
        let said = if text.is_empty() { text } else { format!(": {text}") };
        (Error::Status { code, said, retry_after }.into(), None)
    }
}

/// That a server does not know what it was asked.
pub(super) fn unknown_method(id: RequestId) -> StreamableHttpPostResponse {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the server does not speak this revision", None);
    StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None)
}

/// Nobody waits longer, and no sum of times overflows.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// What `Retry-After` says: seconds or a date.
fn delay(value: &str) -> Option<Duration> {
    let wanted = match value.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // A date that has passed is no wait.
        Err(_) => (DateTime::parse_from_rfc2822(value.trim()).ok()?.to_utc() - Utc::now()).to_std().unwrap_or_default(),
    };
    Some(wanted.min(RETRY_AFTER_MAX))
}

/// The parts of a URL that its template does not have: what was filled in.
pub(super) fn filled_in(template: &Template, filled: &Secret) -> Vec<Secret> {
    let parts = filled.expose().split(['/', '?', '&', '=', '#', ':']);
    parts.filter(|part| !part.is_empty() && !template.text().contains(part)).map(Secret::new).collect()
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn error::Error) -> String {
    let causes: Vec<String> = iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect();
    causes.join(": ")
}

async fn read(mut body: Body, bytes_max: usize) -> Result<Bytes, Error> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Error::Lost)?.into_data() else { continue };
        if whole.len() + data.len() > bytes_max {
            return Err(Error::TooLong(bytes_max.to_string()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// A stream of events as it is read.
pub(super) struct Reading {
    body: Pin<Box<Body>>,
    parser: Parser,
    reader: Reader,
    end: End,
}

/// For whom a stream is read.
enum Reader {
    /// The request that it answers.
    Call(RequestId),
    /// Whoever hears what the server has to say, or goes on where another stream broke.
    Listener { until: Instant, status: Arc<Status>, is_first: bool },
}

enum End {
    NotYet,
    /// Of what was read; the events before it come first.
    TooLong(TooLong),
    Reached,
}

impl Reading {
    pub(super) fn of_a_call(body: Body, bytes_max: usize, id: RequestId) -> Self {
        Self { body: Box::pin(body), parser: Parser::new(bytes_max), reader: Reader::Call(id), end: End::NotYet }
    }

    /// A stream that no request began. The first of a connection is the one on which the server says what changed.
    pub(super) fn of_a_listener(body: Body, bytes_max: usize, status: &Arc<Status>, is_first: bool) -> Self {
        if is_first {
            status.hearing.store(true, Ordering::Relaxed);
            status.heard.store(true, Ordering::Relaxed);
        }
        let reader = Reader::Listener { until: Instant::now() + LISTEN_MIN, status: Arc::clone(status), is_first };
        Self { body: Box::pin(body), parser: Parser::new(bytes_max), reader, end: End::NotYet }
    }

    pub(super) fn stream(self) -> BoxStream<'static, Result<Sse, SseError>> {
        Box::pin(stream::unfold(self, async |mut reading| Some((reading.next().await?, reading))))
    }

    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.parser.next_event() {
                return Some(Ok(event));
            }
            match std::mem::replace(&mut self.end, End::Reached) {
                End::NotYet => self.end = End::NotYet,
                End::TooLong(error) => return self.too_long(error),
                End::Reached => {
                    self.linger().await;
                    return None;
                }
            }
            match self.body.frame().await {
                None => self.end = End::Reached,
                Some(Ok(frame)) => {
                    let pushed = frame.data_ref().map_or(Ok(()), |data| self.parser.push(data));
                    pushed.unwrap_or_else(|error| self.end = End::TooLong(error));
                }
                Some(Err(error)) => {
                    self.end = End::Reached;
                    self.linger().await;
                    return Some(Err(SseError::Body(Box::new(error))));
                }
            }
        }
    }

    /// A call is told what became of its answer. Otherwise the stream ends for good.
    fn too_long(&self, error: TooLong) -> Option<Result<Sse, SseError>> {
        match &self.reader {
            Reader::Call(id) => {
                let told = ServerJsonRpcMessage::error(ErrorData::new(TOO_LONG, error.0.to_string(), None), Some(id.clone()));
                Some(Ok(Sse::default().data(serde_json::to_string(&told).unwrap_or_default())))
            }
            Reader::Listener { status, .. } => {
                status.lose("what it said of its own accord is too long");
                None
            }
        }
    }

    async fn linger(&self) {
        if let Reader::Listener { until, .. } = &self.reader {
            tokio::time::sleep_until(*until).await;
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Reader::Listener { status, is_first: true, .. } = &self.reader {
            status.hearing.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_has_an_end() {
        assert_eq!(delay("7"), Some(Duration::from_secs(7)));
        assert_eq!(delay("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(delay("Sat, 06 Nov 2094 08:49:37 GMT"), Some(RETRY_AFTER_MAX));
        assert_eq!(delay("18446744073709551615"), Some(RETRY_AFTER_MAX));
        assert_eq!(delay("soon"), None);
        assert_eq!(delay("-1"), None);
    }

    #[test]
    fn only_what_was_filled_into_a_url_is_secret() {
        let template = Template::new("https://host:8443/mcp?key=${KEY}&team=platform");
        let filled = template.fill(&|_| Some("k-123456789".to_owned())).unwrap();
        let parts = filled_in(&template, &filled);
        assert_eq!(parts, [Secret::new("k-123456789")]);
    }
}
