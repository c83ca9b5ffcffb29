//! One client connection: HTTP/1.1, a request id on every answer, every failure an answer.

use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc};

use hyper::{Request, Response, body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tracing::Instrument;

use super::{State, headers, reply, router};

/// The connection as a future, to be polled to its end. Dropping it drops every run on it.
pub(super) fn serve(stream: TcpStream, state: Arc<State>) -> http1::Connection<TokioIo<TcpStream>, Handler> {
    // Tokens are small and each one is awaited; Nagle would hold them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "set TCP_NODELAY");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(state.config.request_timeout)
        .serve_connection(TokioIo::new(stream), Handler(state))
}

/// Answers requests.
pub(super) struct Handler(Arc<State>);

impl Service<Request<Incoming>> for Handler {
    type Response = Response<reply::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let state = Arc::clone(&self.0);
        let id = headers::request_id(request.headers());
        request.extensions_mut().insert(headers::RequestId(id.clone()));
        let explain = headers::explain(request.headers());
        let dialect = router::dialect(request.uri().path());
        let span = tracing::debug_span!("request", id = ?id, method = %request.method(), path = request.uri().path());
        let answer = async move {
            let mut response = match router::route(&state, request).await {
                Ok(response) => response,
                Err(problem) => reply::problem(&problem, dialect, Some(&id), explain),
            };
            if let Some(name) = dialect.request_id_header() {
                response.headers_mut().insert(name, id.clone());
            }
            response.headers_mut().insert(headers::REQUEST_ID, id);
            tracing::debug!(status = response.status().as_u16(), "answered");
            Ok(response)
        };
        Box::pin(answer.instrument(span))
    }
}
