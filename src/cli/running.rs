//! The books of budgets, for commands: those of the toolgate that runs, asked over HTTP, or, where none does, the ledger itself.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use form_urlencoded::Serializer;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::{Deserialize, de::DeserializeOwned};

use super::report;
use crate::{
    app,
    budget::{
        Change, Store,
        ledger::{Entry, Error},
        statement::{self, Line},
    },
    config::{Config, budget::Books as Kept, env::Env},
    secret::Secret,
    upstream::{self, Client},
    wire::openai::ErrorBody,
};

/// The variable that holds the key of an administrator.
const KEY: &str = "TOOLGATE_ADMIN_KEY";
/// More than a page of entries has.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How many entries are asked for at once.
const PAGE: usize = 10_000;

/// Where the books are.
pub(super) enum Books {
    /// A toolgate that runs has them.
    Running(Running),
    /// Nobody has them open but this command.
    Own(Arc<Store>),
}

/// A toolgate that runs.
pub(super) struct Running {
    address: SocketAddr,
    client: Client,
    key: Option<Secret>,
    /// Whether some key of the configuration is an administrator's.
    has_admin: bool,
}

#[derive(Deserialize)]
struct Balances {
    balances: Vec<Line>,
}

impl Balances {
    fn read(self) -> Vec<Line> {
        self.balances.into_iter().map(Line::with_dollars).collect()
    }
}

#[derive(Deserialize)]
struct Page {
    entries: Vec<Entry>,
    next: Option<String>,
}

/// The key that was typed, else that of the environment.
pub(super) fn key(typed: Option<String>, env: &impl Env) -> Option<Secret> {
    typed.or_else(|| env.get(KEY)).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).map(|key| Secret::new(&key))
}

impl Books {
    /// The books of the toolgate that listens at the configured address, which is shown `key`; where none listens, those that the
    /// configuration names, which is said. Fails where neither can be had.
    pub(super) async fn open(config: &Config, key: Option<Secret>) -> anyhow::Result<Self> {
        if let Some(running) = Running::find(config, key).await? {
            return Ok(Self::Running(running));
        }
        let address = app::reachable(config.server.listen);
        let place = match &config.budget.books {
            Kept::Off => bail!("no toolgate listens at {address}, and no books are configured: see budget.store"),
            Kept::Memory => bail!("no toolgate listens at {address}, and books in memory end with it"),
            Kept::File { path, .. } => path.display().to_string(),
            Kept::Redis(_) => "Redis".to_owned(),
        };
        let store = app::books(config)?.ok_or_else(|| anyhow!("no books are configured: see budget.store"))?;
        report(&mut std::io::stderr(), &[format!("no toolgate listens at {address}: the books in {place} are used")]);
        Ok(Self::Own(store))
    }

    /// Every budget; with `scope`, that one and those below it.
    pub(super) async fn balances(&self, scope: Option<&str>) -> anyhow::Result<Vec<Line>> {
        match self {
            Self::Own(store) => Ok(statement::all(store, scope).await?),
            Self::Running(running) => {
                let query = match scope {
                    Some(scope) => encoded(&[("scope", scope)]),
                    None => encoded(&[("all", "true")]),
                };
                let told: Balances = running.ask(Method::GET, &format!("/budget?{query}"), Bytes::new()).await?;
                Ok(told.read())
            }
        }
    }

    /// What the shown key may know of: its own budgets and limits.
    pub(super) async fn own(&self) -> anyhow::Result<Vec<Line>> {
        match self {
            Self::Own(_) => bail!("whose budgets a key spends is known to a toolgate that runs"),
            Self::Running(running) => {
                let told: Balances = running.ask(Method::GET, "/budget", Bytes::new()).await?;
                Ok(told.read())
            }
        }
    }

