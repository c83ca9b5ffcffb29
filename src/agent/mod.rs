//! One client request from start to end: a run of turns over the inference engine.
//!
//! A run is one turn here, since the client executes its own tools. What a run owns — its record, its one stream of events —
//! is in place for runs that have several.

mod run;

use std::sync::Arc;

use futures_core::stream::BoxStream;

pub use crate::inference::Guardrails;
use crate::{
    chat::{Event, Problem, Request},
    inference::Engine,
};

/// The events of one answer, see [`Engine::complete`]. Dropping it cancels the run.
pub type Run = BoxStream<'static, Result<Event, Problem>>;

/// Runs requests.
#[derive(Clone)]
pub struct Agent {
    engine: Arc<Engine>,
}

impl Agent {
    /// An agent over `engine`.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The guardrails that are on unless a request switches them off.
    pub fn guardrails(&self) -> Guardrails {
        self.engine.guardrails()
    }

    /// Starts a run. Nothing is sent before the stream is polled. A request that there is nothing to guard about is run without guardrails.
    pub fn run(&self, request: Request, guardrails: Guardrails) -> Run {
        let guardrails = if guards(&request, guardrails) { guardrails } else { Guardrails::NONE };
        run::start(&self.engine, request, guardrails)
    }
}

/// Whether there is anything to do for `request` but to pass it on. Several choices are passed on too: a correction answers one
/// reply, not three.
pub fn guards(request: &Request, guardrails: Guardrails) -> bool {
    !request.tools.is_empty() && request.choices == 1 && guardrails != Guardrails::NONE
}
