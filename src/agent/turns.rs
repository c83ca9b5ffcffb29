//! A run of several turns: ask the model, run the tools that it calls, tell it what came of them, and ask again.

use std::{sync::Arc, time::Instant};

use async_stream::try_stream;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{
    Inner,
    session::{self, Session},
    transcript::{self, Transcript},
    turn::{Shown, Turn},
};
use crate::{
    chat::{Call, CallRecord, Event, Report, Request, ToolChoice, Usage, report::HaltReason},
    inference::{Error, Guardrails},
    tools::{Offer, Outcome, Proposal, Toolbox, execute},
    trace,
};

/// What is carried from one turn to the next.
pub(super) struct Turns {
    agent: Arc<Inner>,
    toolbox: Arc<Toolbox>,
    request: Request,
    guardrails: Guardrails,
    offer: Arc<Offer>,
    session: Session,
    session_key: String,
    transcript: Transcript,
    message: Arc<str>,
    report: Report,
    usage: Usage,
    turns: usize,
    calls: usize,
    deadline: Instant,
    /// Tools whose schema the model was told in full.
    corrected: Vec<String>,
    /// What the client has seen.
    shown: Shown,
    run: Arc<trace::Run>,
}

/// How many pieces of progress may wait for the client; more are left out.
const PROGRESS_WAITING_MAX: usize = 32;

/// What the model is told when a limit is reached.
const LAST_WORDS: &str = "No more tools can be called now. Answer with what you know, and say what is missing.";

impl Turns {
    pub(super) fn new(agent: Arc<Inner>, toolbox: Arc<Toolbox>, job: super::Job, guardrails: Guardrails) -> Self {
        let super::Job { request, offer, session, session_key } = job;
        let clients_tools = request.tools.iter().map(|tool| tool.name.clone()).filter(|name| offer.find(name).is_none()).collect();
        let run = trace::Run { clients_tools: Some(clients_tools), ..trace::Run::new(&request, &session_key) };
        Self {
            deadline: Instant::now() + agent.config.wall_clock,
            transcript: Transcript::of(&request),
            message: transcript::last_words(&request.messages).into(),
            report: Report { is_plan: request.dry_run, ..Report::default() },
            agent,
            toolbox,
            request,
            guardrails,
            offer: Arc::new(offer),
            session,
            session_key,
            usage: Usage::default(),
            turns: 0,
            calls: 0,
            corrected: Vec::new(),
            shown: Shown::default(),
            run: Arc::new(run),
        }
    }

    /// The events of the run's answer.
    pub(super) fn events(mut self) -> impl Stream<Item = Result<Event, Error>> + Send {
        try_stream! {
            loop {
                let mut events = std::pin::pin!(self.ask());
                let offer = Arc::clone(&self.offer);
                let mut turn = Turn::new(&offer, self.shown);
                while let Some(event) = events.next().await {
                    if let Some(shown) = turn.take(event?) {
                        yield shown;
                    }
                }
                self.close(&mut turn);
                if !turn.has_own_calls() {
                    self.session.save(&self.agent.store, &self.session_key, self.agent.config.session_ttl).await;
                    yield Event::Settled(self.report.clone());
                    for shown in turn.end(self.usage) {
                        yield shown;
                    }
                    break;
                }
                for shown in turn.go_on() {
                    yield shown;
                }
                let (progress, mut heard) = mpsc::channel(PROGRESS_WAITING_MAX);
                let mut running = std::pin::pin!(self.execute(&turn, progress));
                let mut outcomes = Vec::new();
                loop {
                    tokio::select! {
                        Some(text) = heard.recv() => yield Event::Progress(text),
                        outcome = running.next() => match outcome {
                            Some(outcome) => {
                                yield Event::Called(outcome.record.clone());
                                outcomes.push(outcome);
                            }
                            None => break,
                        },
                    }
                }
                self.append(&turn, outcomes);
            }
        }
    }

