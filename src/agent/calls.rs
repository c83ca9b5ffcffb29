//! The calls of one reply: who serves each, whether it may be made, and what comes of it.
//!
//! A call that changes nothing ends when nobody waits for it any more. Any other is finished once it is begun, and recorded: what it did,
//! it did.

use std::{pin::pin, sync::Arc, time::Duration};

use async_stream::stream;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Inner,
    approval::{self, Asked, Decision, State, Verdict},
    limits::{Gate, gate},
};
use crate::{
    chat::{CallRecord, call::NO_SERVER},
    tools::{Chosen, Entry, Outcome, Proposal, Toolbox, catalog::Listed, config::Policy, execute, selector::Rule},
    trace,
};

/// Makes calls for one run. Cloning it shares everything.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) agent: Arc<Inner>,
    pub(super) toolbox: Arc<Toolbox>,
    pub(super) run: Arc<trace::Run>,
}

/// One call to be dealt with.
pub(super) enum Work {
    /// It is not made, for this reason.
    Refused(Outcome),
    /// The model wants it.
    Proposed(Box<Proposal>),
    /// The client was asked about it. The proposal lacks its server.
    Decided(Box<Proposal>, Box<Decision>),
}

/// What a reply's calls come to, as it comes.
pub(super) enum Step {
    /// How far one is, for a person to read.
    Progress(String),
    /// The next one, in the order of the calls, is dealt with.
    Answered(Box<Answered>),
}

/// A call that was dealt with.
pub(super) struct Answered {
    /// The tool, as the model calls it.
    pub(super) name: String,
    /// What is told of it.
    pub(super) record: CallRecord,
    /// What it came to.
    pub(super) fate: Fate,
}

/// What a call came to.
pub(super) enum Fate {
    /// The model reads this: the content of its tool message, as JSON.
    Result(String),
    /// The client is asked.
    Asked(Box<Asked>),
}

/// What is recorded of a call about which the client is asked.
const IS_ASKED: &str = "the client is asked for its approval";
/// What is recorded of a call that nobody waits for any more.
const CANCELLED: &str = "cancelled: nobody waits for it any more";
/// What the model is told of a call that the end of the run cut off.
const OUT_OF_TIME: &str = "No result: the time for calls was over before it came.";
/// What ends a call at the deadline itself gets so long to say so; it knows better what became of it.
const LAST_GRACE: Duration = Duration::from_millis(250);

impl Caller {
    /// Deals with `calls`, several at once. What is heard of their progress is passed on as it comes.
    pub(super) fn deal_with(&self, calls: Vec<Work>, mut progress: mpsc::Receiver<String>) -> impl Stream<Item = Step> + Send + use<> {
        let parallel = self.agent.config.parallel_max;
        let own = self.clone();
        let answer = move |work| {
            let own = own.clone();
            async move { own.answer(work).await }
        };
        let answers = stream::iter(calls).map(answer).buffered(parallel);
        stream! {
            let mut answers = pin!(answers);
            loop {
                tokio::select! {
                    Some(text) = progress.recv() => yield Step::Progress(text),
                    answered = answers.next() => match answered {
                        Some(answered) => yield Step::Answered(Box::new(answered)),
                        None => break,
                    },
                }
            }
        }
    }

    async fn answer(&self, work: Work) -> Answered {
        match work {
            Work::Refused(outcome) => Answered::new(outcome.record.tool.clone(), self.recorded(outcome)),
            Work::Proposed(proposal) => self.answer_proposed(*proposal).await,
            Work::Decided(proposal, decision) => self.answer_decided(*proposal, *decision).await,
        }
    }

    async fn answer_proposed(&self, proposal: Proposal) -> Answered {
        let (is_rehearsal, name) = (proposal.dry_run, proposal.entry.name.clone());
        let chosen = match self.choose(proposal).await {
            Ok(chosen) => chosen,
            Err(outcome) => return Answered::new(name, self.recorded(outcome)),
        };
        match gate(chosen.policy, is_rehearsal) {
            Gate::Open => Answered::new(name, self.carry_out(chosen).await),
            Gate::Ask => {
                let record = CallRecord { error: Some(IS_ASKED.to_owned()), ..begun(&chosen) };
                self.agent.trace.call(&self.run, &record);
                Answered { name, record, fate: Fate::Asked(Box::new(Asked::of(&chosen))) }
            }
            Gate::Closed => Answered::new(name, self.recorded(closed(&chosen))),
        }
    }

