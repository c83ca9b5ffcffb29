//! The client against a server over sockets: what it asks, what it keeps, and what is booked in the end. The names begin with the ids of the
//! scenarios of the protocol's profile for recovery.

mod beating;
mod durable;
mod question;
mod recovery;
mod reserving;
mod server;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use self::server::{Fault, Server, error};
use super::{Ask, Config, Cycles, Lease, Metrics, Retries};
use crate::{
    budget::{
        Subject, Unit,
        ledger::{Action, Overage},
    },
    resilience::tasks::Tasks,
    secret::Secret,
};

/// The client's time-out, short so that a silence is.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Tries in quick succession.
const RETRIES: Retries =
    Retries { first: Duration::from_millis(20), longest: Duration::from_millis(200), tries_max: 5, slow: Duration::from_millis(300) };
const API_KEY: &str = "cyc_live_0123456789";

/// A server with a budget of 10,000, and where its clients keep their journal.
struct Bench {
    server: Server,
    folder: PathBuf,
}

impl Bench {
    async fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("toolgate-cycles-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let server = Server::start(10_000).await;
        server.watch(folder.clone());
        Self { server, folder }
    }

    fn config(&self) -> Config {
        Config {
            url: self.server.url(),
            api_key: Some(Secret::new(API_KEY)),
            timeout: TIMEOUT,
            ttl: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            journal: self.folder.clone(),
            unit: Unit::UsdMicrocents,
            overage: Overage::Reject,
        }
    }

    /// A client, as a process that starts now has it.
    fn client(&self) -> Cycles {
        self.client_of(self.config())
    }

    fn client_of(&self, config: Config) -> Cycles {
        Cycles::with_retries(config, Tasks::default(), RETRIES).unwrap()
    }

    /// A client in a runtime of its own, which can die at any moment.
    fn process(&self) -> (Cycles, tokio::runtime::Runtime) {
        (self.client(), tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())
    }

    /// The records of the journal, as text.
    fn journal(&self) -> Vec<String> {
        let is_record = |path: &PathBuf| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
        let files = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_record);
        files.filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    /// Waits until `count` questions of `operation` have arrived.
    async fn asked(&self, operation: &str, count: usize) {
        eventually(operation, || self.server.asked(operation).len() >= count).await;
    }

    /// Waits until the server was told, and the journal is empty.
    async fn settled(&self) {
        self.asked("commit", 1).await;
        eventually("the journal is empty", || self.journal().is_empty()).await;
    }

    /// Waits until the tenant has used and put aside so much.
    async fn balanced(&self, spent: u64, reserved: u64) {
        for _ in 0..500 {
            let balance = self.server.balance().await;
            if (balance.spent, balance.reserved) == (spent, reserved) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", self.server.balance().await);
    }
}

/// A call of a tool that costs 5,000 at most.
fn ask(key: &str) -> Ask {
    Ask {
        idempotency_key: key.to_owned(),
        subject: Subject { tenant: Some("acme".to_owned()), ..Subject::default() },
        // What belongs to the ledger here alone is not sent.
        action: Action { kind: "tool.read".to_owned(), name: "web.search".to_owned(), key: "k".to_owned(), ..Action::default() },
        estimate: 5_000,
    }
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("did not come: {what}");
}

/// What is logged on this thread, from now on.
fn log() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn commit(lease: Lease) {
    lease.commit(3_000, Metrics { latency_ms: Some(12), ..Metrics::default() });
}

fn keys(server: &Server, operations: &[&str]) -> Vec<String> {
    let is_meant = |operation: &str| operations.contains(&operation);
    server.seen().iter().filter(|seen| is_meant(&seen.operation)).map(|seen| seen.key().to_owned()).collect()
}

fn corrupt(folder: &Path) {
    fs::write(folder.join("corrupt.json"), "{").unwrap();
}
