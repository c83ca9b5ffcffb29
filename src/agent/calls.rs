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
    Parts,
    approval::{self, Asked, Decision, NOT_APPROVED, State, Verdict},
    limits::asks,
    shelf::Shelf,
};
use crate::{
    budget::Meter,
    chat::{CallRecord, call::NO_SERVER, cost::Cost},
    tools::{Chosen, Entry, Outcome, Proposal, Toolbox, catalog::Listed, config::Policy, execute, selector::Rule},
    trace,
};

/// Makes calls for one run. Cloning it shares everything.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) agent: Arc<Parts>,
    pub(super) toolbox: Arc<Toolbox>,
    pub(super) run: Arc<trace::Run>,
    /// What is kept for whom the run is made.
    pub(super) shelf: Shelf,
    pub(super) meter: Meter,
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

impl Fate {
    /// What the model reads.
    pub(super) fn into_content(self) -> String {
        match self {
            Self::Result(content) => content,
            Self::Asked(asked) => content(&format!("{} waits for an approval.", asked.name)),
        }
    }
}

/// What is recorded of a call about which the client is asked.
const IS_ASKED: &str = "the client is asked for its approval";
/// What is told of a call whose approval another request spent, or refused.
const IS_SPENT: &str = "the approval was spent before";
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
        // One that nobody waits for any more before it is begun is recorded too.
        let calls: Vec<(Work, Unfinished)> = calls.into_iter().map(|work| self.begin(work)).collect();
        let own = self.clone();
        let answer = move |(work, unfinished)| {
            let own = own.clone();
            async move { own.answer(work, unfinished).await }
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

    fn begin(&self, work: Work) -> (Work, Unfinished) {
        let record = match &work {
            Work::Refused(outcome) => (*outcome.record).clone(),
            Work::Proposed(proposal) => without_server(proposal),
            Work::Decided(proposal, decision) => about(proposal, decision),
        };
        let cost = match &work {
            Work::Refused(_) => Cost::default(),
            Work::Proposed(proposal) | Work::Decided(proposal, _) => proposal.cost.clone(),
        };
        (work, Unfinished { caller: self.clone(), record: Some(record), cost })
    }

    async fn answer(&self, work: Work, unfinished: Unfinished) -> Answered {
        match work {
            Work::Refused(outcome) => Answered::new(outcome.record.tool.clone(), unfinished.ends_with(outcome)),
            Work::Proposed(proposal) => self.answer_proposed(*proposal, unfinished).await,
            Work::Decided(proposal, decision) => self.answer_decided(*proposal, *decision, unfinished).await,
        }
    }

    async fn answer_proposed(&self, proposal: Proposal, unfinished: Unfinished) -> Answered {
        let (is_rehearsal, name) = (proposal.dry_run, proposal.entry.name.clone());
        let chosen = match self.choose(proposal).await {
            Ok(chosen) => chosen,
            Err(outcome) => return Answered::new(name, unfinished.ends_with(outcome)),
        };
        if asks(chosen.policy, is_rehearsal) {
            let record = CallRecord { error: Some(IS_ASKED.to_owned()), ..begun(&chosen) };
            unfinished.ends_as(&record);
            return Answered { name, record, fate: Fate::Asked(Box::new(Asked::of(&chosen))) };
        }
        Answered::new(name, self.carry_out(chosen, unfinished).await)
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
    async fn carry_out(&self, chosen: Chosen, mut unfinished: Unfinished) -> Outcome {
        let by = Instant::from_std(chosen.proposal.deadline) + LAST_GRACE;
        let begun = begun(&chosen);
        if chosen.proposal.dry_run || chosen.only_reads() {
            unfinished.record = Some(CallRecord { executed: !begun.dry_run, ..begun.clone() });
            let outcome = tokio::time::timeout_at(by, self.toolbox.run(chosen)).await;
            // Cutting it off has settled it.
            let cost = unfinished.cost.get();
            return unfinished.ends_with(outcome.unwrap_or_else(|_| cut_off(&CallRecord { cost, ..begun })));
        }
        unfinished.record = Some(CallRecord { executed: true, ..begun.clone() });
        let toolbox = Arc::clone(&self.toolbox);
        let finished = self.toolbox.tasks().spawn(async move {
            let outcome = toolbox.run(chosen).await;
            unfinished.ends_with(outcome)
        });
        match tokio::time::timeout_at(by, finished).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => execute::refused(&begun, format!("The call failed: {error}.")),
            // Its end is recorded when it comes.
            Err(_) => cut_off(&begun),
        }
    }

    async fn answer_decided(&self, proposal: Proposal, decision: Decision, unfinished: Unfinished) -> Answered {
        let (dry_run, name) = (proposal.dry_run, decision.asked.name.clone());
        match approval::verdict(&decision.words) {
            Verdict::Refuse(why) => {
                if !dry_run && !approval::take(&self.shelf, &decision.id).await {
                    return self.answer_spent(&proposal, decision, unfinished).await;
                }
                let refused = execute::refused(&about(&proposal, &decision), NOT_APPROVED.to_owned());
                let refused = Outcome { content: content(&why), ..refused };
                self.remember(&decision.id, &refused.content, dry_run).await;
                Answered::new(name, unfinished.ends_with(refused))
            }
            Verdict::Approve if dry_run => Answered::new(name, self.make_approved(proposal, &decision, unfinished).await),
            Verdict::Approve => {
                let (own, about) = (self.clone(), about(&proposal, &decision));
                // The approval is spent, whoever leaves: what came of it must be known afterwards.
                let finished =
                    self.toolbox.tasks().spawn(async move { Box::pin(own.finish_approved(proposal, decision, unfinished)).await });
                finished.await.unwrap_or_else(|error| Answered::new(name, execute::refused(&about, format!("The call failed: {error}."))))
            }
        }
    }

    /// The same for an approved call that goes on when nobody listens: a call whose progress nobody hears is not begun.
    async fn finish_approved(&self, mut proposal: Proposal, decision: Decision, unfinished: Unfinished) -> Answered {
        let (progress, mut heard) = mpsc::channel(1);
        let client = std::mem::replace(&mut proposal.progress, progress);
        let mut answering = pin!(self.answer_approved(proposal, decision, unfinished));
        loop {
            tokio::select! {
                answered = &mut answering => return answered,
                // What the client has no room for, it does not need.
                Some(text) = heard.recv() => drop(client.try_send(text)),
            }
        }
    }

    /// Spends the approval, or tells what came of it where it was spent.
    async fn answer_approved(&self, proposal: Proposal, decision: Decision, unfinished: Unfinished) -> Answered {
        let (shelf, ttl) = (&self.shelf, self.agent.config.session_ttl);
        if !approval::take(shelf, &decision.id).await {
            return self.answer_spent(&proposal, decision, unfinished).await;
        }
        approval::note(shelf, &decision.id, &State::Running, ttl).await;
        let outcome = self.make_approved(proposal, &decision, unfinished).await;
        self.remember(&decision.id, &outcome.content, false).await;
        Answered::new(decision.asked.name, outcome)
    }

    /// Tells what came of a decision that another request brought first, and records.
    async fn answer_spent(&self, proposal: &Proposal, decision: Decision, mut unfinished: Unfinished) -> Answered {
        unfinished.record = None;
        let content = approval::elsewhere(&self.shelf, &decision.id, Instant::from_std(proposal.deadline)).await;
        let record = CallRecord { error: Some(IS_SPENT.to_owned()), ..about(proposal, &decision) };
        Answered { name: decision.asked.name, record, fate: Fate::Result(content) }
    }

    async fn remember(&self, id: &str, content: &str, dry_run: bool) {
        if !dry_run {
            approval::note(&self.shelf, id, &State::Over(content.to_owned()), self.agent.config.session_ttl).await;
        }
    }

    /// Makes the call that was approved, if its tool is what it was then and may be called still.
    async fn make_approved(&self, mut proposal: Proposal, decision: &Decision, unfinished: Unfinished) -> Outcome {
        let Asked { server, tool, definition: hash, .. } = &decision.asked;
        let about = about(&proposal, decision);
        let refuse = |unfinished: Unfinished, why: &str| unfinished.ends_with(execute::refused(&about, why.to_owned()));
        let catalog = self.toolbox.catalog().await;
        let is_it = |listed: &&Listed| *listed.definition.server == **server && listed.definition.name == *tool;
        let Some(listed) = catalog.tools().iter().find(is_it) else {
            return refuse(unfinished, "Not called: the tool is not there any more.");
        };
        let definition = &listed.definition;
        if definition.hash() != *hash || listed.withheld {
            return refuse(unfinished, "Not called: the tool is not what it was when the user was asked.");
        }
        if listed.policy == Policy::Deny {
            return refuse(unfinished, "Not called: the tool may not be called.");
        }
        proposal.entry.description.clone_from(&definition.description);
        proposal.entry.schema = definition.schema.clone();
        proposal.entry.candidates = vec![Arc::clone(definition)];
        match self.choose(proposal).await {
            Ok(chosen) => self.carry_out(chosen, unfinished).await,
            Err(outcome) => unfinished.ends_with(outcome),
        }
    }
}

impl Answered {
    fn new(name: String, outcome: Outcome) -> Self {
        Self { name, record: *outcome.record, fate: Fate::Result(outcome.content) }
    }
}

/// A call that has no end yet. One that is dropped before its end is recorded too.
struct Unfinished {
    caller: Caller,
    /// What is known of it; nothing once it is recorded.
    record: Option<CallRecord>,
    /// What it came to, where it was begun.
    cost: Cost,
}

impl Unfinished {
    /// Records `outcome`.
    fn ends_with(self, outcome: Outcome) -> Outcome {
        self.ends_as(&outcome.record);
        outcome
    }

    fn ends_as(mut self, record: &CallRecord) {
        self.record = None;
        self.caller.agent.trace.call(&self.caller.run, record);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            let record = CallRecord { error: Some(CANCELLED.to_owned()), cost: self.cost.get(), ..record };
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
