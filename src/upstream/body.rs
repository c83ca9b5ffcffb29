//! A response body that fails when nothing arrives for too long.

use super::Error;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// The body of an upstream response. Dropping it closes the connection unless it was read to its end.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    idle_timeout: Duration,
    /// Made at the first wait: most bodies at hand never wait.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Body {
    pub(super) fn new(incoming: Incoming, idle_timeout: Duration) -> Self {
        Self { incoming, idle_timeout, timer: None, waiting: false }
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
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            self.waiting = false;
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
