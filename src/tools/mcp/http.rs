//! A server over streamable HTTP: rmcp's worker speaks the protocol, over the HTTP client that toolgate has anyway.
//!
//! What is sent is what the protocol and the configuration say, and nothing of any caller's request. Redirects are not followed: a server
//! that moved is for the operator to look at.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_core::stream::BoxStream;
use hyper::{
    HeaderMap, Method, Request, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ProtocolVersion, ServerJsonRpcMessage, ServerResult},
    service::ClientLifecycleMode,
    transport::{
        common::client_side_sse::ExponentialBackoff,
        streamable_http_client::{
            AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
            StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;

use super::{
    Error, Limits, RESERVED_HEADERS, address,
    answer::{Answer, Reading, chain, filled_in, unknown_method},
    error::FORBIDDEN,
    status::Status,
};
use crate::{
    secret::{Secret, Template},
    tools::config::{Server, Transport, Variables},
    upstream::{self, Body},
};

/// The way to one server. Cloning it shares the connections.
#[derive(Clone)]
pub(super) struct Client(Arc<Inner>);

struct Inner {
    upstream: upstream::Client,
    /// With its query.
    path: String,
    /// As written, and as filled in for this connection.
    url: (Template, Secret),
    headers: Vec<(HeaderName, Template)>,
    variables: Variables,
    bytes_max: usize,
    status: Arc<Status>,
}

type Failure = StreamableHttpError<Error>;

/// A connection takes no longer than this, however patient the calls are.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A stream is opened anew once a day. How long an answer may take is the caller's to say, who drops the request then.
const STREAM_MAX: Duration = Duration::from_secs(24 * 3600);
/// Beyond the calls at once: lists, notifications and the answers to a server's questions.
const EXTRA_REQUESTS: usize = 4;
/// How often a broken stream is sought again before it is given up; with the waits between, some two minutes.
const RESUMES_MAX: usize = 6;
const RESUME_FIRST: Duration = Duration::from_secs(1);
const RESUME_MAX: Duration = Duration::from_secs(30);
/// An old server may leave a question that it does not know without an answer; it is asked the old way then. Before rmcp does so, after 10 s,
/// while the question still holds up the next one.
const DISCOVER_MAX: Duration = Duration::from_secs(8);

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const OWN_NAME: HeaderValue = HeaderValue::from_static(concat!("toolgate/", env!("CARGO_PKG_VERSION")));

/// The way to `server`, and what is known of it later. Nothing is sent before the transport is used.
pub(super) fn transport(
    server: &Server,
    limits: Limits,
    variables: &Variables,
) -> Result<(StreamableHttpClientTransport<Client>, Arc<Status>), Error> {
    let Transport::Http { url, headers, allow_link_local } = &server.transport else {
        return Err(Error::Unreachable("it is not reached over HTTP".to_owned()));
    };
    let filled = url.fill(&|name| (variables.0)(name)).map_err(|unset| Error::Unreachable(unset.to_string()))?;
    let uri = address::parse(filled.expose()).map_err(|wrong| Error::Unreachable(wrong.to_owned()))?;
    let times = upstream::Config {
        connect_timeout: server.timeout.min(CONNECT_MAX),
        first_byte_timeout: STREAM_MAX,
        idle_timeout: STREAM_MAX,
        total_timeout: STREAM_MAX,
    };
    let guard = if *allow_link_local { upstream::Guard(|_| None) } else { upstream::Guard(address::refusal) };
    let status = Arc::new(Status::default());
    let client = Client(Arc::new(Inner {
        upstream: upstream::Client::guarded(&uri, times, guard),
        path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        url: (url.clone(), filled),
        headers: headers.iter().map(|(name, value)| Ok((header_name(name)?, value.clone()))).collect::<Result<_, Error>>()?,
        variables: variables.clone(),
        bytes_max: limits.message_bytes_max,
        status: Arc::clone(&status),
    }));
    let mut resume = ExponentialBackoff::default();
    (resume.max_times, resume.base_duration, resume.max_delay) = (Some(RESUMES_MAX), RESUME_FIRST, Some(RESUME_MAX));
    let mut config = StreamableHttpClientTransportConfig::with_uri(server.id.as_str());
    config.retry_config = Arc::new(resume);
    config.max_concurrent_requests = server.concurrent_max.saturating_add(EXTRA_REQUESTS);
    config.max_sse_event_size = limits.message_bytes_max;
    // rmcp would make the call again in the new session.
    config.reinit_on_expired_session = false;
    Ok((StreamableHttpClientTransport::with_client(client, config), status))
}

/// Asks first whether the server speaks the newest revision, which has no sessions, and goes on as before where it does not: that costs an
/// older server one small request a connection.
pub(super) fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

fn header_name(name: &str) -> Result<HeaderName, Error> {
    let parsed: HeaderName = name.parse().map_err(|_| Error::Unreachable(format!("`{name}` is no name of a header")))?;
    if RESERVED_HEADERS.contains(&parsed.as_str()) {
        return Err(Error::Unreachable(format!("the header `{name}` is not for the configuration to set")));
    }
    Ok(parsed)
}

/// Whether it is an answer to the question that only servers of the newest revision know; an error is one, too.
fn is_discovery(message: &ServerJsonRpcMessage) -> bool {
    match message {
        ServerJsonRpcMessage::Response(response) => matches!(response.result, ServerResult::DiscoverResult(_)),
        ServerJsonRpcMessage::Error(_) => true,
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => false,
    }
}

/// A request before its headers of the configuration.
struct Draft {
    method: Method,
    accept: HeaderValue,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
    body: Bytes,
}

impl Client {
    async fn send(&self, draft: Draft) -> Result<Answer, Error> {
        let had_session = draft.session.is_some();
        let (request, secrets) = self.request(draft)?;
        let response: Response<Body> = self.0.upstream.send_once(request).await.map_err(|error| self.failed(&error))?;
        Ok(Answer { response, had_session, secrets })
    }

    fn request(&self, draft: Draft) -> Result<(Request<Bytes>, Vec<Secret>), Error> {
        let Inner { headers, variables, url: (template, filled), .. } = &*self.0;
        let mut secrets = filled_in(template, filled);
        let mut request = Request::new(draft.body);
        *request.method_mut() = draft.method;
        *request.uri_mut() = self.0.path.parse().map_err(|_| Error::Unreachable("the URL has no path".to_owned()))?;
        let fields = request.headers_mut();
        fields.insert(USER_AGENT, OWN_NAME);
        for (name, template) in headers {
            let value = template.fill(&|name| (variables.0)(name)).map_err(|unset| Error::Unreachable(unset.to_string()))?;
            let text = HeaderValue::from_str(value.expose());
            let mut text =
                text.map_err(|_| Error::Unreachable(format!("the header `{name}` cannot be sent: it has control characters")))?;
            text.set_sensitive(true);
            fields.insert(name, text);
            secrets.push(value);
        }
        // After those of the configuration: what the protocol says comes last.
        fields.extend(draft.headers.into_iter().collect::<HeaderMap>());
        fields.insert(ACCEPT, draft.accept);
        if let Some(session) = draft.session {
            let id = HeaderValue::from_str(&session).map_err(|_| Error::Protocol("its session id is no text".to_owned()))?;
            fields.insert(SESSION_ID, id);
        }
        if request.method() == Method::POST {
            request.headers_mut().insert(CONTENT_TYPE, JSON);
        }
        Ok((request, secrets))
    }

    /// What an error below HTTP means for the call.
    fn failed(&self, error: &upstream::Error) -> Error {
        match error {
            upstream::Error::Connect(_) | upstream::Error::ConnectTimeout(_) => {
                let why = chain(error);
                self.0.status.lose(why.as_str());
                Error::Unreachable(why)
            }
            upstream::Error::FirstByte(waited) | upstream::Error::Idle(waited) | upstream::Error::Total(waited) => Error::Timeout(*waited),
            upstream::Error::BodyTooLarge | upstream::Error::BodyBroken | upstream::Error::Broken(_) => Error::Lost,
        }
    }

    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message).map_err(StreamableHttpError::Deserialize)?.into();
        let draft = Draft { method: Method::POST, accept: EITHER, session, headers, body };
        let ClientJsonRpcMessage::Request(request) = message else {
            return self.checked(self.send(draft).await?.accepted().await);
        };
        if !matches!(request.request, ClientRequest::DiscoverRequest(_)) {
            let is_greeting = matches!(request.request, ClientRequest::InitializeRequest(_));
            return match self.send(draft).await?.reply(request.id, self.0.bytes_max).await {
                // To whom nothing at all is allowed, a credential is missing.
                Err(StreamableHttpError::Client(error @ Error::Status { code: FORBIDDEN, .. })) if is_greeting => {
                    self.checked(Err(Error::AuthNeeded(error.to_string()).into()))
                }
                answer => self.checked(answer),
            };
        }
        let id = request.id;
        let asking = async { self.send(draft).await?.reply(id.clone(), self.0.bytes_max).await?.expect_initialized().await };
        let discovered = tokio::time::timeout(DISCOVER_MAX, asking).await.unwrap_or(Err(Error::Lost.into()));
        match discovered {
            Ok((message, _)) if is_discovery(&message) => Ok(StreamableHttpPostResponse::Json(message, None)),
            Err(StreamableHttpError::Client(error @ (Error::Unreachable(_) | Error::AuthNeeded(_)))) => self.checked(Err(error.into())),
            Err(error @ StreamableHttpError::Client(Error::Status { code: 429, .. })) => Err(error),
            // Only an old server says such things, or nothing: it is spoken to the old way, and what is wrong with it shows again.
            Ok(_) | Err(_) => Ok(unknown_method(id)),
        }
    }

    /// `outcome`, after a look whether it means that the connection is of no more use.
    fn checked<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        match &outcome {
            Err(StreamableHttpError::SessionExpired) => self.0.status.lose("the server had ended the session"),
            Err(StreamableHttpError::Client(error @ Error::AuthNeeded(_))) => self.0.status.lose(error.to_string()),
            _ => {}
        }
        outcome
    }

    async fn listen(
        &self,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        if let Some(id) = &last_event_id {
            let id = HeaderValue::from_str(id).map_err(|_| StreamableHttpError::ServerDoesNotSupportSse)?;
            headers.insert(LAST_EVENT_ID, id);
        }
        let draft = Draft { method: Method::GET, accept: EVENT_STREAM, session, headers, body: Bytes::new() };
        let answer = self.send(draft).await?;
        let status = &self.0.status;
        match answer.response.status().as_u16() {
            401 => {
                status.lose("the server wants a credential");
                Err(StreamableHttpError::AuthRequired(AuthRequiredError::new("its stream".to_owned())))
            }
            404 if status.heard.load(Ordering::Relaxed) => {
                status.lose("the server had ended the session");
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            200 if answer.has_type("text/event-stream") => {
                Ok(Reading::of_a_listener(answer.response.into_body(), self.0.bytes_max, status, last_event_id.is_none()).stream())
            }
            code @ (429 | 500..) => Err(Error::Status { code, said: String::new(), retry_after: None }.into()),
            // It has no stream of its own, or none for us, or does not resume any.
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

impl StreamableHttpClient for Client {
    type Error = Error;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post(message, session_id, headers).await
    }

    // The default would do the same. The limit of a connection is known here from its beginning, for events and whole bodies alike.
    async fn post_message_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        _max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post(message, session_id, headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // A session that has ended needs no end, and a server that is not there hears of none.
        if !self.0.status.is_gone() {
            let draft = Draft { method: Method::DELETE, accept: EITHER, session: Some(session_id), headers, body: Bytes::new() };
            // Not every server lets its sessions be ended: whatever it says, this one is not used again.
            self.send(draft).await?;
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.listen(session_id, last_event_id, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        _max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.listen(session_id, last_event_id, headers).await
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}
