//! A response body that brings its connection along, and fails when nothing arrives for too long.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{Error, Inner, connection::Connection};

/// The body of an upstream response. Dropping it keeps the connection for another request if it was read to its end, and closes it
/// if not.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    /// Gone once the body has ended.
    connection: Option<Connection>,
    client: Arc<Inner>,
    deadlines: Deadlines,
    /// Made at the first wait: a body that is at hand never waits.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

/// Until when what must have come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// The first byte of the body, which may come long after the head; gone once it has come.
    pub(super) first_byte_by: Option<Instant>,
    /// The end.
    pub(super) total_by: Instant,
}

impl Body {
    pub(super) fn new(incoming: Incoming, connection: Connection, client: Arc<Inner>, deadlines: Deadlines) -> Self {
        Self { incoming, connection: Some(connection), client, deadlines, timer: None, waiting: false }
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
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let config = &self.client.config;
        let Deadlines { first_byte_by, total_by } = self.deadlines;
        let end = first_byte_by.unwrap_or_else(|| Instant::now() + config.idle_timeout).min(total_by);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if !self.waiting {
            timer.as_mut().reset(end);
            self.waiting = true;
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(match first_byte_by {
            _ if Instant::now() >= total_by => Error::Total(config.total_timeout),
            Some(_) => Error::FirstByte(config.first_byte_timeout),
            None => Error::Idle(config.idle_timeout),
        })
    }

    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.client.pool.put(connection);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = self.poll_incoming(cx) {
            self.waiting = false;
            self.deadlines.first_byte_by = None;
            if frame.is_none() {
                self.release();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        self.poll_overdue(cx).map(|error| Some(Err(error)))
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
