//! One call from its choice to its result, in one order:
//!
//! 1. selection: which server serves it, among those whose tools the account may use;
//! 2. policy: whether it may be called at all, and whether the client is asked first;
//! 3. schema: whether that server's own schema accepts the arguments, before anybody is asked to approve what could not be called;
//! 4. dry run: nothing below happens, and the model reads what would have, as far as it can be told without asking anybody;
//! 5. breaker: a server that fails is left alone;
//! 6. place: no server has more calls at once than it may;
//! 7. budget: what the call costs is put aside before it, once, however often it is tried;
//! 8. call, and another where that does no harm: on another server where certainly nothing was sent, on the same after a wait;
//! 9. record: one for every call, whatever became of it and whatever it cost.
//!
//! A dry run's selection is the real one: where descriptions are compared by a model, that model is asked. It is no MCP server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{
    Toolbox,
    attempt::{self, Error},
    catalog::Entry,
    config::Policy,
    definition::Definition,
    mcp::Output,
    output,
    selector::{self, Candidate, Question, Rule, Selection},
};
pub use crate::chat::canonical::arguments_hash;
use crate::{
    budget::{Account, Meter, Pass},
    chat::{CallRecord, call::NO_SERVER, cost::Cost},
    resilience::breaker::Phase,
};

/// A call as the model made it.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Which call of the run it is, from 1.
    pub step: usize,
    /// On whose account it is made.
    pub account: Arc<Account>,
    /// The call's id.
    pub call_id: String,
    /// Counts what it costs.
    pub meter: Meter,
    /// What it came to.
    pub cost: Cost,
    /// The tool that the model called.
    pub entry: Entry,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// What the user said last.
    pub message: Arc<str>,
    /// The servers that served this conversation, the newest first.
    pub recent: Vec<String>,
    /// Whether no server is to be asked.
    pub dry_run: bool,
    /// Whether the model was told this tool's schema in full before.
    pub was_corrected: bool,
    /// When the run ends.
    pub deadline: Instant,
    /// Takes how far the call is, for a person to read; what it has no room for is left out. Once nobody hears it any more, nobody waits
    /// for the call either, and what was not sent by then is not sent.
    pub progress: mpsc::Sender<String>,
}

/// A call whose server is chosen, and whose arguments that server accepts as far as is known.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The call.
    pub proposal: Proposal,
    /// The server and why.
    pub selection: Selection,
    /// Who decides whether it is run. Never [`Policy::Deny`].
    pub policy: Policy,
}

impl Chosen {
    /// Whether nothing is changed by it, whichever server it comes to.
    pub fn only_reads(&self) -> bool {
        let Selection { definition, others, .. } = &self.selection;
        definition.annotations.read_only && others.iter().all(|other| other.annotations.read_only)
    }
}

/// What became of a call.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the model reads: the JSON of a tool message's `content`.
    pub content: String,
    /// What is told of it.
    pub record: Box<CallRecord>,
}

/// The first wait before a call is made again; it doubles with each that follows.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// How often a call is made at most.
const ATTEMPTS_MAX: u32 = 3;
/// How long a server that went away is waited for with each attempt that follows: what starting a child process takes.
const RECONNECT_MAX: Duration = Duration::from_secs(1);
/// The note in a plan about a call whose policy is to ask.
const IS_ASKED: &str = "the client would be asked first";
/// How much of an error is recorded.
const ERROR_BYTES_MAX: usize = 512;

