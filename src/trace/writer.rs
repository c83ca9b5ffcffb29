//! The thread that writes: takes lines from the queue, takes credentials out of them, and appends them, many in one write.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::Receiver,
    },
    time::{Duration, Instant},
};

use super::{Config, Credentials, Sink, file::Appender, line::Line};
use crate::secret::Secret;

/// Writes lines until the queue is closed.
pub(super) struct Writer {
    to: To,
    batch_bytes_max: usize,
    credentials: Box<Credentials>,
    dropped: Arc<AtomicU64>,
    /// How many were dropped when that was told last.
    told: u64,
    /// When it was told.
    told_at: Option<Instant>,
    /// Until when nothing is tried, since the last write failed.
    rests_until: Option<Instant>,
}

enum To {
    File(Appender),
    Stdout,
    Stderr,
}

/// How long lines gather before they are written: nobody reads them sooner, and a busy proxy writes seldom.
const GATHER: Duration = Duration::from_millis(20);
/// A write is about that long at most.
const BATCH_BYTES_MAX: usize = 64 << 10;
/// How long a sink that failed is left alone: a full disk is not emptied sooner.
const REST: Duration = Duration::from_secs(10);
/// How often the loss of lines is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Writer {
    /// A writer to the sink of `config`; `None` where there is none.
    pub(super) fn new(config: Config, credentials: Box<Credentials>, dropped: Arc<AtomicU64>) -> Option<Self> {
        let batch_bytes_max = BATCH_BYTES_MAX.min(config.bytes_max);
        let to = match config.sink {
            Sink::Auto | Sink::Off => return None,
            Sink::File(path) => To::File(Appender::new(path, config.bytes_max, config.kept_max)),
            Sink::Stdout => To::Stdout,
            Sink::Stderr => To::Stderr,
        };
        Some(Self { to, batch_bytes_max, credentials, dropped, told: 0, told_at: None, rests_until: None })
    }

    /// Writes what comes through `lines`, and what still waits when the queue is closed.
    pub(super) fn run(mut self, lines: &Receiver<Line>) {
        while let Ok(first) = lines.recv() {
            std::thread::sleep(GATHER);
            let mut next = Some(first);
            while let Some(line) = next {
                next = self.write_batch(line, lines);
            }
            self.tell_of_losses();
        }
    }

    /// Writes `first` and what waits behind it, as far as it fits. Returns the line that did not.
    fn write_batch(&mut self, first: Line, lines: &Receiver<Line>) -> Option<Line> {
        let (mut batch, mut count) = (Vec::new(), 0);
        let mut credentials = None;
        let mut next = Some(first);
        while let Some(line) = next {
            if count > 0 && batch.len() + line.text.len() >= self.batch_bytes_max {
                self.write(&batch, count);
                return Some(line);
            }
            if line.is_quoting {
                let known = credentials.get_or_insert_with(|| (self.credentials)());
                batch.extend_from_slice(redacted(line, known).as_bytes());
            } else {
                batch.extend_from_slice(line.text.as_bytes());
            }
            batch.push(b'\n');
            count += 1;
            next = lines.try_recv().ok();
        }
        self.write(&batch, count);
        None
    }

    fn write(&mut self, batch: &[u8], count: u64) {
        let now = Instant::now();
        if self.rests_until.is_some_and(|until| now < until) {
            self.dropped.fetch_add(count, Ordering::Relaxed);
            return;
        }
        match (self.append(batch), self.rests_until.take()) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => tracing::info!(dropped = self.dropped.load(Ordering::Relaxed), "the trace is written again"),
            (Err(error), before) => {
                self.dropped.fetch_add(count, Ordering::Relaxed);
                // Once; what is dropped from then on is told from time to time.
                if before.is_none() {
                    tracing::warn!(%error, sink = self.name(), "the trace cannot be written: going on without it");
                }
                self.rests_until = Some(now + REST);
            }
        }
    }

    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        match &mut self.to {
            To::File(appender) => appender.append(batch),
            To::Stdout => io::stdout().lock().write_all(batch).and_then(|()| io::stdout().flush()),
            To::Stderr => io::stderr().lock().write_all(batch),
        }
    }

    fn name(&self) -> String {
        match &self.to {
            To::File(appender) => appender.path().display().to_string(),
            To::Stdout => "stdout".to_owned(),
            To::Stderr => "stderr".to_owned(),
        }
    }

    fn tell_of_losses(&mut self) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let is_due = self.told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY);
        if dropped > self.told && is_due {
            tracing::warn!(lines = dropped - self.told, in_all = dropped, "lines of the trace were dropped");
            (self.told, self.told_at) = (dropped, Some(Instant::now()));
        }
    }
}

/// The text of `line` without any credential.
fn redacted(line: Line, known: &[Secret]) -> String {
    line.credential.iter().chain(known).fold(line.text, |text, secret| secret.redact(&text))
}