    /// Makes `change`; returns the budgets that it was about.
    pub(super) async fn change(&self, change: &Change) -> anyhow::Result<Vec<Line>> {
        match self {
            Self::Own(store) => change.make(store).await.map_err(|error: Error| error.into()),
            Self::Running(running) => {
                let (operation, body) = change.written();
                let told: Balances = running.ask(Method::POST, &format!("/budget/{operation}"), body.to_string().into()).await?;
                Ok(told.read())
            }
        }
    }
}

/// Why there is no answer.
enum Failure {
    /// Nobody listens.
    Absent,
    /// Anything else.
    Other(anyhow::Error),
}

impl Running {
    /// The toolgate that listens at the configured address, which is shown `key`; `None` where none does. Fails where something listens
    /// that does not answer as a toolgate does.
    pub(super) async fn find(config: &Config, key: Option<Secret>) -> anyhow::Result<Option<Self>> {
        let address = app::reachable(config.server.listen);
        let url: Uri = format!("http://{address}").parse().context("make the address a URL")?;
        let running = Self { address, client: Client::new(&url, config.upstream.clone()), key, has_admin: config.keys.has_admin() };
        match running.send(Method::GET, "/health/live", Bytes::new()).await {
            Ok(_) => Ok(Some(running)),
            Err(Failure::Absent) => Ok(None),
            Err(Failure::Other(error)) => Err(error.context(format!("ask the toolgate at {address}"))),
        }
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The lines of its books from `since_ms` until before `until_ms`, milliseconds since 1970, the oldest first.
    pub(super) async fn entries(&self, since_ms: u64, until_ms: u64) -> anyhow::Result<Vec<Entry>> {
        let (since, until, limit) = (since_ms.to_string(), until_ms.to_string(), PAGE.to_string());
        let (mut entries, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("since", since.as_str()), ("until", &until), ("limit", &limit)];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let page: Page = self.ask(Method::GET, &format!("/budget/entries?{}", encoded(&query)), Bytes::new()).await?;
            entries.extend(page.entries);
            after = Some(match page.next {
                Some(next) => next,
                None => return Ok(entries),
            });
        }
    }

    /// The answer to a request, read as JSON. Fails with what toolgate says where it refuses it.
    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        let failed = |failure| match failure {
            Failure::Absent => anyhow!("it is gone"),
            Failure::Other(error) => error,
        };
        let answer =
            self.send(method, path, body).await.map_err(failed).with_context(|| format!("ask the toolgate at {}", self.address))?;
        serde_json::from_slice(&answer).with_context(|| format!("read what the toolgate at {} answers", self.address))
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
            let mut value = value.map_err(|_| Failure::Other(anyhow!("the key cannot be sent: it must be visible ASCII characters")))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(body).map_err(|error| Failure::Other(error.into()))?;
        let response = self.client.send_once(request).await.map_err(|error| match error {
            upstream::Error::Connect(_) => Failure::Absent,
            error => Failure::Other(error.into()),
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::Other(anyhow!(error)))?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(Failure::Other(refusal(status, &body, self.has_admin))) }
    }
}

/// What toolgate says of a request that it refuses.
fn refusal(status: StatusCode, body: &[u8], has_admin: bool) -> anyhow::Error {
    let ErrorBody { message, code, .. } = ErrorBody::read(body);
    let said = message.unwrap_or_else(|| status.to_string());
    let hint = match code.as_deref() {
        Some("invalid_api_key" | "api_key_expired" | "admin_required") if has_admin => {
            format!(" (set {KEY} to the key of an administrator)")
        }
        Some("admin_required") => format!(
            " (no key of this configuration is an administrator's: make one with `toolgate key new NAME`, put `admin = true` into its table, \
             start toolgate anew and set {KEY} to it; every client needs a key then. Or stop toolgate: what reads its ledger itself needs none)"
        ),
        Some("invalid_api_key" | "api_key_expired") => format!(" (set {KEY} to a key that toolgate knows)"),
        _ => String::new(),
    };
    anyhow!("{said}{hint}")
}

fn encoded(query: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(query).finish()
}