impl Toolbox {
    /// Who serves the call, and whether it may be made there: steps 1 to 3. Fails with what the model is told where it may not.
    pub async fn choose(&self, proposal: Proposal) -> Result<Chosen, Outcome> {
        let candidate = |definition: &Arc<Definition>| Candidate {
            definition: Arc::clone(definition),
            is_up: self.server(&definition.server).is_some_and(|server| server.is_up()),
        };
        // What was offered is looked at again: a call that was approved was not offered just now.
        let may_use = |definition: &&Arc<Definition>| proposal.account.tools.allows(&definition.for_rules());
        let candidates: Vec<Candidate> = proposal.entry.candidates.iter().filter(may_use).map(candidate).collect();
        if candidates.is_empty() && !proposal.entry.candidates.is_empty() {
            return Err(refused(&record(&proposal, None), format!("Not called: {} may not be used here.", proposal.entry.name)));
        }
        let arguments = Value::Object(proposal.arguments.clone());
        let question = Question { message: &proposal.message, arguments: &arguments, recent: &proposal.recent };
        let Some(selection) = self.selector.select(question, &candidates).await else {
            return Err(refused(&record(&proposal, None), format!("No server has the tool {} any more.", proposal.entry.name)));
        };
        let policy = self.policy(&selection.definition);
        match self.objection(&proposal, &selection, (policy, &arguments)) {
            Some(outcome) => Err(outcome),
            None => Ok(Chosen { proposal, selection, policy }),
        }
    }

    /// What the model is told where the call may not be made.
    fn objection(&self, proposal: &Proposal, selection: &Selection, (policy, arguments): (Policy, &Value)) -> Option<Outcome> {
        let definition = &selection.definition;
        let record = || record(proposal, Some(selection));
        if policy == Policy::Deny {
            return Some(refused(&record(), format!("{} on {} may not be called here.", definition.name, definition.server)));
        }
        if let Some(named) = selection.named_but_down.as_ref().filter(|_| !definition.annotations.read_only) {
            // What was meant for one place is not done in another.
            let why = format!(
                "{} was not called. The user named {named}, which is not available at the moment, and it may change something. {} could serve \
                 it if the user agrees and names it.",
                definition.name, definition.server
            );
            return Some(refused(&record(), why));
        }
        let complaint = self.selector.schema(definition).complaint(arguments)?;
        let of = if definition.name == proposal.entry.name { String::new() } else { format!("{} of ", definition.name) };
        let why = |complaint: &str| {
            let (name, server) = (&proposal.entry.name, &definition.server);
            format!("The arguments of {name} are not what {of}{server} takes: {complaint}. Nothing was called.")
        };
        let mut told = why(&complaint.told);
        if !proposal.was_corrected {
            let schema = String::from_utf8_lossy(&definition.schema);
            let schema = output::bounded(&schema, self.config.result_bytes_max);
            told.push_str(&format!(" Call it again with arguments that fit this JSON schema: {schema}"));
        }
        let record = CallRecord { corrective_retry: !proposal.was_corrected, ..record() };
        // The model knows what it wrote; a record does not quote it.
        Some(Outcome { content: json!(told).to_string(), ..refused(&record, why(&complaint.masked)) })
    }

    /// Runs the call: steps 4 to 9. Where a tool may change something, a call that was sent is finished even when the future is dropped.
    pub async fn run(self: &Arc<Self>, chosen: Chosen) -> Outcome {
        if chosen.proposal.dry_run {
            return self.rehearse(&chosen).await;
        }
        if chosen.only_reads() {
            return self.carry_out(&chosen).await;
        }
        let (begun, cost) = (record(&chosen.proposal, Some(&chosen.selection)), chosen.proposal.cost.clone());
        let own = Arc::clone(self);
        let task = self.tasks.spawn(async move { own.carry_out(&chosen).await });
        task.await.unwrap_or_else(|error| {
            // What it cost is in the books, however it ended.
            refused(&CallRecord { cost: cost.get(), ..begun }, format!("The call failed: {error}."))
        })
    }

    /// What would become of a call: whether the client would be asked first, and whether the server is there. It is looked at only.
    async fn rehearse(&self, chosen: &Chosen) -> Outcome {
        let Chosen { proposal, selection, policy } = chosen;
        let Definition { name, server: id, .. } = &*selection.definition;
        let mut record = record(proposal, Some(selection));
        if *policy == Policy::Ask {
            record.note = Some(record.note.map_or_else(|| IS_ASKED.to_owned(), |note| format!("{note}; {IS_ASKED}")));
        }
        if let Some(denial) = proposal.meter.would_refuse(&selection.definition.for_rules()).await {
            return refused(&record, format!("{name} on {id} was not called: {denial}"));
        }
        if let Some(why) = self.absence(id, proposal.deadline).await {
            return refused(&record, format!("{name} was not called: {id} is not available: {why}."));
        }
        let content = json!(format!("[dry run] {name} on {id} was not called. Go on as if it had worked.")).to_string();
        Outcome { content, record: Box::new(CallRecord { success: true, ..record }) }
    }

