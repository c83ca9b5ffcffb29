//! The way of one request from backend to backend until one takes it.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Error, Prompt, Served,
    member::{Member, Stay},
    table::Stop,
};
use crate::{
    backend::{prompt_tools, sampling},
    chat::Request,
};

/// Those who may still be asked.
pub(super) struct Tour {
    ahead: VecDeque<(Arc<Member>, Stop)>,
    /// Those that did not work when it was their turn: tried last.
    passed_over: VecDeque<(Arc<Member>, Stop)>,
    served: Served,
    /// Why the last one did not take it.
    error: Option<Error>,
}

impl Tour {
    /// A tour of `stops` in their order, but of the one first that answered earlier attempts.
    pub(super) fn new(mut stops: VecDeque<(Arc<Member>, Stop)>, served: Served) -> Self {
        if let Some(backend) = served.backend.get() {
            if let Some(place) = stops.iter().position(|(_, stop)| stop.candidate.backend == *backend)
                && let Some(first) = stops.remove(place)
            {
                stops.push_front(first);
            }
            if served.is_bound {
                stops.truncate(1);
            }
        }
        Self { ahead: stops, passed_over: VecDeque::new(), served, error: None }
    }

    /// The next one, once it has room. Fails with the last error when there is nobody left.
    pub(super) async fn next(&mut self) -> Result<(Stay, Stop), Error> {
        loop {
            let Some((member, stop)) = self.pop() else {
                return Err(self.error.take().unwrap_or(Error::Protocol("no backend has the model")));
            };
            match member.enter().await {
                Ok(stay) => return Ok((stay, stop)),
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn pop(&mut self) -> Option<(Arc<Member>, Stop)> {
        while let Some((member, stop)) = self.ahead.pop_front() {
            // Who is alone is asked whatever is known: there is nothing to lose.
            let is_alone = self.ahead.is_empty() && self.passed_over.is_empty() && self.error.is_none();
            if is_alone || member.works() {
                return Some((member, stop));
            }
            self.passed_over.push_back((member, stop));
        }
        self.passed_over.pop_front()
    }

    /// Takes note that `stay` ended in `error` before anything was said. Fails with it where nobody else would do better.
    pub(super) fn failed(&mut self, stay: &Stay, error: Error) -> Result<(), Error> {
        stay.member.failed(&error);
        if !error.may_fail_over() || (self.ahead.is_empty() && self.passed_over.is_empty()) {
            return Err(error);
        }
        tracing::warn!(backend = stay.member.name, %error, "asking the next backend");
        self.error = Some(error);
        Ok(())
    }

    /// Takes note that `stay` answers.
    pub(super) fn served(&self, stay: &Stay, stop: &Stop) {
        stay.member.succeeded();
        // Already set: by the same one, who was asked first.
        self.served.backend.set(stop.candidate.backend).ok();
    }
}

/// `prompt` as `member` gets it.
pub(super) fn prompt_for(prompt: &Prompt, member: &Member, stop: &Stop) -> Prompt {
    let mut prompt = prompt.clone();
    if let Some(request) = changed(&prompt.request, member, stop) {
        prompt.request = Arc::new(request);
    }
    if member.prompts_tools(&stop.candidate.model) { prompt_tools::rewritten(prompt) } else { prompt }
}

/// `request` with the model's name at the backend, and with the sampling of the route and of the model's maker where it has none; `None`
/// when it is the same.
pub(super) fn changed(request: &Request, member: &Member, stop: &Stop) -> Option<Request> {
    let recommended = member.recommended(&stop.candidate.model).into_iter().flat_map(|recommendation| &recommendation.sampling);
    let filled = sampling::filled(request, stop.sampling.iter().chain(recommended));
    if request.model == stop.candidate.model {
        return filled;
    }
    let mut changed = filled.unwrap_or_else(|| request.clone());
    changed.model.clone_from(&stop.candidate.model);
    let name = serde_json::to_vec(&stop.candidate.model).unwrap_or_default();
    changed.set_field("model", name.into());
    Some(changed)
}
