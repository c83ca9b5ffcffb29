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

use std::sync::{Arc, Mutex, PoisonError};

use async_stream::try_stream;
use futures_util::{StreamExt, future::join_all};

pub use self::{
    held::Held,
    listing::{Health, Listed},
    table::{Candidate, Model},
};
use self::{member::Member, table::Table, tour::Tour};
use super::{Backend, Error, Events, Needs, Prompt, kind};
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
    last: Arc<Mutex<Option<Candidate>>>,
    is_bound: bool,
    /// Others may still be asked.
    has_others: bool,
}

impl Served {
    /// The same, where part of the answer was shown: no other may go on with it.
    pub fn bound(&self) -> Self {
        Self { is_bound: true, ..self.clone() }
    }

    /// Whether somebody else may answer if this backend does not: it need not wait for what may be long.
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    fn last(&self) -> Option<Candidate> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, candidate: &Candidate) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(candidate.clone());
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
            None => self.listed_stops(request).await?,
        };
        let with_member = stops.into_iter().filter_map(|stop| Some((Arc::clone(self.members.get(stop.candidate.backend)?), stop)));
        Ok(Tour::new(with_member.collect(), served.clone()))
    }

    /// Who is asked, as far as is known. Without names in the configuration those have a model that list it.
    fn stops(&self, request: &Request) -> Option<Vec<table::Stop>> {
        let name = &request.model;
        let listed = || {
            // Who is alone gets every name, and names in the configuration are all that there are.
            if self.is_single() || !self.table.models().is_empty() {
                return None;
            }
            let has = |member: &Arc<Member>| member.known().is_some_and(|models| models.iter().any(|listed| listed.is_called(name)));
            let stops: Vec<_> = (0..).zip(&self.members).filter(|(_, member)| has(member)).map(|(index, _)| stop(index, name)).collect();
            (!stops.is_empty()).then_some(stops)
        };
        let default = || self.default_member().map(|index| vec![stop(index, name)]);
        self.table.route(name, || request.conversation()).or_else(listed).or_else(default)
    }

    /// The same, where nobody is known to have the model: they are asked.
    async fn listed_stops(&self, request: &Request) -> Result<Vec<table::Stop>, Error> {
        // Names in the configuration are all the names that there are.
        let asked: &[_] = if self.table.models().is_empty() { &self.members } else { &[] };
        let lists = join_all(asked.iter().map(|member| member.list_again())).await;
        if let Some(stops) = self.stops(request) {
            return Ok(stops);
        }
        // Who does not answer may have it.
        lists.into_iter().collect::<Result<Vec<_>, _>>()?;
        Err(Error::UnknownModel { model: request.model.clone(), known: self.names() })
    }

    /// Who may be asked, each with the name of the model there: all, where it is not known who has it.
    fn concerned(&self, request: &Request) -> Vec<(&Arc<Member>, String)> {
        match self.stops(request) {
            Some(stops) => {
                stops.into_iter().filter_map(|stop| Some((self.members.get(stop.candidate.backend)?, stop.candidate.model))).collect()
            }
            None => self.members.iter().map(|member| (member, request.model.clone())).collect(),
        }
    }

    fn is_single(&self) -> bool {
        self.members.len() == 1
    }

    fn default_member(&self) -> Option<usize> {
        self.members.iter().position(|member| member.is_default)
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
                let (mut stay, stop) = tour.next().await?;
                stay.member.hear_declared().await;
                let mut events = stay.member.server.stream(tour.prompt_for(&prompt, &stay.member, &stop));
                let first = match events.next().await.transpose() {
                    Ok(first) => first,
                    Err(error) => {
                        tour.failed(&stay, error)?;
                        continue;
                    }
                };
                tour.served(&stop);
                stay.answers = true;
                if let Some(first) = first {
                    yield first;
                }
                while let Some(event) = events.next().await {
                    if let Err(error) = &event {
                        stay.answers = false;
                        stay.member.failed(error);
                    }
                    yield event?;
                }
                break;
            }
        })
    }

    fn needs(&self, request: &Request) -> Needs {
        let concerned = self.concerned(request);
        Needs {
            strict_alternation: concerned.iter().any(|(member, _)| member.strict_alternation),
            form_when_required: !concerned.is_empty() && concerned.iter().all(|(member, _)| member.kind.wants_form_when_required()),
            prompt_tools: concerned.iter().any(|(member, model)| member.prompts_tools(model)),
        }
    }
}