    /// Why a call of the server `id` would come to nothing now, if it would. At the start it is waited for as a call would.
    async fn absence(&self, id: &str, deadline: Instant) -> Option<String> {
        let Some(server) = self.server(id) else { return Some("it is no longer configured".to_owned()) };
        if server.phase() == Phase::Open {
            return Some(Error::Resting.to_string());
        }
        let connection = self.connection(&server, deadline).await;
        connection.is_none().then(|| server.view().reason.clone().unwrap_or_else(|| "it is not connected".to_owned()))
    }

    async fn carry_out(&self, chosen: &Chosen) -> Outcome {
        let Chosen { proposal, selection, .. } = chosen;
        let mut record = record(proposal, Some(selection));
        let begun = Instant::now();
        // What was put aside for it is settled at its end.
        let outcome = self.call(chosen, &mut record).await;
        record.cost = proposal.cost.get();
        record.latency_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        match outcome {
            Ok(said) => {
                let preface = substitution(selection, &record.server);
                let content = output::content(&said, preface.as_deref(), self.config.result_bytes_max, self.config.images);
                record.success = !said.is_error;
                record.error = said.is_error.then(|| output::bounded(&output::words(&said), ERROR_BYTES_MAX));
                Outcome { content, record: Box::new(record) }
            }
            Err(error) => refused(&record, self.failure(selection, &record, &error)),
        }
    }

    /// Asks the server, another one where certainly nothing was sent, or again where that does no harm.
    async fn call(&self, chosen: &Chosen, record: &mut CallRecord) -> Result<Output, Error> {
        let Chosen { proposal, selection, .. } = chosen;
        let mut definition = &selection.definition;
        let mut substitutes = self.substitutes(chosen).into_iter();
        let (mut wait, mut pass): (_, Option<Pass>) = (RETRY_FIRST, None);
        loop {
            let answer = match self.server(&definition.server) {
                Some(server) => {
                    // The first attempt finds what there is; the next ones are there because it may come back.
                    let patience = if record.attempt == 0 { Duration::ZERO } else { RECONNECT_MAX };
                    self.attempt(&server, definition, (proposal, &mut pass), Instant::now() + patience).await
                }

                None => Err(Error::Call(super::mcp::Error::Unreachable("it is no longer configured".to_owned()))),
            };
            record.attempt += u32::from(matches!(answer, Ok(_) | Err(Error::Call(_))));
            record.executed |= !answer.as_ref().is_err_and(Error::is_unsent);
            if let (false, Some(pass)) = (record.executed, &mut pass) {
                pass.undo();
            }
            let Err(error) = answer else { return answer };
            let is_up = |other: &&Arc<Definition>| self.server(&other.server).is_some_and(|server| server.is_up());
            if error.is_of_this_server()
                && !record.executed
                && let Some(next) = substitutes.find(is_up)
            {
                record.retries += 1;
                record.retry_reason = Some(format!("{}: {} in the place of {}", error.word(), next.server, definition.server));
                definition = next;
                // Another tool has another price.
                pass = None;
                substitute(record, selection, definition);
                continue;
            }
            let may_repeat = definition.annotations.may_repeat();
            let pause = error.retry_after().unwrap_or_default().max(attempt::jittered(wait));
            if !error.passes(may_repeat) || record.attempt >= ATTEMPTS_MAX || Instant::now() + pause >= proposal.deadline {
                return Err(error);
            }
            tokio::select! {
                () = proposal.progress.closed() => return Err(error),
                () = tokio::time::sleep(pause) => {}
            }
            record.retries += 1;
            record.retry_reason = Some(error.word().to_owned());
            wait *= 2;
        }
    }

