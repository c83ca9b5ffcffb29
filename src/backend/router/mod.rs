//! Several backends as one: who answers for a model, in what order, and who stands in when one cannot.
//!
//! Another backend is asked only before the first event of a reply; and once part of an answer was shown, only the one that said it is
//! asked to go on. A backend that fails or says that it is not ready is tried last, not never: when none works, an error of its own says
//! more than ours.

mod held;
mod listing;
mod member;
mod pass;
mod table;
mod tour;

use std::sync::{Arc, OnceLock};

use async_stream::try_stream;
use futures_util::{StreamExt, future::join_all};

pub use self::{
    listing::{Health, Listed},
    table::{Candidate, Model},
};
use self::{member::Member, table::Table, tour::Tour};
use super::{Backend, Error, Events, Needs, Prompt, Target, kind};
use crate::{chat::Request, upstream};

/// The settings of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The backends, at least one.
    pub backends: Vec<kind::Config>,
    /// The models that clients ask for by name.
    pub models: Vec<Model>,
}

impl Config {
    /// What is wrong with the models' names and fallbacks, one sentence each.
    pub fn faults(&self) -> Vec<String> {
        table::faults(&self.models)
    }
}

/// Which backend answered the earlier attempts at one answer.
#[derive(Debug, Clone, Default)]
pub struct Served {
    backend: Arc<OnceLock<usize>>,
    is_bound: bool,
}

impl Served {
    /// The same, where part of the answer was shown: no other may go on with it.
    pub fn bound(&self) -> Self {
        Self { is_bound: true, ..self.clone() }
    }
}

/// The backends. Cloning it shares them.
#[derive(Clone)]
pub struct Router {
    members: Vec<Arc<Member>>,
    table: Arc<Table>,
}

impl Router {
    /// A router over the backends of `config`, reached within the limits of `upstream`. Connects when it must.
    pub fn new(config: Config, upstream: &upstream::Config) -> Self {
        let member = |config| Arc::new(Member::new(config, upstream.clone()));
        Self { members: config.backends.into_iter().map(member).collect(), table: Arc::new(Table::new(config.models)) }
    }

    /// Asks the backends again and again whether they work and what they have. Never ends; nothing depends on it but what is known.
    pub async fn watch(&self) {
        let has_others = self.members.len() > 1;
        let probing = join_all(self.members.iter().filter(|_| has_others).map(|member| member.keep_probing()));
        let listing = join_all(self.members.iter().map(|member| member.keep_listing()));
        futures_util::future::join(probing, listing).await;
    }

    /// Who is asked for the model of `request`, in order.
    async fn tour(&self, request: &Request, served: &Served) -> Result<Tour, Error> {
        let stops = match self.stops(request) {
            Some(stops) => stops,
            None => self.listed_stops(&request.model).await?,
        };
        let with_member = stops.into_iter().filter_map(|stop| Some((Arc::clone(self.members.get(stop.candidate.backend)?), stop)));
        Ok(Tour::new(with_member.collect(), served.clone()))
    }

    /// Who is asked, as far as the configuration tells.
    fn stops(&self, request: &Request) -> Option<Vec<table::Stop>> {
        let route = self.table.route(&request.model, || request.conversation());
        route.or_else(|| self.default_member().map(|index| vec![stop(index, &request.model)]))
    }

    /// The backends that list `model`.
    async fn listed_stops(&self, model: &str) -> Result<Vec<table::Stop>, Error> {
        // Names in the configuration are all the names that there are.
        let asked: &[_] = if self.table.models().is_empty() { &self.members } else { &[] };
        let listed = join_all(asked.iter().map(|member| member.listed())).await;
        let has = |models: &[super::Model]| models.iter().any(|listed| listed.is_called(model));
        let stops: Vec<_> = listed.iter().enumerate().filter(|(_, models)| has(models)).map(|(index, _)| stop(index, model)).collect();
        if stops.is_empty() {
            return Err(Error::UnknownModel { model: model.to_owned(), known: self.names() });
        }
        Ok(stops)
    }

    fn default_member(&self) -> Option<usize> {
        self.members.iter().position(|member| member.is_default)
    }

    /// The backend to which requests go that name no model: the default, else the first.
    pub fn main_target(&self) -> Option<&Arc<Target>> {
        self.members.get(self.default_member().unwrap_or(0)).map(|member| &member.target)
    }
}

fn stop(backend: usize, model: &str) -> table::Stop {
    table::Stop { candidate: Candidate { backend, model: model.to_owned(), weight: 1 }, sampling: Vec::new() }
}

impl Backend for Router {
    fn stream(&self, prompt: Prompt) -> Events {
        let router = self.clone();
        Box::pin(try_stream! {
            let mut tour = router.tour(&prompt.request, &prompt.served).await?;
            loop {
                let (stay, stop) = tour.next().await?;
                stay.member.hear_declared().await;
                let mut events = stay.member.server.stream(tour::prompt_for(&prompt, &stay.member, &stop));
                let first = match events.next().await.transpose() {
                    Ok(first) => first,
                    Err(error) => {
                        tour.failed(&stay, error)?;
                        continue;
                    }
                };
                tour.served(&stay, &stop);
                if let Some(first) = first {
                    yield first;
                }
                while let Some(event) = events.next().await {
                    if let Err(error) = &event {
                        stay.member.failed(error);
                    }
                    yield event?;
                }
                break;
            }
        })
    }

    fn needs(&self, request: &Request) -> Needs {
        let stops = self.stops(request).unwrap_or_default();
        let asked = || stops.iter().filter_map(|stop| Some((self.members.get(stop.candidate.backend)?, stop)));
        Needs {
            strict_alternation: asked().any(|(member, _)| member.strict_alternation),
            form_when_required: !stops.is_empty() && asked().all(|(member, _)| member.kind.wants_form_when_required()),
            prompt_tools: asked().any(|(member, stop)| member.prompts_tools(&stop.candidate.model)),
        }
    }
}
