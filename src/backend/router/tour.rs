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
    ahead: Stops,
    /// Those that had no room at once: waited for when nobody has.
    full: Stops,
    /// Those that did not work when it was their turn: tried last.
    passed_over: Stops,
    served: Served,
    /// Why the last one did not take it.
    error: Option<Error>,
}

type Stops = VecDeque<(Arc<Member>, Stop)>;

impl Tour {
    /// A tour of `stops` in their order, but of the one first that answered the last attempt.
    pub(super) fn new(mut stops: Stops, served: Served) -> Self {
        if let Some(last) = served.last() {
            let place = stops.iter().position(|(_, stop)| stop.candidate == last);
            let first = place.and_then(|place| stops.remove(place));
            if served.is_bound {
                stops.clear();
            }
            first.into_iter().for_each(|first| stops.push_front(first));
        }
        Self { ahead: stops, full: Stops::new(), passed_over: Stops::new(), served, error: None }
    }

    /// The next one, once it has room. Fails with the last error when there is nobody left.
    pub(super) async fn next(&mut self) -> Result<(Stay, Stop), Error> {
        while let Some((member, stop)) = self.ahead.pop_front() {
            // Who is alone is asked whatever is known: there is nothing to lose.
            if !self.is_last() && !member.works() {
                self.passed_over.push_back((member, stop));
            } else if let Some(stay) = member.try_enter() {
                return Ok((stay, stop));
            } else {
                self.full.push_back((member, stop));
            }
        }
        while let Some((member, stop)) = self.full.pop_front().or_else(|| self.passed_over.pop_front()) {
            match member.enter().await {
                Ok(stay) => return Ok((stay, stop)),
                Err(error) => self.error = Some(error),
            }
        }
        Err(self.error.take().unwrap_or(Error::Protocol("who began the answer is no longer there")))
    }

    /// `prompt` as `member` gets it.
    pub(super) fn prompt_for(&self, prompt: &Prompt, member: &Member, stop: &Stop) -> Prompt {
        let mut prompt = prompt.clone();
        prompt.served.has_others = !self.is_last();
        if let Some(request) = changed(&prompt.request, member, stop) {
            prompt.request = Arc::new(request);
        }
        if member.prompts_tools(&stop.candidate.model) { prompt_tools::rewritten(prompt) } else { prompt }
    }

    /// Whether there is nobody else to ask.
    pub(super) fn is_last(&self) -> bool {
        self.ahead.is_empty() && self.full.is_empty() && self.passed_over.is_empty()
    }

    /// Takes note that `stay` ended in `error` before anything was said. Fails with it where nobody else would do better.
    pub(super) fn failed(&mut self, stay: &Stay, error: Error) -> Result<(), Error> {
        stay.member.failed(&error);
        if matches!(error, Error::Connect(_) | Error::Stalled(_)) {
            // By no other name would it be there.
            for stops in [&mut self.ahead, &mut self.full, &mut self.passed_over] {
                stops.retain(|(member, _)| !Arc::ptr_eq(member, &stay.member));
            }
        }
        if !error.may_fail_over() || self.is_last() {
            return Err(error);
        }
        tracing::warn!(backend = stay.member.name, %error, "asking the next backend");
        self.error = Some(error);
        Ok(())
    }

    /// Takes note that the backend of `stop` answers.
    pub(super) fn served(&self, stop: &Stop) {
        self.served.note(&stop.candidate);
    }
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
