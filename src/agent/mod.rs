//! One client request from start to end: a run of turns over the inference engine.
//!
//! Where MCP servers are configured, a run offers their tools beside the client's own and runs the calls of them itself, turn after turn
//! (`turns`, and `turn` for one of them), within `config`'s limits. The client sees one answer. Otherwise a run is one turn.

mod config;
mod run;
mod session;
mod transcript;
mod turn;
mod turns;

use std::sync::Arc;

use futures_core::stream::BoxStream;

pub use self::config::Config;
use self::session::Session;
pub use crate::inference::Guardrails;
use crate::{
    chat::{Event, Problem, Request, ToolChoice},
    inference::Engine,
    store::Store,
    tools::{Ask, Offer, Toolbox},
    trace::{self, Recorder},
};

/// The events of one answer, see [`Engine::complete`]. Dropping it cancels the run.
pub type Run = BoxStream<'static, Result<Event, Problem>>;

/// Runs requests. Cloning it shares everything.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    toolbox: Option<Arc<Toolbox>>,
    store: Arc<Store>,
    trace: Recorder,
    config: Config,
}

/// A request and the tools that toolgate adds to it.
#[derive(Debug)]
pub struct Job {
    request: Request,
    offer: Offer,
    session: Session,
    session_key: String,
}

impl Job {
    /// What the model is asked, the added tools included.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Whether tools may be run for it.
    pub fn runs_tools(&self) -> bool {
        !self.offer.entries.is_empty()
    }

    /// Whether there is anything to do for it under `guardrails` but to pass it on.
    pub fn is_work(&self, guardrails: Guardrails) -> bool {
        self.runs_tools() || guards(&self.request, guardrails)
    }
}

impl Agent {
    /// An agent over `engine` that runs the tools of `toolbox`.
    pub fn new(engine: Arc<Engine>, toolbox: Option<Arc<Toolbox>>, store: Arc<Store>, trace: Recorder, config: Config) -> Self {
        Self(Arc::new(Inner { engine, toolbox, store, trace, config }))
    }

    /// The guardrails that are on unless a request switches them off.
    pub fn guardrails(&self) -> Guardrails {
        self.0.engine.guardrails()
    }

    /// Where runs are recorded.
    pub fn trace(&self) -> &Recorder {
        &self.0.trace
    }

    /// `request` with the tools that are added to it. Fails when it asks for servers that there are not, or wants a tool called that nobody
    /// offers.
    pub async fn prepare(&self, mut request: Request) -> Result<Job, Problem> {
        let mut job = Job { request: Request::default(), offer: Offer::default(), session: Session::default(), session_key: String::new() };
        if let Some(toolbox) = self.0.toolbox.as_ref() {
            if let Some(id) = toolbox.unknown(&request.servers) {
                return Err(Problem::invalid("x-toolgate-mcp", format!("There is no MCP server `{id}`.")));
            }
            let may_call = request.choices == 1 && request.tool_choice != ToolChoice::None;
            if may_call && toolbox.attaches(&request.servers) {
                (job.session_key, job.session) = turns::session(&self.0, &request).await;
                let ask = Ask { servers: &request.servers, taken: &request.tools, seen: &job.session.seen };
                job.offer = toolbox.catalog().await.offer(ask);
                job.offer.remember_in(&mut job.session.seen);
                attach(&mut request, &job.offer);
            }
        }
        request.check_choice()?;
        job.request = request;
        Ok(job)
    }

    /// Starts a run. Nothing is sent before the stream is polled. A request that there is nothing to guard about is run without guardrails.
    pub fn run(&self, job: Job, guardrails: Guardrails) -> Run {
        match &self.0.toolbox {
            Some(toolbox) if !job.offer.entries.is_empty() => {
                run::recorded(turns::Turns::new(Arc::clone(&self.0), Arc::clone(toolbox), job, guardrails).events(), self.0.trace.clone())
            }
            _ => {
                let guardrails = if guards(&job.request, guardrails) { guardrails } else { Guardrails::NONE };
                let turn = if self.0.trace.is_on() { self.only_turn(&job.request) } else { trace::Turn::default() };
                run::recorded(self.0.engine.complete(Arc::new(job.request), guardrails, turn), self.0.trace.clone())
            }
        }
    }

    /// What traces a run of one turn.
    fn only_turn(&self, request: &Request) -> trace::Turn {
        self.0.trace.turn(&Arc::new(trace::Run::new(request, &session::key(request))), 1)
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
