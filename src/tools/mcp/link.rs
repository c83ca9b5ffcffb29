//! Whether a connection stands, known at once to all who use it.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio_util::sync::CancellationToken;

/// What is known of one connection. Cloning it shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Link(Arc<State>);

#[derive(Debug)]
struct State {
    gone: CancellationToken,
    why: Mutex<Option<String>>,
    /// The highest number of a request whose sending began. Requests are numbered in the order in which they are made.
    begun: AtomicI64,
    /// Our answers to what the server asked that it did not take yet.
    answering: AtomicUsize,
}

/// So many answers of ours wait for a server at most: one that asks on without reading them would fill our memory.
const ANSWERING_MAX: usize = 256;

impl Default for State {
    fn default() -> Self {
        Self { gone: CancellationToken::new(), why: Mutex::default(), begun: AtomicI64::new(-1), answering: AtomicUsize::new(0) }
    }
}

impl Link {
    /// The connection is gone, because of `why`. The first reason stays.
    pub(super) fn fail(&self, why: impl Into<String>) {
        self.0.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.into());
        self.0.gone.cancel();
    }

    /// Ready once the connection is gone.
    pub(super) async fn gone(&self) {
        self.0.gone.cancelled().await;
    }

    /// Whether the connection is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.0.gone.is_cancelled()
    }

    /// Why it is gone.
    pub(super) fn why(&self) -> String {
        let why = self.0.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        why.unwrap_or_else(|| "the connection is closed".to_owned())
    }

    /// One more answer waits for the server, until what this returns is dropped. Too many end the connection.
    fn answering(&self) -> Answering {
        if self.0.answering.fetch_add(1, Ordering::Relaxed) >= ANSWERING_MAX {
            self.fail("it asks more than it reads");
        }
        Answering(self.clone())
    }

    /// Whether anything of this request may have reached the server.
    pub(super) fn may_have_left(&self, id: &RequestId) -> bool {
        match id {
            RequestId::Number(number) => *number <= self.0.begun.load(Ordering::SeqCst),
            RequestId::String(_) => true,
        }
    }
}

/// An answer of ours on its way.
struct Answering(Link);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A transport whose end is known to its link.
#[derive(Debug)]
pub(super) struct Watched<T> {
    inner: T,
    link: Link,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, link: Link) -> Self {
        Self { inner, link }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let state = Arc::clone(&self.link.0);
        let number = match &message {
            JsonRpcMessage::Request(request) => match &request.id {
                RequestId::Number(number) => Some(*number),
                RequestId::String(_) => None,
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
        };
        let answering = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)).then(|| self.link.answering());
        let sending = self.inner.send(message);
        async move {
            let _answering = answering;
            if let Some(number) = number {
                state.begun.fetch_max(number, Ordering::SeqCst);
            }
            sending.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = tokio::select! {
            received = self.inner.receive() => received,
            // Whoever asks on is not heard any more.
            () = self.link.gone() => None,
        };
        if received.is_none() {
            self.link.fail("the server closed the connection");
        }
        received
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.link.fail("the connection is closed");
        self.inner.close().await
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.link.fail("the connection is closed");
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, io, pin::Pin};

    use rmcp::model::{ErrorCode, ErrorData};

    use super::*;

    /// A server that takes nothing and says nothing.
    struct Deaf;

    impl Transport<RoleClient> for Deaf {
        type Error = io::Error;

        fn send(&mut self, _message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
            pending()
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            pending().await
        }

        async fn close(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn answers_that_nobody_takes_end_the_connection() {
        let link = Link::default();
        let mut watched = Watched::new(Deaf, link.clone());
        let answer = |id| JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no", None), Some(RequestId::Number(id)));
        let mut waiting: Vec<Pin<Box<dyn Future<Output = io::Result<()>>>>> = Vec::new();
        for id in 0..256 {
            waiting.push(Box::pin(watched.send(answer(id))));
        }
        assert!(!link.is_gone());
        waiting.push(Box::pin(watched.send(answer(256))));
        assert_eq!(link.why(), "it asks more than it reads");
        assert!(watched.receive().await.is_none());
    }

    #[test]
    fn the_first_reason_stays() {
        let link = Link::default();
        assert!(!link.is_gone());
        link.fail("first");
        link.fail("second");
        assert!(link.is_gone());
        assert_eq!(link.why(), "first");
    }

    #[test]
    fn a_server_that_asks_more_than_it_reads_is_left() {
        let link = Link::default();
        let mut waiting: Vec<Answering> = (0..ANSWERING_MAX).map(|_| link.answering()).collect();
        waiting.pop();
        waiting.push(link.answering());
        assert!(!link.is_gone());
        waiting.push(link.answering());
        assert!(link.is_gone());
        assert_eq!(link.why(), "it asks more than it reads");
        drop(waiting);
        assert_eq!(link.0.answering.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_request_behind_those_that_were_begun_has_not_left() {
        let link = Link::default();
        assert!(!link.may_have_left(&RequestId::Number(0)));
        link.0.begun.fetch_max(4, Ordering::SeqCst);
        assert!(link.may_have_left(&RequestId::Number(3)));
        assert!(link.may_have_left(&RequestId::Number(4)));
        assert!(!link.may_have_left(&RequestId::Number(5)));
    }
}
