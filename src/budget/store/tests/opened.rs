//! An empty ledger in one of the places, and the words in which the tests speak to it.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::redis::server::{Server, ledger};
use crate::budget::{
    Amount, Subject, Unit,
    ledger::{Action, Balance, Code, Committed, Error, Event, Overage, Request, Terms},
    store::{
        Store, clock,
        file::{File, Sync},
        memory::Memory,
    },
};

pub(super) const UNIT: Unit = Unit::Credits;
pub(super) const TENANT: &str = "tenant:t";
pub(super) const AGENT: &str = "tenant:t/agent:a";
/// When the tests begin: long after now, so that whatever looks at the clock of the machine finds nothing to forget.
const BEGIN_MS: u64 = 4_000_000_000_000;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Where a ledger can be kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Memory,
    File(Sync),
    Redis,
}

/// A ledger there, of this test alone.
pub(super) struct Opened {
    pub(super) store: Store,
    /// What it needs as long as it is used.
    _place: Option<Needed>,
}

/// What a place is in. A folder is removed after the store is closed.
#[expect(dead_code, reason = "they are held for what their drop does")]
enum Needed {
    Folder(Folder),
    Server(Arc<Server>),
}

impl Place {
    /// An empty one.
    pub(super) async fn empty(self) -> Opened {
        at(0);
        match self {
            Self::Memory => Opened { store: Store::Memory(Memory::default()), _place: None },
            Self::File(sync) => {
                let folder = Folder::new();
                Opened { store: Store::File(File::open(folder.0.join("ledger"), sync).unwrap()), _place: Some(Needed::Folder(folder)) }
            }
            Self::Redis => {
                let server = Server::shared();
                let store = Store::Redis(Box::new(ledger(&server.url(), &format!("{}:", key()))));
                Opened { store, _place: Some(Needed::Server(server)) }
            }
        }
    }

    /// One with these budgets: allocated and overdraft limit of the tenant, and of the agent where there is one.
    pub(super) async fn with(self, tenant: (u64, u64), agent: Option<(u64, u64)>) -> Opened {
        let opened = self.empty().await;
        opened.budget(TENANT, UNIT, tenant).await;
        if let Some(agent) = agent {
            opened.budget(AGENT, UNIT, agent).await;
        }
        opened
    }

    /// How many random lives are tried.
    pub(super) fn lives(self) -> u32 {
        match self {
            Self::Memory => 256,
            // Each opens a file.
            Self::File(_) => 24,
            Self::Redis => 64,
        }
    }
}

impl Opened {
    pub(super) async fn budget(&self, scope: &str, unit: Unit, (allocated, overdraft_limit): (u64, u64)) {
        let terms = Terms { allocated: Some(allocated), overdraft_limit: Some(overdraft_limit), ..Terms::default() };
        self.store.allocate(scope, unit, &terms).await.unwrap();
    }

    pub(super) async fn balance(&self, scope: &str) -> Balance {
        self.find(scope, UNIT).await.unwrap()
    }

    pub(super) async fn find(&self, scope: &str, unit: Unit) -> Option<Balance> {
        let balances = self.store.balances().await.unwrap();
        balances.into_iter().find(|(known, counted, _)| known == scope && *counted == unit).map(|(.., balance)| balance)
    }

    /// The id of a new reservation.
    pub(super) async fn reserve(&self, amount: u64, overage: Overage) -> Result<String, Code> {
        self.ask(&request(amount, overage)).await
    }

    /// The id of the reservation that is asked for.
    pub(super) async fn ask(&self, request: &Request) -> Result<String, Code> {
        self.store.reserve(request).await.map(|reserved| reserved.reservation_id).map_err(code)
    }

    /// What was charged, and what was given back.
    pub(super) async fn commit(&self, id: &str, amount: u64) -> Result<(u64, Option<u64>), Code> {
        let committed = self.commit_as(&key(), id, amount).await?;
        Ok((sum(&committed.charged), committed.released.first().map(|released| released.amount)))
    }

    pub(super) async fn commit_as(&self, key: &str, id: &str, amount: u64) -> Result<Committed, Code> {
        self.store.commit(id, key, &[Amount::new(UNIT, amount)]).await.map_err(code)
    }
}

/// A folder of a test's own, removed at its end.
pub(in crate::budget::store) struct Folder(pub(in crate::budget::store) PathBuf);

impl Folder {
    pub(in crate::budget::store) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("toolgate-ledger-{}-{}", std::process::id(), key()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// From here on it is so many milliseconds after the beginning.
pub(super) fn at(ms: u64) {
    clock::say(since_begin(ms));
}

/// So many milliseconds after the beginning, as milliseconds since 1970.
pub(super) fn since_begin(ms: u64) -> u64 {
    BEGIN_MS + ms
}

/// One that was not used.
pub(super) fn key() -> String {
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

pub(super) fn subject() -> Subject {
    Subject { tenant: Some("t".into()), agent: Some("a".into()), ..Subject::default() }
}

pub(super) fn request(amount: u64, overage_policy: Overage) -> Request {
    Request {
        idempotency_key: key(),
        subject: subject(),
        action: Action::default(),
        estimates: vec![Amount::new(UNIT, amount)],
        quotas: Vec::new(),
        opens: false,
        ttl_ms: 60_000,
        grace_period_ms: 5_000,
        overage_policy,
    }
}

pub(super) fn event(amount: u64, overage_policy: Overage) -> Event {
    Event {
        idempotency_key: key(),
        subject: subject(),
        action: Action::default(),
        actuals: vec![Amount::new(UNIT, amount)],
        quotas: Vec::new(),
        opens: false,
        overage_policy,
    }
}

pub(super) fn sum(amounts: &[Amount]) -> u64 {
    amounts.iter().map(|amount| amount.amount).sum()
}

pub(super) fn code(error: Error) -> Code {
    match error {
        Error::Refused(refusal) => refusal.code,
        Error::Store(error) => panic!("{error}"),
    }
}
