//! One backend among several: its server, how many may use it, whether it works, and what it said about its models.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    backend::{
        Error, Model, Server, Target, Tools,
        kind::{Config, Kind},
        readiness::Readiness,
        sampling::{self, Recommendation},
    },
    resilience::{
        breaker::{Breaker, Phase},
        bulkhead::{Bulkhead, Full, Place},
    },
    upstream,
};

/// How often a server is asked for its models.
const LIST_EVERY: Duration = Duration::from_secs(30);
/// A name that nobody has makes them list their models again no sooner than this.
const RELIST_AFTER: Duration = Duration::from_secs(5);
/// What a list of models may take where a request waits for it.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// A backend.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) is_default: bool,
    pub(super) strict_alternation: bool,
    pub(super) has_key: bool,
    pub(super) target: Arc<Target>,
    pub(super) server: Arc<dyn Server>,
    pub(super) tools: Tools,
    recommended_sampling: bool,
    probe_every: Option<Duration>,
    bulkhead: Option<Bulkhead>,
    breaker: Mutex<Breaker>,
    /// What the last probe said.
    is_ready: AtomicBool,
    models: Mutex<Option<Arc<Vec<Model>>>>,
    /// When a request last made it list its models.
    asked_at: Mutex<Option<Instant>>,
    /// Whether a model takes tools, as the server declared when it first listed the model.
    declared: Mutex<HashMap<String, bool>>,
    /// How long an answer takes, in ms, smoothed.
    answer_ms: AtomicU64,
}

impl Member {
    pub(super) fn new(config: Config, upstream: upstream::Config) -> Self {
        let target = config.target(upstream);
        Self {
            server: config.kind.server(&target),
            target,
            has_key: config.target.api_key.is_some(),
            name: config.name,
            kind: config.kind,
            is_default: config.is_default,
            strict_alternation: config.strict_alternation,
            tools: config.tools,
            recommended_sampling: config.recommended_sampling,
            probe_every: config.probe_every,
            bulkhead: config.bulkhead.map(Bulkhead::new),
            breaker: Mutex::new(Breaker::new(config.breaker)),
            is_ready: AtomicBool::new(true),
            models: Mutex::new(None),
            asked_at: Mutex::new(None),
            declared: Mutex::new(HashMap::new()),
            answer_ms: AtomicU64::new(0),
        }
    }

