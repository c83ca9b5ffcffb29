//! A run of several turns: ask the model, run the tools that it calls, tell it what came of them, and ask again.

use std::{collections::HashSet, pin::pin, sync::Arc};

use async_stream::try_stream;
use futures_core::Stream;
use futures_util::StreamExt;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{
    Job, Parts,
    approval::{self, Decision},
    calls::{Answered, Caller, Fate, Step, Work, content, entry_of},
    choice::{choose, relax},
    continuation::{Answer, Record},
    error::Error,
    limits::{LAST_WORDS, Limits},
    restore::Restored,
    session::Session,
    transcript::{self, Transcript},
    turn::{Owner, Owners, Shown, Terms, Turn},
};
use crate::{
    budget::Account,
    chat::{Call, CallRecord, Event, Report, Request, ToolChoice, Usage, call::NO_SERVER, cost::Cost, report::Guardrail},
    inference::{self, Guardrails, Watch},
    tools::{Entry, Offer, Proposal, Toolbox, execute, selector::Rule},
    trace,
};

/// What is carried from one turn to the next.
pub(super) struct Turns {
    caller: Caller,
    account: Arc<Account>,
    request: Arc<Request>,
    guardrails: Guardrails,
    offer: Arc<Offer>,
    session: Session,
    session_key: String,
    /// The request's history where it waits for what the client decided.
    restored: Option<Restored>,
    /// Made when there is something to hide.
    transcript: Option<Transcript>,
    /// What the user said last, once it is asked for.
    message: Option<Arc<str>>,
    report: Report,
    usage: Usage,
    limits: Limits,
    /// Tools whose schema the model was told in full.
    corrected: Vec<String>,
    /// What the client has seen.
    shown: Shown,
    /// What the calls that are being dealt with came to so far.
    answers: Vec<Fate>,
}

/// How many pieces of progress may wait for the client; more are left out.
const PROGRESS_WAITING_MAX: usize = 32;

/// What is said in the report where the store has lost something.
const IS_LOST: &str = "What toolgate did behind an earlier call of this conversation is lost: the run goes on with what is visible.";
/// What is said in the report where what stands behind the answer cannot be kept.
const IS_TOO_LONG: &str = "What toolgate did behind this answer is too long to be kept: calls that need an approval are left out of it, and \
                           the next request goes on with what is visible.";

impl Turns {
    pub(super) fn new(agent: Arc<Parts>, toolbox: Arc<Toolbox>, job: Job, guardrails: Guardrails) -> Self {
        let Job { request, account, shelf, meter, offer, session, session_key, restored, is_lost, absent, .. } = job;
        let clients_tools = request.tools.iter().map(|tool| tool.name.clone()).filter(|name| offer.find(name).is_none()).collect();
        let run = trace::Run { clients_tools: Some(clients_tools), ..trace::Run::new(&request, &session_key, &account.key) };
        let notes = is_lost.then(|| IS_LOST.to_owned()).into_iter().chain(absent).collect();
        Self {
            limits: Limits::new(agent.config, meter.deadline()),
            report: Report { is_plan: request.dry_run, notes, ..Report::default() },
            caller: Caller { agent, toolbox, run: Arc::new(run), shelf, meter },
            account,
            request: Arc::new(request),
            guardrails,
            offer: Arc::new(offer),
            session,
            session_key,
            restored,
            transcript: None,
            message: None,
            usage: Usage::default(),
            corrected: Vec::new(),
            shown: Shown::default(),
            answers: Vec::new(),
        }
    }

