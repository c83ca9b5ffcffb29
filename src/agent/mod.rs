//! One client request from start to end: a run of turns over the inference engine.
//!
//! Where MCP servers are configured, a run offers their tools beside the client's own and runs the calls of them itself, turn after turn
//! (`turns`, `turn` for one of them, `calls` for the calls of one), within `limits`. The client sees one answer. Where that holds calls of
//! the client's own, what it does not see of the run is kept (`continuation`) until it comes back (`restore`); where it is asked about a
//! call, so is the call (`approval`). Otherwise a run is one turn.

mod config;
mod run;
mod turns;

mod turn;

mod calls;

mod choice;

mod limits;

mod repeats;

mod absent;
mod approval;

mod continuation;

mod restore;

mod transcript;

mod session;
mod shelf;

mod error;

use std::{borrow::Cow, sync::Arc};

use futures_core::stream::BoxStream;
use futures_util::TryStreamExt;

pub use self::config::Config;
use self::{
    restore::{Reading, Restored},
    session::Session,
    shelf::Shelf,
};
pub use crate::inference::Guardrails;
use crate::{
    budget::{Account, Gate, Meter},
    chat::{Event, Problem, Report, Request, ToolChoice},
    inference::{Engine, Watch},
    store::Store,
    tools::{Ask, Offer, Toolbox},
    trace::{self, Recorder},
};

/// The events of one answer, see [`Engine::complete`]. Dropping it cancels the run.
pub type Run = BoxStream<'static, Result<Event, Problem>>;

/// Runs requests. Cloning it shares everything.
#[derive(Clone)]
pub struct Agent(Arc<Parts>);

/// What an agent is made of.
pub struct Parts {
    /// Asks models.
    pub engine: Arc<Engine>,
    /// The MCP servers, where there are any.
    pub toolbox: Option<Arc<Toolbox>>,
    /// What conversations need later.
    pub store: Arc<Store>,
    /// Where runs are recorded.
    pub trace: Recorder,
    /// Who is asked before anything costs.
    pub gate: Gate,
    /// The limits of a run.
    pub config: Config,
}

/// A request and the tools that toolgate adds to it.
#[derive(Debug)]
pub struct Job {
    request: Request,
    /// Who asks.
    account: Arc<Account>,
    /// What is kept for them.
    shelf: Shelf,
    /// Counts what it costs.
    meter: Meter,
    offer: Offer,
    session: Session,
    session_key: String,
    /// The history, where it waits for what the client decided.
    restored: Option<Restored>,
    /// Whether the history is another than the client's.
    is_restored: bool,
    /// Whether something is gone of it that the client did not see.
    is_lost: bool,
    /// What the model is told of servers that were asked for and have no tools.
    absent: Vec<String>,
}

impl Job {
    /// What the model is asked, the added tools included.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// What counts its costs.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether tools may be run for it.
    pub fn runs_tools(&self) -> bool {
        !self.offer.entries.is_empty() || self.restored.is_some()
    }

    /// Whether there is anything to do for it under `guardrails` but to pass it on.
    pub fn is_work(&self, guardrails: Guardrails) -> bool {
        // What is counted is counted as it comes; several choices have no events, and are counted as they pass.
        let is_counted = self.meter.is_on() && self.request.choices == 1;
        self.has_turns() || self.is_restored || is_counted || guards(&self.request, guardrails)
    }

    /// Whether something is gone that the client did not see of its conversation.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Tells the model of servers that were asked for and have no tools.
    fn tell_of_absent(&mut self, toolbox: &Toolbox) {
        let sentences = absent::sentences(toolbox, &self.account.tools, &self.request.servers, &self.request.messages);
        if sentences.is_empty() {
            return;
        }
        if let Some(messages) = absent::told(&self.request.messages, &sentences) {
            self.request.set_messages(messages);
        }
        self.absent = sentences;
    }

    /// Whether it is more than one question to a model.
    fn has_turns(&self) -> bool {
        self.runs_tools() || self.is_lost || self.request.dry_run || !self.absent.is_empty()
    }
}

impl Agent {
    /// An agent of these parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The guardrails that are on unless a request switches them off.
    pub fn guardrails(&self) -> Guardrails {
        self.0.engine.guardrails()
    }

    /// Where runs are recorded.
    pub fn trace(&self) -> &Recorder {
        &self.0.trace
    }

