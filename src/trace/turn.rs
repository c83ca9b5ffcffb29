//! A run, and one turn of it: the attempts of a model as they are made.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Recorder,
    line::{self, Told},
};
use crate::{
    chat::{
        CallRecord, Request, Usage,
        call::{NO_SERVER, Rejected},
        canonical::arguments_hash,
        cost::Cost,
        report::{Attempt, Fault},
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
    /// The name of the API key that asked; empty where none was needed.
    pub key: String,
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
    /// The run of `request` in the conversation `session_id`, asked for with `key`.
    pub fn new(request: &Request, session_id: &str, key: &str) -> Self {
        let short = |text: &str| line::head(text, NAME_BYTES_MAX).to_owned();
        Self {
            request_id: short(&request.id),
            session_id: short(session_id),
            key: key.to_owned(),
            model: short(&request.model),
            dry_run: request.dry_run,
            credential: request.credential.clone(),
            clients_tools: None,
        }
    }
}

/// Takes the attempts at one turn: a model is asked, and asked again. Dropped while one is awaited, it tells that it was cancelled.
/// One that takes nothing costs nothing: it has no recorder, since making one makes all its counts.
#[derive(Debug, Default)]
pub struct Turn {
    to: Option<(Recorder, Arc<Run>)>,
    number: usize,
    attempt: u32,
    asked: Option<Instant>,
    is_made: bool,
    cost: Cost,
}

/// What is said of an attempt that was given up because nobody waits for it any more.
const CANCELLED: &str = "cancelled";
/// What is said of arguments that were wrong where arguments are not to be told.
const WRONG_ARGUMENTS: &str = "the arguments do not fit the tool's schema";
/// The selection rule of a tool that nobody has.
const NO_CANDIDATE: &str = "no-candidate";

impl Turn {
    pub(super) fn new(recorder: &Recorder, run: &Arc<Run>, number: usize) -> Self {
        Self { to: Some((recorder.clone(), Arc::clone(run))), number, attempt: 0, asked: None, is_made: false, cost: Cost::default() }
    }

    /// The model is asked. What that comes to, in microcents, can be read from `cost` once the attempt has ended.
    pub fn ask(&mut self, cost: Cost) {
        self.attempt += 1;
        self.cost = cost;
        self.is_made = true;
        self.asked = Some(Instant::now());
    }

    /// It is certain that the model did not begin to answer: nobody counts the attempt.
    pub fn undo(&mut self) {
        self.is_made = false;
    }

    /// How long the model has been asked for.
    pub fn elapsed(&self) -> Duration {
        self.asked.map(|asked| asked.elapsed()).unwrap_or_default()
    }

    /// The attempt has ended: with a reply of which `note` tells, or with `error`. With `asks_again`, the model is told what was wrong.
    pub fn end(&mut self, note: Option<&Attempt>, error: Option<&str>, asks_again: bool) {
        for call in note.map(|note| note.rejected.as_slice()).unwrap_or_default() {
            self.reject(call, asks_again);
        }
        // What is wrong with arguments is told with the values that are.
        let quotes = note.is_some_and(|note| note.fault == Some(Fault::Arguments)) && !self.is_verbose();
        self.tell(Told { note, error: error.or(quotes.then_some(WRONG_ARGUMENTS)), ..Told::default() });
    }

    /// The attempt, which went past all guardrails, has ended: the backend told `usage`, if it told any, and `error` went wrong.
    pub fn end_passed(&mut self, usage: Usage, error: Option<&str>) {
        self.tell(Told { usage, error, ..Told::default() });
    }

    fn is_verbose(&self) -> bool {
        self.to.as_ref().is_some_and(|(recorder, _)| recorder.is_verbose())
    }

    /// Takes a call that was wrong and not run. With `is_told`, the model was told so.
    fn reject(&self, call: &Rejected, is_told: bool) {
        let Some((recorder, run)) = &self.to else { return };
        if run.clients_tools.as_ref().is_none_or(|clients| clients.contains(&call.tool)) {
            return;
        }
        // What is no JSON is told as text.
        let (hash, arguments) = match serde_json::from_str(&call.arguments) {
            Ok(arguments) => (arguments_hash(&arguments), arguments),
            Err(_) => (String::new(), call.arguments.as_str().into()),
        };
        let record = CallRecord {
            server: NO_SERVER.to_owned(),
            tool: call.tool.clone(),
            arguments_hash: hash,
            arguments: Some(arguments),
            dry_run: run.dry_run,
            selection_rule: if call.is_unknown { NO_CANDIDATE } else { "" },
            error: Some(if call.is_unknown || recorder.is_verbose() { call.error.clone() } else { WRONG_ARGUMENTS.to_owned() }),
            corrective_retry: is_told,
            ..CallRecord::default()
        };
        recorder.call(run, &record);
    }

    fn tell(&mut self, told: Told<'_>) {
        let latency = self.elapsed();
        if self.asked.take().is_some()
            && let Some((recorder, run)) = self.to.as_ref().filter(|(recorder, _)| recorder.is_on())
        {
            recorder.send(line::attempt(
                run,
                (self.number, self.attempt),
                ms(latency),
                Told { is_made: self.is_made, cost: self.cost.get(), ..told },
            ));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.tell(Told { error: Some(CANCELLED), ..Told::default() });
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