    /// Whether it is worth asking now.
    pub(super) fn works(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed) && lock(&self.breaker).try_enter(Instant::now())
    }

    /// A place, if there is one at once.
    pub(super) fn try_enter(self: &Arc<Self>) -> Option<Stay> {
        match &self.bulkhead {
            None => Some(self.stay(None)),
            Some(bulkhead) => bulkhead.try_enter().map(|place| self.stay(Some(place))),
        }
    }

    /// Waits for a place. Fails when it has too much to do.
    pub(super) async fn enter(self: &Arc<Self>) -> Result<Stay, Error> {
        let place = match &self.bulkhead {
            None => None,
            Some(bulkhead) => Some(bulkhead.enter().await.map_err(|full| self.busy(full))?),
        };
        Ok(self.stay(place))
    }

    /// For a request that takes nobody's place: it does not generate.
    pub(super) fn stay(self: &Arc<Self>, place: Option<Place>) -> Stay {
        Stay { member: Arc::clone(self), since: Instant::now(), place, answers: false }
    }

    fn busy(&self, full: Full) -> Error {
        let (inside, waiting) = self.load();
        let answer_ms = self.answer_ms.load(Ordering::Relaxed).max(1_000);
        // Until all that wait now are served.
        let wait_ms = answer_ms.saturating_mul(waiting as u64 + 1) / (inside.max(1) as u64);
        Error::Busy { reason: full.to_string(), retry_after_s: wait_ms.div_ceil(1_000).clamp(1, 60) }
    }

    /// How many requests it works on and how many wait; zeros where nothing is limited.
    pub(super) fn load(&self) -> (usize, usize) {
        self.bulkhead.as_ref().map_or((0, 0), Bulkhead::load)
    }

    /// It answered.
    pub(super) fn succeeded(&self) {
        lock(&self.breaker).succeeded();
    }

    /// A request ended in `error`. Who refuses a request works.
    pub(super) fn failed(&self, error: &Error) {
        if matches!(error, Error::Status(refusal) if refusal.status < 500) {
            self.succeeded();
        }
        if !error.is_servers_fault() {
            return;
        }
        let now = Instant::now();
        let mut breaker = lock(&self.breaker);
        let before = breaker.phase(now);
        breaker.failed(now);
        let after = breaker.phase(now);
        drop(breaker);
        if before != after {
            tracing::warn!(backend = self.name, %error, "backend fails: it is stepped away from for a while");
        }
    }

    /// The breaker's state.
    pub(super) fn phase(&self) -> Phase {
        lock(&self.breaker).phase(Instant::now())
    }

    /// Asks whether it can answer, and remembers.
    pub(super) async fn probe(&self) -> Readiness {
        let readiness = self.server.readiness().await;
        let is_ready = matches!(readiness, Readiness::Ready);
        if self.is_ready.swap(is_ready, Ordering::Relaxed) != is_ready {
            tracing::info!(backend = self.name, ?readiness, "readiness changed");
        }
        readiness
    }

    /// Probes it as often as is set. Never ends.
    pub(super) async fn keep_probing(&self) {
        let Some(every) = self.probe_every else { return std::future::pending().await };
        loop {
            self.probe().await;
            tokio::time::sleep(every).await;
        }
    }

    /// Asks for its models now and then. Never ends.
    pub(super) async fn keep_listing(&self) {
        loop {
            if let Err(error) = self.list().await {
                tracing::debug!(backend = self.name, %error, "list models");
            }
            tokio::time::sleep(LIST_EVERY).await;
        }
    }

    /// Asks for its models, for a moment, unless it was asked just now.
    pub(super) async fn list_again(&self) -> Result<Arc<Vec<Model>>, Error> {
        let is_fresh = lock(&self.asked_at).replace(Instant::now()).is_some_and(|asked| asked.elapsed() < RELIST_AFTER);
        if is_fresh && let Some(models) = self.known() {
            return Ok(models);
        }
        let late = |_| Err(Error::Stalled(upstream::Error::FirstByte(LIST_TIMEOUT)));
        tokio::time::timeout(LIST_TIMEOUT, self.list()).await.unwrap_or_else(late)
    }

    /// Asks for its models, and remembers what it says.
    pub(super) async fn list(&self) -> Result<Arc<Vec<Model>>, Error> {
        let models = Arc::new(self.server.models().await?);
        let mut declared = lock(&self.declared);
        for model in models.iter().filter(|model| !model.capabilities.is_empty()) {
            let takes_tools = || model.capabilities.iter().any(|capability| capability == "tools");
            for name in model.names() {
                declared.entry(name.to_owned()).or_insert_with(takes_tools);
            }
        }
        drop(declared);
        *lock(&self.models) = Some(Arc::clone(&models));
        Ok(models)
    }

    /// Its models as last listed.
    pub(super) fn known(&self) -> Option<Arc<Vec<Model>>> {
        lock(&self.models).clone()
    }

    /// Whether tools are written into the prompt for `model`.
    pub(super) fn prompts_tools(&self, model: &str) -> bool {
        match self.tools {
            Tools::Native => false,
            Tools::Prompt => true,
            Tools::Auto => self.kind.declares_tools() && lock(&self.declared).get(model).is_some_and(|takes_tools| !takes_tools),
        }
    }

    /// What the maker of `model` recommends, where that is to be followed. A server of one model is asked for it by any name.
    pub(super) fn recommended(&self, model: &str) -> Option<&'static Recommendation> {
        if !self.recommended_sampling {
            return None;
        }
        let only = || self.known().and_then(|models| if let [only] = models.as_slice() { sampling::recommended(&only.id) } else { None });
        sampling::recommended(model).or_else(only)
    }

    /// Hears what the server declares about its models before it is first asked with tools, where that decides how they are shown.
    pub(super) async fn hear_declared(&self) {
        if self.tools == Tools::Auto
            && self.kind.declares_tools()
            && self.known().is_none()
            && let Err(error) = self.list_again().await
        {
            tracing::debug!(backend = self.name, %error, "list models");
        }
    }
}

/// A request that a member works on. Dropping it makes room for the next.
pub(super) struct Stay {
    pub(super) member: Arc<Member>,
    since: Instant,
    place: Option<Place>,
    /// It has begun to answer, and not failed since.
    pub(super) answers: bool,
}

impl Stay {
    /// The answer broke off.
    pub(super) fn broke_off(&mut self) {
        if std::mem::take(&mut self.answers) {
            self.member.failed(&Error::Protocol("the answer broke off"));
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // Whoever ends it, who is answering works.
        if self.answers {
            self.member.succeeded();
        }
        if self.place.is_none() {
            return;
        }
        let took = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let smooth = |before: u64| Some(if before == 0 { took } else { before - before / 8 + took / 8 });
        // The closure always answers.
        self.member.answer_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, smooth).ok();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each of them is whole after any panic: they are replaced or added to in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
