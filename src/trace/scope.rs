//! Who a record belongs to: a run, and one turn of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::value::{RawValue, to_raw_value};

use super::{
    Recorder,
    line::{self, Told},
};
use crate::{
    chat::{
        CallRecord, Request,
        call::{NO_SERVER, Rejected, arguments_hash},
        report::Attempt,
    },
    secret::Secret,
};

/// Which run a record belongs to.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The request's id.
    pub request_id: String,
    /// The conversation's.
    pub session_id: String,
    /// The model that was asked for.
    pub model: String,
    /// Whether the run is a rehearsal.
    pub dry_run: bool,
    /// The caller's credential, which no line holds.
    pub credential: Option<Secret>,
    /// The tools that the client runs itself, where toolgate runs others. Where toolgate runs none, wrong calls are the client's too.
    pub clients_tools: Option<Vec<String>>,
}

/// A longer id or name is cut: clients choose them.
const NAME_BYTES_MAX: usize = 256;

impl Run {
    /// The run of `request` in the conversation `session_id`.
    pub fn new(request: &Request, session_id: &str) -> Self {
        let short = |text: &str| line::head(text, NAME_BYTES_MAX).to_owned();
        Self {
            request_id: short(&request.id),
            session_id: short(session_id),
            model: short(&request.model),
            dry_run: request.dry_run,
            credential: request.credential.clone(),
            clients_tools: None,
        }
    }
}

/// Takes the records of one run. Cloning it shares them.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    recorder: Recorder,
    run: Arc<Run>,
}

impl Scope {
    /// The scope of `run`.
    pub fn new(recorder: &Recorder, run: Run) -> Self {
        Self { recorder: recorder.clone(), run: Arc::new(run) }
    }

    /// Takes the record of a tool call that has ended.
    pub fn call(&self, record: &CallRecord) {
        self.tell(record, || to_raw_value(record.arguments.as_ref()?).ok());
    }

    /// Notes that a call begins. When what is returned is dropped before its end, `record` is what is told of it.
    pub fn begin(&self, record: &CallRecord) -> Unfinished {
        let record = self.recorder.is_on().then(|| Box::new(record.clone()));
        Unfinished { scope: self.clone(), record, begun: Instant::now() }
    }

    /// Turn number `number`, counted from 1.
    pub fn turn(&self, number: usize) -> Turn {
        Turn { scope: self.clone(), number, attempt: 0, asked: None }
    }

    fn tell(&self, record: &CallRecord, arguments: impl FnOnce() -> Option<Box<RawValue>>) {
        if self.recorder.is_on() {
            let arguments = if self.recorder.is_verbose() { arguments() } else { None };
            self.recorder.send(line::call(&self.run, record, arguments.as_deref()));
        }
    }

    /// Takes a call that was wrong and not run. With `is_told`, the model was told so.
    fn reject(&self, call: &Rejected, is_told: bool) {
        if !self.run.clients_tools.as_ref().is_some_and(|clients| !clients.contains(&call.tool)) {
            return;
        }
        let arguments = serde_json::from_str(&call.arguments).ok();
        let record = CallRecord {
            server: NO_SERVER.to_owned(),
            tool: call.tool.clone(),
            arguments_hash: arguments.as_ref().map(arguments_hash).unwrap_or_default(),
            dry_run: self.run.dry_run,
            selection_rule: if call.is_unknown { NO_CANDIDATE } else { "" },
            error: Some(call.error.clone()),
            corrective_retry: is_told,
            ..CallRecord::default()
        };
        // What is no JSON is told as text.
        self.tell(&record, || arguments.map_or_else(|| to_raw_value(&call.arguments), |arguments| to_raw_value(&arguments)).ok());
    }
}

/// The selection rule of a tool that nobody has.
const NO_CANDIDATE: &str = "no-candidate";

/// A call that has begun. Dropped before its end it was cancelled, and is told as such.
#[derive(Debug)]
pub struct Unfinished {
    scope: Scope,
    record: Option<Box<CallRecord>>,
    begun: Instant,
}

impl Unfinished {
    /// The call has ended, as `record` says.
    pub fn end(mut self, record: &CallRecord) {
        self.record = None;
        self.scope.call(record);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        let record = CallRecord {
            latency_ms: ms(self.begun.elapsed()),
            // It may have been.
            executed: !record.dry_run,
            success: false,
            error: Some(CANCELLED.to_owned()),
            ..*record
        };
        self.scope.call(&record);
    }
}

/// What is said of what was given up because nobody waits for it any more.
const CANCELLED: &str = "cancelled";

/// Takes the attempts at one turn: a model is asked, and asked again. Dropped while one is awaited, it tells that it was cancelled.
#[derive(Debug, Default)]
pub struct Turn {
    scope: Scope,
    number: usize,
    attempt: u32,
    asked: Option<Instant>,
}

impl Turn {
    /// The model is asked.
    pub fn ask(&mut self) {
        self.attempt += 1;
        self.asked = Some(Instant::now());
    }

    /// How long the model has been asked for.
    pub fn elapsed(&self) -> Duration {
        self.asked.map(|asked| asked.elapsed()).unwrap_or_default()
    }

    /// The attempt has ended: with a reply of which `note` tells, or with `error`. With `asks_again`, the model is told what was wrong.
    pub fn end(&mut self, note: Option<&Attempt>, error: Option<&str>, asks_again: bool) {
        let rejected = note.filter(|_| self.scope.recorder.is_on()).map(|note| note.rejected.as_slice()).unwrap_or_default();
        for call in rejected {
            self.scope.reject(call, asks_again);
        }
        self.tell(Told { note, error });
    }

    fn tell(&mut self, told: Told<'_>) {
        let latency = self.elapsed();
        if self.asked.take().is_some() && self.scope.recorder.is_on() {
            let line = line::attempt(&self.scope.run, (self.number, self.attempt), ms(latency), told);
            self.scope.recorder.send(line);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.tell(Told { note: None, error: Some(CANCELLED) });
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