    /// The events of the run's answer.
    pub(super) fn events(mut self) -> impl Stream<Item = Result<Event, Error>> + Send {
        try_stream! {
            let mut steps = pin!(self.decided());
            while let Some(step) = steps.next().await {
                yield self.hear(step);
            }
            self.save().await;
            self.tell_decided();
            loop {
                let mut events = pin!(self.ask());
                let mut turn = self.begin();
                while let Some(event) = events.next().await {
                    let Some(event) = self.heard(&mut turn, event)? else { break };
                    for shown in turn.take(event) {
                        yield shown;
                    }
                }
                self.close(&mut turn);
                if turn.has_own_calls() && !self.report.is_spent() {
                    for shown in turn.go_on() {
                        yield shown;
                    }
                    self.shown = turn.shown.clone();
                    let mut steps = pin!(self.execute(&turn));
                    while let Some(step) = steps.next().await {
                        yield self.hear(step);
                    }
                    self.save().await;
                    if !turn.has_clients_calls() && !self.asks() {
                        self.append(&turn);
                        continue;
                    }
                }
                for shown in self.end(turn).await {
                    yield shown;
                }
                break;
            }
        }
    }

    /// Deals with what the client decided since the model called.
    fn decided(&mut self) -> impl Stream<Item = Step> + Send + use<> {
        let decisions: Vec<Decision> = self.restored.iter().flat_map(|restored| restored.decisions().cloned()).collect();
        let (progress, heard) = mpsc::channel(PROGRESS_WAITING_MAX);
        let work = |decision: Decision| {
            let step = self.limits.next_step();
            let proposal = self.proposal((step, &decision.id), entry_of(&decision.asked), decision.asked.arguments.clone(), &progress);
            Work::Decided(Box::new(proposal), Box::new(decision))
        };
        let calls = decisions.into_iter().map(work).collect();
        self.caller.deal_with(calls, heard)
    }

    /// Puts what came of the decisions into the history.
    fn tell_decided(&mut self) {
        let results = std::mem::take(&mut self.answers).into_iter().map(Fate::into_content);
        if let Some(restored) = self.restored.take() {
            Arc::make_mut(&mut self.request).set_messages(restored.messages(results));
        }
    }

    /// Asks the model. At a limit it is offered no tools.
    fn ask(&mut self) -> impl Stream<Item = Result<Event, inference::Error>> + Send + use<> {
        if let Some(reason) = self.limits.reached() {
            self.report.halt_reason = Some(reason);
            self.transcript().push(&transcript::user(LAST_WORDS));
            choose(Arc::make_mut(&mut self.request), ToolChoice::None, "\"none\"");
        } else if self.limits.turns() > 0 {
            relax(Arc::make_mut(&mut self.request));
        }
        if let Some(transcript) = &self.transcript {
            Arc::make_mut(&mut self.request).set_messages(transcript.json());
        }
        self.limits.begin_turn();
        let agent = &self.caller.agent;
        let turn = agent.trace.turn(&self.caller.run, self.limits.turns());
        agent.engine.complete(Arc::clone(&self.request), self.guardrails, Watch { meter: self.caller.meter.clone(), turn })
    }

    fn transcript(&mut self) -> &mut Transcript {
        self.transcript.get_or_insert_with(|| Transcript::of(&self.request))
    }

    fn begin(&mut self) -> Turn {
        let owners = Owners { offer: Arc::clone(&self.offer), request: Arc::clone(&self.request) };
        let keeps_reasoning = self.caller.agent.engine.replays_reasoning();
        // A rehearsal keeps nothing.
        Turn::new(owners, std::mem::take(&mut self.shown), Terms { keeps_reasoning, marks: !self.request.dry_run })
    }

    /// Takes over what a turn did.
    fn close(&mut self, turn: &mut Turn) {
        self.usage += turn.usage;
        self.limits.spend(turn.usage);
        if let Some(mut report) = turn.report.take() {
            // The client's messages are mended anew in every turn.
            report.history.retain(|change| !self.report.history.contains(change));
            self.report.add(report);
        }
    }