    /// Who serves the call, unless the run is over before that is known.
    async fn choose(&self, proposal: Proposal) -> Result<Chosen, Outcome> {
        let by = Instant::from_std(proposal.deadline);
        let late = without_server(&proposal);
        match tokio::time::timeout_at(by, self.toolbox.choose(proposal)).await {
            Ok(chosen) => chosen,
            Err(_) => Err(execute::refused(&late, OUT_OF_TIME.to_owned())),
        }
    }

    /// Makes the call, and records it.
    async fn carry_out(&self, chosen: Chosen) -> Outcome {
        let by = Instant::from_std(chosen.proposal.deadline) + LAST_GRACE;
        let begun = begun(&chosen);
        if chosen.proposal.dry_run || chosen.selection.definition.annotations.read_only {
            let mut unfinished = Unfinished { caller: self, record: Some(begun.clone()) };
            let outcome = tokio::time::timeout_at(by, self.toolbox.run(chosen)).await;
            let outcome = outcome.unwrap_or_else(|_| cut_off(&begun));
            unfinished.record = None;
            self.agent.trace.call(&self.run, &outcome.record);
            return outcome;
        }
        let own = self.clone();
        let finished = self.toolbox.tasks().spawn(async move {
            let outcome = own.toolbox.run(chosen).await;
            own.agent.trace.call(&own.run, &outcome.record);
            outcome
        });
        match tokio::time::timeout_at(by, finished).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => execute::refused(&begun, format!("The call failed: {error}.")),
            // Its end is recorded when it comes.
            Err(_) => cut_off(&begun),
        }
    }

    async fn answer_decided(&self, proposal: Proposal, decision: Decision) -> Answered {
        let (dry_run, name) = (proposal.dry_run, decision.asked.name.clone());
        match approval::verdict(&decision.words) {
            Verdict::Refuse(why) => {
                let refused = execute::refused(&about(&proposal, &decision), why);
                let is_first = dry_run || approval::take(&self.agent.store, &decision.id).await;
                if is_first {
                    self.remember(&decision.id, &refused.content, dry_run).await;
                }
                Answered::new(name, if is_first { self.recorded(refused) } else { refused })
            }
            Verdict::Approve if dry_run => Answered::new(name, self.make_approved(proposal, &decision).await),
            Verdict::Approve => {
                let (own, about) = (self.clone(), about(&proposal, &decision));
                // The approval is spent, whoever leaves: what came of it must be known afterwards.
                let finished = self.toolbox.tasks().spawn(async move { own.finish_approved(proposal, decision).await });
                finished.await.unwrap_or_else(|error| Answered::new(name, execute::refused(&about, format!("The call failed: {error}."))))
            }
        }
    }

    /// The same for an approved call that goes on when nobody listens: a call whose progress nobody hears is not begun.
    async fn finish_approved(&self, mut proposal: Proposal, decision: Decision) -> Answered {
        let (progress, mut heard) = mpsc::channel(1);
        let client = std::mem::replace(&mut proposal.progress, progress);
        let mut answering = pin!(self.answer_approved(proposal, decision));
        loop {
            tokio::select! {
                answered = &mut answering => return answered,
                // What the client has no room for, it does not need.
                Some(text) = heard.recv() => drop(client.try_send(text)),
            }
        }
    }

    /// Spends the approval, or tells what came of it where it was spent.
    async fn answer_approved(&self, proposal: Proposal, decision: Decision) -> Answered {
        let (store, ttl) = (&self.agent.store, self.agent.config.session_ttl);
        if !approval::take(store, &decision.id).await {
            let content = approval::elsewhere(store, &decision.id, Instant::from_std(proposal.deadline)).await;
            let record = CallRecord { error: Some("the approval was spent before".to_owned()), ..about(&proposal, &decision) };
            return Answered { name: decision.asked.name, record, fate: Fate::Result(content) };
        }
        approval::note(store, &decision.id, &State::Running, ttl).await;
        let outcome = self.make_approved(proposal, &decision).await;
        self.remember(&decision.id, &outcome.content, false).await;
        Answered::new(decision.asked.name, outcome)
    }

    async fn remember(&self, id: &str, content: &str, dry_run: bool) {
        if !dry_run {
            approval::note(&self.agent.store, id, &State::Over(content.to_owned()), self.agent.config.session_ttl).await;
        }
    }

    /// Makes the call that was approved, if its tool is what it was then and may be called still.
    async fn make_approved(&self, mut proposal: Proposal, decision: &Decision) -> Outcome {
        let Asked { server, tool, definition: hash, .. } = &decision.asked;
        let refuse = |why: &str| self.recorded(execute::refused(&about(&proposal, decision), why.to_owned()));
        let catalog = self.toolbox.catalog().await;
        let is_it = |listed: &&Listed| *listed.definition.server == **server && listed.definition.name == *tool;
        let Some(listed) = catalog.tools().iter().find(is_it) else { return refuse("Not called: the tool is not there any more.") };
        let definition = &listed.definition;
        if definition.hash() != *hash || listed.withheld {
            return refuse("Not called: the tool is not what it was when the user was asked.");
        }
        if listed.policy == Policy::Deny {
            return refuse("Not called: the tool may not be called.");
        }
        proposal.entry.description.clone_from(&definition.description);
        proposal.entry.schema = definition.schema.clone();
        proposal.entry.candidates = vec![Arc::clone(definition)];
        match self.choose(proposal).await {
            Ok(chosen) => self.carry_out(chosen).await,
            Err(outcome) => self.recorded(outcome),
        }
    }

    /// A call that was not made, recorded.
    fn recorded(&self, outcome: Outcome) -> Outcome {
        self.agent.trace.call(&self.run, &outcome.record);
        outcome
    }
}

