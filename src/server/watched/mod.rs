//! A model's answer on its way to the client: its bytes pass untouched, and what they tell of tokens is charged when it ends, however it ends.

mod reading;

use std::{
    fmt::Display,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::{
    Response,
    body::{Body, Frame, SizeHint},
};

use self::reading::Reading;
use crate::{backend, budget::Pass, chat::Usage, trace};

/// A call of a model that is passed on. Dropped once it has begun, it is charged what is known of it, and told as cancelled.
#[derive(Debug, Default)]
pub(super) struct Call {
    // In this order they are dropped: what a call cost is known before it is told.
    pass: Pass,
    turn: trace::Turn,
    /// How many replies it asks for.
    replies: u64,
}

impl Call {
    /// The call that `pass` lets through, which asks for so many `replies`, and which `turn` tells of.
    pub(super) fn new(pass: Pass, turn: trace::Turn, replies: u64) -> Self {
        Self { pass, turn, replies }
    }

    /// It is sent now.
    pub(super) fn begin(&mut self) {
        self.turn.ask(self.pass.cost());
        self.pass.begin();
    }

    /// The backend answered with `response`: an error costs nothing, anything else is watched.
    pub(super) fn answered<B: Body<Data = Bytes, Error: Display> + Unpin>(self, response: Response<B>) -> Response<Watched<B>> {
        let status = response.status();
        let reading = Reading::of(response.headers());
        if status.is_success() {
            return response.map(|body| Watched { body, reading, call: Some(self) });
        }
        self.unmade(&format!("backend answered {status}"));
        response.map(|body| Watched { body, reading, call: None })
    }

    /// No answer came.
    pub(super) fn failed(mut self, error: &backend::Error) {
        if error.is_unmade() {
            return self.unmade(&error.to_string());
        }
        self.pass.end();
        self.turn.end_passed(Usage::default(), Some(&error.to_string()));
    }

    fn unmade(mut self, why: &str) {
        self.pass.undo();
        self.turn.undo();
        self.pass.end();
        self.turn.end_passed(Usage::default(), Some(why));
    }

    /// The answer ended, and `reading` is what was seen of it.
    fn end(mut self, reading: &Reading, end: End) {
        self.pass.hear_tokens(reading.tokens());
        let told = reading.told(self.replies);
        let guess = self.pass.guess();
        let usage = Usage {
            prompt_tokens: told.prompt_tokens.unwrap_or(guess.prompt_tokens),
            completion_tokens: told.completion_tokens.unwrap_or(guess.completion_tokens),
            cached_tokens: told.cached_tokens.unwrap_or_default(),
            reasoning_tokens: told.reasoning_tokens.unwrap_or_default(),
            cache_write_tokens: 0,
        };
        self.pass.spend(usage);
        match end {
            End::Whole => self.turn.end_passed(usage, None),
            End::Broken(why) => self.turn.end_passed(usage, Some(&why)),
            // Dropped, it says so.
            End::Left => {}
        }
    }
}

/// How an answer ended.
enum End {
    Whole,
    /// The backend broke it off.
    Broken(String),
    /// Nobody waits for it any more.
    Left,
}

/// An answer and the call that it is of, which ends with it.
pub(super) struct Watched<B: Body<Data = Bytes, Error: Display> + Unpin> {
    body: B,
    reading: Reading,
    /// Gone once it was settled.
    call: Option<Call>,
}

impl<B: Body<Data = Bytes, Error: Display> + Unpin> Watched<B> {
    fn end(&mut self, end: End) {
        if let Some(call) = self.call.take() {
            call.end(&self.reading, end);
        }
    }
}

impl<B: Body<Data = Bytes, Error: Display> + Unpin> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref()
                    && self.call.is_some()
                {
                    self.reading.push(data);
                }
                // What has a known length is not asked for its end, and is charged before the client has all of it.
                if self.body.is_end_stream() {
                    self.end(End::Whole);
                }
            }
            Some(Err(error)) => self.end(End::Broken(error.to_string())),
            None => self.end(End::Whole),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body<Data = Bytes, Error: Display> + Unpin> Drop for Watched<B> {
    fn drop(&mut self) {
        let end = if self.body.is_end_stream() { End::Whole } else { End::Left };
        self.end(end);
    }
}