    /// `request`, for which `account` answers, with the tools that are added to it, and with what the client does not see of its
    /// conversation. Fails when it asks for servers that there are not, or wants a tool called that nobody offers.
    pub async fn prepare(&self, request: Request, account: Arc<Account>) -> Result<Job, Problem> {
        if request.dry_run && request.choices != 1 {
            return Err(Problem::invalid("n", "A dry run gives one choice only: leave `n` out."));
        }
        let mut job = Job {
            request,
            shelf: Shelf::new(&self.0.store, &account),
            account,
            meter: Meter::default(),
            offer: Offer::default(),
            session: Session::default(),
            session_key: String::new(),
            restored: None,
            is_restored: false,
            is_lost: false,
            absent: Vec::new(),
        };
        if let Some(toolbox) = self.0.toolbox.as_ref() {
            if let Some(id) = toolbox.unknown(&job.request.servers) {
                return Err(Problem::invalid("x-toolgate-mcp", format!("There is no MCP server `{id}`.")));
            }
            let attaches = toolbox.attaches(&job.request.servers);
            self.restore(&mut job, attaches).await;
            let may_call = job.request.choices == 1 && job.request.tool_choice != ToolChoice::None;
            if attaches && (may_call || job.restored.is_some()) {
                self.recall(&mut job).await;
            }
            if attaches && may_call {
                let (catalog, taken) = (toolbox.catalog().await, job.request.named_tools());
                let access = &job.account.tools;
                job.offer = catalog.offer(Ask { servers: &job.request.servers, access, taken: &taken, seen: &job.session.seen });
                drop(taken);
                job.session.offered(&job.offer);
                attach(&mut job.request, &job.offer);
                job.tell_of_absent(toolbox);
            }
        }
        job.request.check_choice()?;
        if self.0.gate.is_on() {
            if job.session_key.is_empty() {
                job.session_key = session::key(&job.request);
            }
            job.meter = self.0.gate.meter(&job.account, &job.request.id, &job.session_key);
        }
        Ok(job)
    }

    /// Puts what is kept of the conversation into its history.
    async fn restore(&self, job: &mut Job, attaches: bool) {
        let request = &mut job.request;
        let ttl = (!request.dry_run).then_some(self.0.config.session_ttl);
        let reading = Reading { ttl, may_call: attaches && request.choices == 1, servers: &request.servers };
        let Some(restored) = restore::restore(&job.shelf, &request.messages, reading).await else { return };
        (job.is_restored, job.is_lost) = (true, restored.is_lost);
        if restored.is_lost {
            tracing::warn!(request_id = request.id, "the hidden part of a conversation is lost: it goes on with what is visible");
        }
        if restored.decisions().next().is_some() {
            job.restored = Some(restored);
        } else {
            request.set_messages(restored.messages([]));
        }
    }

    /// Puts what is remembered of the conversation into `job`.
    async fn recall(&self, job: &mut Job) {
        job.session_key = session::key(&job.request);
        job.session = Session::load(&job.shelf, &job.session_key).await;
    }

    /// Starts a run. Nothing is sent before the stream is polled. A request that there is nothing to guard about is run without guardrails.
    pub fn run(&self, job: Job, guardrails: Guardrails) -> Run {
        let guardrails = if guards(&job.request, guardrails) { guardrails } else { Guardrails::NONE };
        match &self.0.toolbox {
            Some(toolbox) if job.has_turns() => {
                run::recorded(turns::Turns::new(Arc::clone(&self.0), Arc::clone(toolbox), job, guardrails).events(), self.0.trace.clone())
            }
            _ => {
                let is_plan = job.request.dry_run;
                let turn = self.only_turn(&job);
                let events = self.0.engine.complete(Arc::new(job.request), guardrails, Watch { meter: job.meter, turn });
                run::recorded(events.map_ok(move |event| planned(event, is_plan)), self.0.trace.clone())
            }
        }
    }

    /// What traces a run of one turn, also of one that is passed on.
    pub fn only_turn(&self, job: &Job) -> trace::Turn {
        if !self.0.trace.is_on() {
            return trace::Turn::default();
        }
        // Known already where something is counted or remembered: it is read out of all messages.
        let key = if job.session_key.is_empty() { Cow::Owned(session::key(&job.request)) } else { Cow::Borrowed(&*job.session_key) };
        self.0.trace.turn(&Arc::new(trace::Run::new(&job.request, &key, &job.account.key)), 1)
    }
}

/// `event`, as part of a rehearsal or not.
fn planned(event: Event, is_plan: bool) -> Event {
    match event {
        Event::Settled(report) => Event::Settled(Report { is_plan, ..report }),
        other => other,
    }
}

/// Adds the tools of `offer` to `request`.
fn attach(request: &mut Request, offer: &Offer) {
    if offer.entries.is_empty() {
        return;
    }
    request.tools_json = offer.json(&request.tools_json);
    request.set_field("tools", request.tools_json.clone());
    request.tools.extend(offer.tools());
}

/// Whether there is anything to do for `request` but to pass it on. Several choices are passed on too: a correction answers one
/// reply, not three.
fn guards(request: &Request, guardrails: Guardrails) -> bool {
    !request.tools.is_empty() && request.choices == 1 && guardrails != Guardrails::NONE
}
