//! What the backends have and how they are, for clients and operators.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use serde::Serialize;

use super::{Error, Member, Router, member::LIST_TIMEOUT};
use crate::{
    backend::{self, readiness::Readiness},
    upstream,
};

/// A model as clients see it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What is known about it, under the name that clients ask for.
    pub model: backend::Model,
    /// The backend that is asked first.
    pub backend: String,
}

/// How a backend is.
#[derive(Debug, Serialize)]
pub struct Health {
    /// What it is called.
    pub name: String,
    kind: &'static str,
    /// `ready`, `not_ready` or `unreachable`.
    pub status: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The state of its breaker.
    breaker: &'static str,
    /// Requests that it works on, where they are limited.
    active: usize,
    /// Requests that wait for it.
    waiting: usize,
    /// How tools are shown, as declared.
    tools: &'static str,
    models: Vec<ModelHealth>,
}

/// What is known of a model at a backend.
#[derive(Debug, Serialize)]
struct ModelHealth {
    id: String,
    /// `native` or `prompt`.
    tools: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u64>,
}

impl Router {
    /// Every model that a request may name, once: those of the configuration, then those of the backend that takes all others. Where the
    /// configuration names none, those of all backends. Asks the backends. Fails when none of them answers and nothing is known.
    pub async fn models(&self) -> Result<Vec<Listed>, Error> {
        let lists = join_all(self.members.iter().map(fresh)).await;
        let own: Vec<_> = lists.iter().map(|list| list.as_ref().map(Arc::clone).unwrap_or_default()).collect();
        if self.table.models().is_empty()
            && lists.iter().all(Result::is_err)
            && let Some(Err(error)) = lists.into_iter().next()
        {
            return Err(error);
        }
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for model in self.table.models() {
            let first = model.candidates.first();
            let known = first.and_then(|first| own.get(first.backend)?.iter().find(|known| known.is_called(&first.model)));
            let backend = first.and_then(|first| self.members.get(first.backend)).map_or("", |member| &member.name);
            for name in [&model.name].into_iter().chain(&model.aliases) {
                let named = backend::Model { id: name.clone(), ..known.cloned().unwrap_or_default() };
                all.push(Listed { model: named, backend: backend.to_owned() });
            }
        }
        let is_open = self.table.models().is_empty();
        for (member, models) in self.members.iter().zip(&own).filter(|(member, _)| is_open || member.is_default) {
            all.extend(models.iter().map(|model| Listed { model: model.clone(), backend: member.name.clone() }));
        }
        all.retain(|listed| seen.insert(listed.model.id.clone()));
        Ok(all)
    }

    /// The names that a request may give as its model, as far as they are known.
    pub(super) fn names(&self) -> Vec<String> {
        let configured = self.table.models().iter().flat_map(|model| [&model.name].into_iter().chain(&model.aliases)).cloned();
        let is_open = self.table.models().is_empty();
        let listed = self.members.iter().filter(|member| is_open || member.is_default).filter_map(|member| member.known());
        let mut names: Vec<String> =
            configured.chain(listed.flat_map(|models| models.iter().map(|model| model.id.clone()).collect::<Vec<_>>())).collect();
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// What is wrong with the backends and their keys, one sentence each. Asks them.
    pub async fn check(&self) -> Vec<String> {
        let check = async |member: &Arc<Member>| {
            let name = &member.name;
            match member.server.readiness().await {
                Readiness::Ready if member.has_key && member.target.refuses_key().await => Some(format!("{name}: it refuses the key")),
                Readiness::Ready => None,
                Readiness::NotReady(reason) | Readiness::Unreachable(reason) => Some(format!("{name}: it is not ready: {reason}")),
            }
        };
        join_all(self.members.iter().map(check)).await.into_iter().flatten().collect()
    }

    /// Asks every backend how it is.
    pub async fn health(&self) -> Vec<Health> {
        join_all(self.members.iter().map(health)).await
    }
}

/// The models of `member` now, or as last listed where it does not say.
async fn fresh(member: &Arc<Member>) -> Result<Arc<Vec<backend::Model>>, Error> {
    match tokio::time::timeout(LIST_TIMEOUT, member.list()).await {
        Ok(Ok(models)) => Ok(models),
        Ok(Err(error)) => member.known().ok_or(error),
        Err(_) => member.known().ok_or(Error::Stalled(upstream::Error::FirstByte(LIST_TIMEOUT))),
    }
}

async fn health(member: &Arc<Member>) -> Health {
    let readiness = member.server.readiness().await;
    let (status, reason) = match readiness {
        Readiness::Ready => ("ready", None),
        Readiness::NotReady(reason) => ("not_ready", Some(reason)),
        Readiness::Unreachable(reason) => ("unreachable", Some(reason)),
    };
    let of_model = |model: &backend::Model| ModelHealth {
        id: model.id.clone(),
        tools: if member.prompts_tools(&model.id) { "prompt" } else { "native" },
        context_length: model.context_length,
    };
    let (active, waiting) = member.load();
    Health {
        name: member.name.clone(),
        kind: member.kind.as_str(),
        status,
        reason,
        tools: member.tools.as_str(),
        breaker: member.phase().as_str(),
        active,
        waiting,
        models: member.known().iter().flat_map(|models| models.iter()).map(of_model).collect(),
    }
}