    /// Who may serve the call in the place of the chosen server: those that accept the arguments and that nobody has to be asked about. A
    /// call that was approved was approved for its server, and one that may change something is made where the user said.
    fn substitutes<'a>(&self, chosen: &'a Chosen) -> Vec<&'a Arc<Definition>> {
        let Chosen { proposal, selection, policy } = chosen;
        let changes = !selection.definition.annotations.read_only;
        if *policy != Policy::Allow || (selection.rule == Rule::ExplicitMention && changes) {
            return Vec::new();
        }
        let arguments = Value::Object(proposal.arguments.clone());
        let may_serve = |other: &&Arc<Definition>| {
            other.server != selection.definition.server
                && self.policy(other) == Policy::Allow
                && self.selector.schema(other).accepts(&arguments)
        };
        selection.others.iter().filter(may_serve).collect()
    }

    /// What the model is told about a call that failed.
    fn failure(&self, selection: &Selection, record: &CallRecord, error: &Error) -> String {
        let CallRecord { tool, server, .. } = record;
        if let Error::Denied(denial) = error {
            return format!("{tool} on {server} was not called: {denial}");
        }
        let mut told = format!("The call of {tool} on {server} failed: {error}.");
        if record.executed {
            if !selection.definition.annotations.read_only && !matches!(error, Error::Call(super::mcp::Error::Refused(_))) {
                told.push_str(" It may have been carried out all the same.");
            }
            return told;
        }
        told.push_str(" Nothing was done.");
        let is_up = |id: &String| self.server(id).is_some_and(|server| server.is_up());
        let others: Vec<String> = record.alternatives.iter().filter(|id| is_up(id)).cloned().collect();
        if !others.is_empty() {
            told.push_str(&format!(" What could serve it too: {}.", others.join(", ")));
        }
        told
    }
}

/// What the model is told first where another server answered than the one that the user named, or that was chosen.
fn substitution(selection: &Selection, server: &str) -> Option<String> {
    let chosen = Some(&selection.definition.server).filter(|chosen| ***chosen != *server);
    let absent = selection.named_but_down.as_ref().or(chosen)?;
    Some(format!("[{server} answers in the place of {absent}, which is not available]"))
}

/// Notes that `definition` serves the call and not the one that was chosen.
fn substitute(record: &mut CallRecord, selection: &Selection, definition: &Arc<Definition>) {
    let others = [&selection.definition].into_iter().chain(&selection.others).filter(|other| !Arc::ptr_eq(other, definition));
    record.server = definition.server.to_string();
    record.tool.clone_from(&definition.name);
    record.alternatives = selector::alternatives(definition, others);
}

/// The outcome of a call that came to nothing: the model is told `why`.
pub fn refused(record: &CallRecord, why: String) -> Outcome {
    let content = json!(why).to_string();
    let error = Some(output::bounded(&why, ERROR_BYTES_MAX));
    Outcome { content, record: Box::new(CallRecord { success: false, error, ..record.clone() }) }
}

/// What is known of a call before it is made.
fn record(proposal: &Proposal, selection: Option<&Selection>) -> CallRecord {
    let arguments = Value::Object(proposal.arguments.clone());
    CallRecord {
        step: proposal.step,
        server: selection.map_or(NO_SERVER, |selection| &*selection.definition.server).to_owned(),
        tool: selection.map_or(&*proposal.entry.name, |selection| &*selection.definition.name).to_owned(),
        arguments_hash: arguments_hash(&arguments),
        dry_run: proposal.dry_run,
        arguments: Some(arguments),
        selection_rule: selection.map_or(Rule::NoCandidate, |selection| selection.rule).as_str(),
        alternatives: selection.map(|selection| selection.alternatives.clone()).unwrap_or_default(),
        note: selection.and_then(|selection| selection.note.clone()),
        ..CallRecord::default()
    }
}
