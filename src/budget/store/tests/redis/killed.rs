//! Kills in the middle of a load: of the process that asks, and of the server.
//!
//! The load is a list of operations that is always the same: a reservation and its commit, or an event. Its journal has a line for each that
//! was answered. Whoever is started after a kill replays it with the same keys; then the books are the sum of the list.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write,
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};

use super::{
    super::opened::{Folder, TENANT, UNIT, event, request},
    server::{Server, ledger},
};
use crate::budget::{
    Amount, Unit,
    ledger::{Balance, Error, Event, Overage, Request, Terms},
    store::redis::Redis,
};
use crate::resilience::tasks::Tasks;

const OPERATIONS: u64 = 10_000;
/// With a server that waits for its disk.
const SYNCED_OPERATIONS: u64 = 3_000;
const PATIENCE: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 16;

/// What the operation costs; what is estimated is 100.
fn cost(operation: u64) -> u64 {
    operation * 7 % 101
}

/// Does one operation.
async fn operate(redis: &Redis, operation: u64) -> Result<(), Error> {
    let idempotency_key = operation.to_string();
    let cost = Amount::new(UNIT, cost(operation));
    if operation.is_multiple_of(3) {
        return redis.event(&Event { idempotency_key, ..event(cost.amount, Overage::default()) }).await.map(drop);
    }
    let asked = Request { idempotency_key, ttl_ms: 600_000, ..request(100, Overage::default()) };
    let id = redis.reserve(&asked).await?.reservation_id;
    redis.commit(&id, "commit", &[cost]).await.map(drop)
}

/// Does those of the list up to a number, some at once, and writes each that is answered into the journal.
async fn work(redis: &Redis, operations: u64, journal: &str) -> Result<(), Error> {
    let journal = Mutex::new(OpenOptions::new().create(true).append(true).open(journal).unwrap());
    let all = stream::iter(0..operations).map(|operation| {
        let journal = &journal;
        async move {
            operate(redis, operation).await?;
            writeln!(journal.lock().unwrap(), "{operation}").unwrap();
            Ok::<_, Error>(())
        }
    });
    let mut outcomes = all.buffer_unordered(AT_ONCE);
    while let Some(outcome) = outcomes.next().await {
        outcome?;
    }
    Ok(())
}

/// The operations in the journal.
fn journaled(journal: &str) -> BTreeSet<u64> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    // A line that was cut by a kill is none.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(|line| line.parse().ok()).collect()
}

fn folder() -> Folder {
    let folder = Folder::new();
    fs::create_dir_all(&folder.0).unwrap();
    folder
}

fn path(folder: &Folder, name: &str) -> String {
    folder.0.join(name).to_str().unwrap().to_owned()
}

async fn opened(redis: &Redis) {
    redis.allocate(TENANT, UNIT, &Terms { allocated: Some(100_000_000), ..Terms::default() }).await.unwrap();
}

/// The balances of a server that is back.
async fn found(redis: &Redis) -> Vec<(String, Unit, Balance)> {
    let back = Instant::now();
    loop {
        match redis.balances().await {
            Ok(balances) => return balances,
            Err(error) => assert!(back.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The books are the sum of what was done, each once.
async fn check(redis: &Redis, operations: impl Iterator<Item = u64>) {
    let (count, sum) = operations.fold((0, 0), |(count, sum), operation| (count + 1, sum + cost(operation)));
    let balance = redis.balances().await.unwrap().remove(0).2;
    assert_eq!((balance.spent, balance.reserved, balance.debt), (sum, 0, 0));
    let entries = redis.entries(0, u64::MAX, usize::MAX).await.unwrap();
    assert_eq!((entries.len(), entries.iter().map(|entry| entry.charged[0].amount).sum()), (count, sum));
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_has_the_sum_of_the_journal_when_the_client_is_killed() {
    let (server, folder) = (Server::shared(), folder());
    let journal = path(&folder, "journal");
    let redis = ledger(&server.url(), "client:");
    opened(&redis).await;
    for kill in 1..=4 {
        let variables = [("LEDGER_URL", &*server.url()), ("LEDGER_JOURNAL", &*journal)];
        let mut child = super::process("killed::works", &variables).stdout(Stdio::null()).spawn().unwrap();
        // Each gets further than the one before, and none to the end.
        while journaled(&journal).len() < kill * 1500 && child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "it was killed");
    }
    let known = journaled(&journal).len();
    assert!((6000..10_000).contains(&known), "{known} operations");
    work(&redis, OPERATIONS, &journal).await.unwrap();
    assert!(journaled(&journal).into_iter().eq(0..OPERATIONS));
    check(&redis, 0..OPERATIONS).await;
}

#[tokio::test]
#[ignore = "is the process that the test above kills"]
async fn works() {
    let redis = ledger(&super::variable("LEDGER_URL"), "client:");
    work(&redis, OPERATIONS, &super::variable("LEDGER_JOURNAL")).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_keeps_what_it_answered_when_it_is_killed() {
    let folder = folder();
    let journal = path(&folder, "journal");
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always", "--dir", &path(&folder, "")]);
    let redis = Arc::new(ledger(&server.url(), "server:"));
    opened(&redis).await;
    for kill in 1..=3 {
        let working = {
            let (redis, journal) = (Arc::clone(&redis), journal.clone());
            Tasks::default().spawn(async move { work(&redis, SYNCED_OPERATIONS, &journal).await })
        };
        while journaled(&journal).len() < kill * 700 && !working.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.kill();
        assert!(working.await.unwrap().is_err(), "it was in the middle of something");
        server.begin();
        let answered: u64 = journaled(&journal).into_iter().map(cost).sum();
        let spent = found(&redis).await.remove(0).2.spent;
        // What was done and not answered is there as well: at most as many as were asked at once.
        assert!((answered..=answered + 100 * AT_ONCE as u64).contains(&spent), "{answered} was answered, {spent} is kept");
    }
    work(&redis, SYNCED_OPERATIONS, &journal).await.unwrap();
    check(&redis, 0..SYNCED_OPERATIONS).await;
}