    /// What the engine says, `None` where the turn ends with it. A call that comes as it is said cannot be corrected once it has begun; one
    /// of ours nobody has seen, and what is wrong with it the model is told as its result.
    fn heard(&self, turn: &mut Turn, event: Result<Event, inference::Error>) -> Result<Option<Event>, Error> {
        match event {
            Ok(event) => Ok(Some(event)),
            Err(inference::Error::RetriesExhausted { report, .. }) if turn.has_own_calls() && !turn.has_clients_calls() => {
                // What the last attempt cost is told nowhere else.
                turn.usage = Usage::default();
                report.attempts.iter().for_each(|attempt| turn.usage += attempt.usage);
                turn.report = Some(Report { guardrail: Guardrail::Nudged, ..*report });
                Ok(None)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// What the run fails with.
    fn failed(&self, error: inference::Error) -> Error {
        Error::new(error, self.limits.turns(), &self.report)
    }

    /// Deals with the turn's own calls.
    fn execute(&mut self, turn: &Turn) -> impl Stream<Item = Step> + Send + use<> {
        let (progress, heard) = mpsc::channel(PROGRESS_WAITING_MAX);
        let own = turn.calls.iter().filter(|(_, owner)| *owner == Owner::Own);
        let mut calls: Vec<Work> = own.map(|(call, _)| self.work(call, &progress)).collect();
        let mut met = HashSet::new();
        for work in &mut calls {
            // Of several calls of one tool the first is told its schema.
            if let Work::Proposed(proposal) = work {
                proposal.was_corrected |= !met.insert(proposal.entry.name.clone());
            }
        }
        self.caller.deal_with(calls, heard)
    }

    /// The call as a proposal, or what the model is told where it is none.
    fn work(&mut self, call: &Call, progress: &mpsc::Sender<String>) -> Work {
        let step = self.limits.next_step();
        let arguments = arguments(&call.arguments);
        let told = arguments.as_ref().map_or_else(|_| call.arguments.as_str().into(), |map| Value::Object(map.clone()));
        let hash = execute::arguments_hash(&told);
        let admitted = self.limits.admit(&call.name, &hash);
        let entry = self.offer.find(&call.name).cloned();
        let why = match (admitted, entry, arguments) {
            (Ok(()), Some(entry), Ok(arguments)) => {
                return Work::Proposed(Box::new(self.proposal((step, &call.id), entry, arguments, progress)));
            }
            (Err(why), _, _) => why,
            (_, None, _) => format!("There is no tool `{}`: call one of those that are offered.", call.name),
            (_, _, Err(error)) => format!("Not called: the arguments are no JSON object: {error}."),
        };
        let record = CallRecord {
            step,
            tool: call.name.clone(),
            server: NO_SERVER.to_owned(),
            arguments_hash: hash,
            arguments: Some(told),
            selection_rule: Rule::NoCandidate.as_str(),
            dry_run: self.request.dry_run,
            ..CallRecord::default()
        };
        Work::Refused(execute::refused(&record, why))
    }

    fn proposal(
        &mut self,
        (step, call_id): (usize, &str),
        entry: Entry,
        arguments: Map<String, Value>,
        progress: &mpsc::Sender<String>,
    ) -> Proposal {
        let message = self.message.get_or_insert_with(|| transcript::last_words(&self.request.messages).into());
        Proposal {
            step,
            account: Arc::clone(&self.account),
            call_id: call_id.to_owned(),
            meter: self.caller.meter.clone(),
            cost: Cost::counted(),
            was_corrected: self.corrected.contains(&entry.name),
            entry,
            arguments,
            message: Arc::clone(message),
            recent: self.session.servers.clone(),
            dry_run: self.request.dry_run,
            deadline: self.limits.deadline,
            progress: progress.clone(),
        }
    }

    /// Takes over what became of a call. Returns what is told of it.
    fn hear(&mut self, step: Step) -> Event {
        let Answered { name, mut record, fate } = match step {
            Step::Progress(text) => return Event::Progress(text),
            Step::Answered(answered) => *answered,
        };
        if record.success && !record.dry_run {
            self.session.served_by(&record.server);
        }
        if record.corrective_retry {
            self.corrected.push(name);
        }
        // Arguments are the user's affair: only a plan is about them.
        record.arguments = record.arguments.filter(|_| record.dry_run);
        self.answers.push(fate);
        self.report.calls.push(record.clone());
        Event::Called(Box::new(record))
    }

    /// Whether the client is asked about a call.
    fn asks(&self) -> bool {
        self.answers.iter().any(|fate| matches!(fate, Fate::Asked(_)))
    }

    /// Adds the turn and what came of its calls to the transcript.
    fn append(&mut self, turn: &Turn) {
        let calls: Vec<Call> = turn.calls.iter().map(|(call, _)| call.clone()).collect();
        let results = std::mem::take(&mut self.answers);
        let transcript = self.transcript();
        transcript.push(&transcript::assistant(&turn.content, &turn.reasoning, &calls));
        for (call, fate) in calls.iter().zip(results) {
            transcript.push(&transcript::result(&call.id, &fate.into_content()));
        }
    }

    /// The end of the answer: what was kept of the last turn, and what the client does not see of it put away.
    async fn end(&mut self, mut turn: Turn) -> Vec<Event> {
        let agent = Arc::clone(&self.caller.agent);
        let answers = self.answers_of(&turn);
        let hides = turn.has_own_calls() || self.transcript.as_ref().is_some_and(Transcript::hides);
        let marks = hides && !self.request.dry_run;
        let mut asked = Vec::new();
        for (place, (_, answer)) in answers.iter().enumerate() {
            if let Answer::Asked(call) = answer {
                asked.push((place, call.shown(turn.mark(place, true), |name| self.is_clients(name))));
            }
        }
        let ids: Vec<String> = asked.iter().map(|(_, call)| call.id.clone()).collect();
        if marks && turn.has_clients_calls() {
            turn.begin_record();
        }
        if let Some(id) = turn.record() {
            if self.keep(&turn, id, answers).await {
                for id in ids {
                    approval::open(&self.caller.shelf, &id, agent.config.session_ttl).await;
                }
            } else {
                // What could not be made when it is approved is not asked about.
                asked.clear();
                self.report.notes.push(IS_TOO_LONG.to_owned());
            }
        }
        self.report.cost = self.caller.meter.cost();
        let events = turn.end(self.usage, asked, marks);
        self.save().await;
        let settled = Event::Settled(std::mem::take(&mut self.report));
        std::iter::once(settled).chain(events).collect()
    }

    /// Keeps what the client does not see of the last turn. Whether it could be.
    async fn keep(&self, turn: &Turn, id: &str, answers: Vec<(Call, Answer)>) -> bool {
        let agent = &self.caller.agent;
        let calls: Vec<Call> = turn.calls.iter().map(|(call, _)| call.clone()).collect();
        let assistant = transcript::assistant(&turn.content, &turn.reasoning, &calls);
        match Record::new(self.transcript.as_ref(), assistant, answers) {
            Some(record) => record.save(&self.caller.shelf, id, agent.config.session_ttl).await,
            None => false,
        }
    }

    /// Remembers the conversation as it is now: what fails later forgets nothing. A rehearsal leaves no trace.
    async fn save(&mut self) {
        let agent = &self.caller.agent;
        // Without tools there is nothing to remember, and no key for it.
        if !self.request.dry_run && !self.session_key.is_empty() {
            self.session.save(&self.caller.shelf, &self.session_key, agent.config.session_ttl).await;
        }
    }

    /// Whether the client has a tool of this `name`.
    fn is_clients(&self, name: &str) -> bool {
        self.offer.find(name).is_none() && self.request.tools.iter().any(|tool| tool.name == name)
    }

    /// Each call of the turn, and who answers it.
    fn answers_of(&mut self, turn: &Turn) -> Vec<(Call, Answer)> {
        let mut fates = std::mem::take(&mut self.answers).into_iter();
        let mut answer = |owner: &Owner| match owner {
            Owner::Client => Answer::Client,
            Owner::Own => match fates.next() {
                Some(Fate::Asked(asked)) => Answer::Asked(asked),
                Some(Fate::Result(content)) => Answer::Hidden(content),
                None => Answer::Hidden(content("Not called.")),
            },
        };
        turn.calls.iter().map(|(call, owner)| (call.clone(), answer(owner))).collect()
    }
}

/// What is called with `arguments`; nothing is an empty object.
fn arguments(arguments: &str) -> Result<Map<String, Value>, serde_json::Error> {
    if arguments.trim().is_empty() { Ok(Map::new()) } else { serde_json::from_str(arguments) }
}
