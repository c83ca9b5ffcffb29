//! A response body that keeps a backend's place taken until it ends or is dropped.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::member::Stay;
use crate::upstream;

/// The body and the place.
pub struct Held {
    body: upstream::Body,
    stay: Stay,
}

impl Held {
    pub(super) fn new(body: upstream::Body, stay: Stay) -> Self {
        Self { body, stay }
    }
}

impl Body for Held {
    type Data = Bytes;
    type Error = upstream::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, upstream::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Err(error))) = &frame
            && !matches!(error, upstream::Error::BodyTooLarge | upstream::Error::BodyBroken)
        {
            self.stay.broke_off();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
