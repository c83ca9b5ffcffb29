//! One call from its choice to its result: schema, breaker, place, call, retries.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{
    Toolbox,
    catalog::Entry,
    config::Policy,
    definition::{Definition, hex},
    mcp::{self, Output},
    output,
    selector::{Candidate, Question, Rule, Selection},
    server::Server,
};
use crate::chat::{CallRecord, call::NO_SERVER};

/// A call as the model made it.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Which call of the run it is, from 1.
    pub step: usize,
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
    /// Takes how far the call is, for a person to read; what it has no room for is left out.
    pub progress: mpsc::Sender<String>,
}

/// A call whose server is chosen.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The call.
    pub proposal: Proposal,
    /// The server and why.
    pub selection: Selection,
    /// Who decides whether it is run.
    pub policy: Policy,
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

impl Toolbox {
    /// Who serves the call. Fails with what the model is told when nobody does.
    pub async fn choose(&self, proposal: Proposal) -> Result<Chosen, Outcome> {
        let candidate = |definition: &Arc<Definition>| Candidate {
            definition: Arc::clone(definition),
            is_up: self.server(&definition.server).is_some_and(|server| server.is_up()),
        };
        let candidates: Vec<Candidate> = proposal.entry.candidates.iter().map(candidate).collect();
        let arguments = Value::Object(proposal.arguments.clone());
        let question = Question { message: &proposal.message, arguments: &arguments, recent: &proposal.recent };
        match self.selector.select(question, &candidates).await {
            Some(selection) => {
                let policy = self.policy(&selection.definition);
                Ok(Chosen { proposal, selection, policy })
            }
            None => Err(refused(&record(&proposal, None), format!("No server has the tool {} any more.", proposal.entry.name))),
        }
    }

    /// Runs the call. Where its tool may change something, it is finished even when the future is dropped.
    pub async fn run(self: &Arc<Self>, chosen: Chosen) -> Outcome {
        if chosen.proposal.dry_run || chosen.selection.definition.annotations.read_only {
            return self.carry_out(chosen).await;
        }
        let begun = record(&chosen.proposal, Some(&chosen.selection));
        let own = Arc::clone(self);
        let task = self.tasks.spawn(async move { own.carry_out(chosen).await });
        task.await.unwrap_or_else(|error| refused(&begun, format!("The call failed: {error}.")))
    }

    async fn carry_out(&self, chosen: Chosen) -> Outcome {
        let Chosen { proposal, selection, .. } = chosen;
        let mut record = record(&proposal, Some(&selection));
        let definition = Arc::clone(&selection.definition);
        let Some(server) = self.server(&definition.server) else {
            return refused(&record, format!("There is no server {} any more.", definition.server));
        };
        if proposal.dry_run {
            record.success = true;
            let said = format!("Rehearsal: {} on {} would be called now. Go on as if it had worked.", definition.name, definition.server);
            return Outcome { content: json!(said).to_string(), record: Box::new(record) };
        }
        let begun = Instant::now();
        let outcome = self.call(&server, &definition, &proposal, &mut record).await;
        record.latency_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        match outcome {
            Ok(said) => {
                let content = output::content(&said, self.config.result_bytes_max, self.config.images);
                record.success = !said.is_error;
                record.error = said.is_error.then(|| output::bounded(&content, ERROR_BYTES_MAX));
                Outcome { content, record: Box::new(record) }
            }
            Err(error) => refused(&record, format!("The call of {} failed: {error}.", definition.name)),
        }
    }

    /// Asks the server, again where that does no harm.
    async fn call(
        &self,
        server: &Server,
        definition: &Definition,
        proposal: &Proposal,
        record: &mut CallRecord,
    ) -> Result<Output, mcp::Error> {
        let mut wait = RETRY_FIRST;
        loop {
            record.attempt += 1;
            let answer = self.attempt(server, definition, proposal).await;
            record.executed |= !answer.as_ref().is_err_and(mcp::Error::is_unsent);
            let Err(error) = answer else { return answer };
            let may_repeat = error.never_left() || (error.is_transport() && definition.annotations.may_repeat());
            let pause = error.retry_after().unwrap_or_default().max(wait);
            if !may_repeat || record.attempt >= ATTEMPTS_MAX || Instant::now() + pause >= proposal.deadline {
                return Err(error);
            }
            record.retries += 1;
            record.retry_reason = Some(error.word().to_owned());
            tokio::time::sleep(pause).await;
            wait *= 2;
        }
    }

    async fn attempt(&self, server: &Server, definition: &Definition, proposal: &Proposal) -> Result<Output, mcp::Error> {
        let down = |why: String| mcp::Error::Unreachable(why);
        let _place = server.place().await.map_err(|full| down(full.to_string()))?;
        if !server.try_enter() {
            return Err(down("it failed too often of late and is left alone for a while".to_owned()));
        }
        let view = server.view();
        let Some(connection) = &view.connection else {
            return Err(down(view.reason.clone().unwrap_or_else(|| "it is not connected".to_owned())));
        };
        let by = proposal.deadline.min(Instant::now() + server.timeout());
        let answer = connection.call(&definition.name, proposal.arguments.clone(), by, proposal.progress.clone()).await;
        server.note(!answer.as_ref().is_err_and(mcp::Error::is_transport));
        answer
    }
}

/// How much of an error is recorded.
const ERROR_BYTES_MAX: usize = 512;

/// The outcome of a call that came to nothing: the model is told `why`.
pub fn refused(record: &CallRecord, why: String) -> Outcome {
    let content = json!(why).to_string();
    Outcome { content, record: Box::new(CallRecord { success: false, error: Some(why), ..record.clone() }) }
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
        ..CallRecord::default()
    }
}

/// SHA-256 of the canonical JSON of `arguments`: keys sorted, nothing between tokens.
pub fn arguments_hash(arguments: &Value) -> String {
    use sha2::{Digest, Sha256};
    let mut sorted = arguments.clone();
    sorted.sort_all_objects();
    hex(&Sha256::digest(sorted.to_string().as_bytes()))
}
