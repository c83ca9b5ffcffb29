//! Streams at a model's pace: what a reader sees of words that come one by one, each at its time.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{
    Result,
    load::{self, Question, Sender, Target},
    mock::script,
};

/// How much is said, and how fast.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How many words.
    pub words: usize,
    /// The time before each word.
    pub pause: Duration,
}

/// What a reader saw of one answer.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// From the request to the first word.
    pub first: Duration,
    /// The longest time between two pieces of text.
    pub gap: Duration,
    /// The most that a word came after its time, which runs from the request.
    pub late: Duration,
}

/// What the readers of many streams saw.
#[derive(Debug, Default)]
pub struct Crowd {
    /// Those who got the whole answer.
    pub heard: Vec<Heard>,
    /// Why the others did not.
    pub errors: Vec<String>,
}

/// A reader with a connection that serves one answer after another.
pub struct Reader {
    target: Target,
    body: Bytes,
    pace: Pace,
    sender: Option<Sender>,
}

/// Has `count` readers ask over a connection each, one `every` so often, and waits for all.
pub async fn crowd(target: &Target, question: &Question, pace: Pace, count: u32, every: Duration) -> Crowd {
    let start = Instant::now();
    let mut readers: JoinSet<Result<Heard>> = JoinSet::new();
    for place in 0..count {
        let mut reader = Reader::new(target, question, pace);
        readers.spawn(async move {
            sleep_until(start + every * place).await;
            reader.hear().await
        });
    }
    let mut crowd = Crowd::default();
    while let Some(finished) = readers.join_next().await {
        match finished {
            Ok(Ok(heard)) => crowd.heard.push(heard),
            Ok(Err(error)) => crowd.errors.push(error.to_string()),
            Err(error) => crowd.errors.push(error.to_string()),
        }
    }
    crowd
}

// === impl Pace ===

impl Pace {
    /// A question that the scripted model answers at this pace: by the tool `respond` where tools are
    /// offered and it is among them, else as content.
    pub fn question(self, with_tools: bool) -> Question {
        let model = format!("respond-{}-d{}", self.words, self.pause.as_millis());
        Question { model, with_tools, stream: true, system_bytes: 200 }
    }
}

// === impl Reader ===

impl Reader {
    /// A reader that asks `target` the `question`, which is answered at `pace`.
    pub fn new(target: &Target, question: &Question, pace: Pace) -> Self {
        Self { target: target.clone(), body: question.body(), pace, sender: None }
    }

    /// Asks and reads to the end. Fails unless every word came.
    pub async fn hear(&mut self) -> Result<Heard> {
        let mut sender = match load::usable(self.sender.take()).await {
            Some(sender) => sender,
            None => load::connect(&self.target).await?,
        };
        let request = load::request(&self.target, &self.body)?;
        let mut ear = Ear::new(self.pace);
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status()).into());
        }
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame?.data_ref() {
                ear.take(data)?;
            }
        }
        self.sender = Some(sender);
        ear.finish()
    }
}

/// Follows the events of one answer as they arrive.
struct Ear {
    pace: Pace,
    asked: Instant,
    /// The beginning of an event.
    partial: Vec<u8>,
    text: String,
    first: Option<Instant>,
    last: Option<Instant>,
    gap: Duration,
    late: Duration,
    is_done: bool,
}

impl Ear {
    fn new(pace: Pace) -> Self {
        let asked = Instant::now();
        let none = Duration::ZERO;
        Self { pace, asked, partial: Vec::new(), text: String::new(), first: None, last: None, gap: none, late: none, is_done: false }
    }

    fn take(&mut self, data: &[u8]) -> Result<()> {
        self.partial.extend_from_slice(data);
        while let Some(end) = self.partial.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.partial.drain(..end + 2).collect();
            match event.strip_prefix(b"data: ") {
                Some(b"[DONE]\n\n") => self.is_done = true,
                Some(json) => self.event(&serde_json::from_slice(json)?)?,
                None => {}
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Value) -> Result<()> {
        if !event["error"].is_null() {
            return Err(event["error"].to_string().into());
        }
        match event["choices"][0]["delta"]["content"].as_str() {
            None | Some("") => {}
            Some(text) => self.said(text),
        }
        Ok(())
    }

    fn said(&mut self, text: &str) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        if let Some(last) = self.last.replace(now) {
            self.gap = self.gap.max(now - last);
        }
        self.text.push_str(text);
        let words = u32::try_from(self.text.matches(' ').count()).unwrap_or(u32::MAX);
        self.late = self.late.max(now.saturating_duration_since(self.asked + self.pace.pause * words));
    }

    fn finish(self) -> Result<Heard> {
        let expected = script::words(self.pace.words).concat();
        match self.first {
            Some(first) if self.is_done && self.text == expected => Ok(Heard { first: first - self.asked, gap: self.gap, late: self.late }),
            _ => Err(format!("not the whole answer: {}", self.text).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { words: 2, pause: Duration::from_millis(10) };

    #[tokio::test(start_paused = true)]
    async fn times_are_those_of_the_words() {
        let mut ear = Ear::new(PACE);
        let pass = |ms| tokio::time::advance(Duration::from_millis(ms));
        ear.take(b"data: {\"choices\":[{\"delta\":{\"content\":null}}]}\n\n: alive\n\ndata: {\"choices\":[{\"delta\":").unwrap();
        pass(11).await;
        ear.take(b"{\"content\":\"w0 \"}}]}\n\n").unwrap();
        pass(14).await;
        ear.take(b"data: {\"choices\":[{\"delta\":{\"content\":\"w1 \"}}]}\n\n").unwrap();
        pass(50).await;
        ear.take(b"data: [DONE]\n\n").unwrap();
        let Heard { first, gap, late } = ear.finish().unwrap();
        assert_eq!((first.as_millis(), gap.as_millis(), late.as_millis()), (11, 14, 5));
    }

    #[tokio::test]
    async fn only_whole_answers_count() {
        let check = |events: &[u8]| {
            let mut ear = Ear::new(PACE);
            assert!(ear.take(events).and_then(|()| ear.finish()).is_err());
        };
        check(b"");
        check(b"data: [DONE]\n\n");
        check(b"data: {\"error\":{\"message\":\"cut\"}}\n\n");
        check(b"data: {\"choices\":[{\"delta\":{\"content\":\"w0 w1 \"}}]}\n\n");
        check(b"data: {\"choices\":[{\"delta\":{\"content\":\"w0 \"}}]}\n\ndata: [DONE]\n\n");
    }
}