impl Answered {
    fn new(name: String, outcome: Outcome) -> Self {
        Self { name, record: *outcome.record, fate: Fate::Result(outcome.content) }
    }
}

/// A call that is dropped before its end is recorded too.
struct Unfinished<'a> {
    caller: &'a Caller,
    record: Option<CallRecord>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            let record = CallRecord { error: Some(CANCELLED.to_owned()), executed: true, ..record };
            self.caller.agent.trace.call(&self.caller.run, &record);
        }
    }
}

/// An entry for a tool whose server is found later.
pub(super) fn entry_of(asked: &Asked) -> Entry {
    Entry { name: asked.name.clone(), description: String::new(), schema: bytes::Bytes::new(), candidates: Vec::new() }
}

fn cut_off(begun: &CallRecord) -> Outcome {
    execute::refused(&CallRecord { executed: true, ..begun.clone() }, OUT_OF_TIME.to_owned())
}

fn closed(chosen: &Chosen) -> Outcome {
    execute::refused(&begun(chosen), format!("{} may not be called here.", chosen.proposal.entry.name))
}

/// What is known of a call that is about to be made.
fn begun(chosen: &Chosen) -> CallRecord {
    let (definition, selection) = (&chosen.selection.definition, &chosen.selection);
    CallRecord {
        server: definition.server.to_string(),
        tool: definition.name.clone(),
        selection_rule: selection.rule.as_str(),
        alternatives: selection.alternatives.clone(),
        ..without_server(&chosen.proposal)
    }
}

/// What is known of a call that the client decided about.
fn about(proposal: &Proposal, decision: &Decision) -> CallRecord {
    let Asked { server, tool, .. } = &decision.asked;
    let selection_rule = Rule::SingleCandidate.as_str();
    CallRecord { server: server.clone(), tool: tool.clone(), selection_rule, ..without_server(proposal) }
}

/// What is known of a call before it is known who serves it.
fn without_server(proposal: &Proposal) -> CallRecord {
    let arguments = Value::Object(proposal.arguments.clone());
    CallRecord {
        step: proposal.step,
        server: NO_SERVER.to_owned(),
        tool: proposal.entry.name.clone(),
        arguments_hash: execute::arguments_hash(&arguments),
        arguments: Some(arguments),
        dry_run: proposal.dry_run,
        selection_rule: Rule::NoCandidate.as_str(),
        ..CallRecord::default()
    }
}

/// `text` as the content of a tool message.
pub(super) fn content(text: &str) -> String {
    json!(text).to_string()
}