    /// Asks the model. At a limit it is offered no tools.
    fn ask(&mut self) -> impl Stream<Item = Result<Event, Error>> + Send + use<> {
        let mut request = self.request.clone();
        if let Some(reason) = self.limit() {
            self.report.halt_reason = Some(reason);
            self.transcript.push_user(LAST_WORDS);
            choose(&mut request, ToolChoice::None, Bytes::from_static(b"\"none\""));
        } else if self.turns > 0 && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_)) {
            // What was required was done: required again, it would be done for ever.
            choose(&mut request, ToolChoice::Auto, Bytes::from_static(b"\"auto\""));
        }
        if self.turns > 0 {
            request = request.with_messages(self.transcript.json());
        }
        self.turns += 1;
        self.agent.engine.complete(Arc::new(request), self.guardrails, self.agent.trace.turn(&self.run, self.turns))
    }

    /// The limit that the run has reached, if any.
    fn limit(&self) -> Option<HaltReason> {
        let config = &self.agent.config;
        if self.turns >= config.turns_max {
            Some(HaltReason::Turns)
        } else if self.calls >= config.calls_max {
            Some(HaltReason::Calls)
        } else if Instant::now() >= self.deadline {
            Some(HaltReason::Deadline)
        } else if config.tokens_max > 0 && self.usage.total_tokens() >= config.tokens_max {
            Some(HaltReason::Tokens)
        } else {
            None
        }
    }

    /// Takes over what a turn did.
    fn close(&mut self, turn: &mut Turn<'_>) {
        self.shown = turn.shown_so_far();
        self.usage += turn.usage;
        if let Some(report) = turn.report.take() {
            self.agent.trace.attempts(&self.run, &report);
            self.report.add(report);
        }
    }

    /// Runs the turn's own calls, several at once. Their outcomes come in the order of the calls.
    fn execute(&mut self, turn: &Turn<'_>, progress: mpsc::Sender<String>) -> impl Stream<Item = Outcome> + Send + use<> {
        let mut calls = Vec::new();
        for call in turn.calls.iter().filter(|call| turn.is_own(call)) {
            self.calls += 1;
            calls.push(self.propose(call, &progress));
        }
        let toolbox = Arc::clone(&self.toolbox);
        let run = move |proposal: Result<Proposal, Outcome>| {
            let toolbox = Arc::clone(&toolbox);
            async move {
                match proposal {
                    Ok(proposal) => match toolbox.choose(proposal).await {
                        Ok(chosen) => toolbox.run(chosen).await,
                        Err(outcome) => outcome,
                    },
                    Err(outcome) => outcome,
                }
            }
        };
        stream::iter(calls).map(run).buffered(self.agent.config.parallel_max)
    }

    /// The call as a proposal, or what the model is told where it is none.
    fn propose(&self, call: &Call, progress: &mpsc::Sender<String>) -> Result<Proposal, Outcome> {
        let record = || CallRecord { step: self.calls, tool: call.name.clone(), server: "-".to_owned(), ..CallRecord::default() };
        if self.calls > self.agent.config.calls_max {
            return Err(execute::refused(&record(), "No more tools can be called in this run.".to_owned()));
        }
        let entry = self.offer.find(&call.name).cloned();
        let entry = entry.ok_or_else(|| execute::refused(&record(), format!("There is no tool {}.", call.name)))?;
        let arguments: Map<String, Value> = serde_json::from_str(&call.arguments)
            .map_err(|error| execute::refused(&record(), format!("The arguments are no JSON object: {error}.")))?;
        Ok(Proposal {
            step: self.calls,
            was_corrected: self.corrected.contains(&entry.name),
            entry,
            arguments,
            message: Arc::clone(&self.message),
            recent: self.session.servers.clone(),
            dry_run: self.request.dry_run,
            deadline: self.deadline,
            progress: progress.clone(),
        })
    }

    /// Adds the turn and what came of its calls to the transcript, the session and the report.
    fn append(&mut self, turn: &Turn<'_>, outcomes: Vec<Outcome>) {
        let own: Vec<Call> = turn.calls.iter().filter(|call| turn.is_own(call)).cloned().collect();
        self.transcript.push_assistant(&turn.content, &own);
        for (call, outcome) in own.iter().zip(outcomes) {
            self.transcript.push_result(&call.id, &outcome.content);
            self.agent.trace.call(&self.run, &outcome.record);
            if outcome.record.success && !outcome.record.dry_run {
                self.session.served_by(&outcome.record.server);
            }
            if outcome.record.corrective_retry {
                self.corrected.push(call.name.clone());
            }
            self.report.calls.push(*outcome.record);
        }
    }
}

/// Puts `choice` in the place of what the client asked.
fn choose(request: &mut Request, choice: ToolChoice, json: Bytes) {
    request.tool_choice = choice;
    request.set_field("tool_choice", json);
}

/// How the conversation of `request` is known, and what is known of it.
pub(super) async fn session(agent: &Inner, request: &Request) -> (String, Session) {
    let key = session::key(request);
    let session = Session::load(&agent.store, &key).await;
    (key, session)
}
