//! A response body that brings its connection along, and fails when nothing arrives for too long.

use super::{Error, connection::Connection, pool::Pool};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// The body of an upstream response. Dropping it keeps the connection for another request if it was read to its end, and closes it
/// if not.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    /// Gone once the body has ended.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    idle_timeout: Duration,
    /// Made at the first wait: a body that is at hand never waits.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Body {
    pub(super) fn new(incoming: Incoming, connection: Connection, pool: Arc<Pool>, idle_timeout: Duration) -> Self {
        Self { incoming, connection: Some(connection), pool, idle_timeout, timer: None, waiting: false }
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if let Some(connection) = &mut self.connection {
            connection.drive(cx);
        }
        Pin::new(&mut self.incoming).poll_frame(cx)
    }

    /// Polls the timer, which runs from the moment that the wait began.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = Instant::now() + self.idle_timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if !self.waiting {
            timer.as_mut().reset(end);
            self.waiting = true;
        }
        timer.as_mut().poll(cx)
    }

    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put(connection);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = self.poll_incoming(cx) {
            self.waiting = false;
            if frame.is_none() {
                self.release();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        ready!(self.poll_idle(cx));
        Poll::Ready(Some(Err(Error::Idle(self.idle_timeout))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A body of known length is not polled for its end.
        if self.incoming.is_end_stream() {
            self.release();
        }
    }
}
