//! Several processes with one ledger.

use std::{process::Stdio, sync::Arc};

use tokio::task::JoinSet;

use super::{
    super::opened::{TENANT, UNIT, request},
    server::{Server, ledger},
};
use crate::budget::{
    ledger::{Overage, Request, Terms},
    store::redis::Redis,
};

/// How many of 100 callers get one each.
async fn reserved(redis: Redis, name: &str) -> usize {
    let redis = Arc::new(redis);
    let mut callers = JoinSet::new();
    for caller in 0..100 {
        let (redis, asked) =
            (Arc::clone(&redis), Request { idempotency_key: format!("{name}/{caller}"), ..request(1, Overage::default()) });
        callers.spawn(async move { redis.reserve(&asked).await.is_ok() });
    }
    callers.join_all().await.into_iter().filter(|is_reserved| *is_reserved).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_lets_two_processes_share_a_budget() {
    let server = Server::shared();
    let redis = ledger(&server.url(), "shared:");
    redis.allocate(TENANT, UNIT, &Terms { allocated: Some(37), ..Terms::default() }).await.unwrap();
    let children: Vec<_> = ["one", "two"]
        .into_iter()
        .map(|name| {
            let mut process = super::process("processes::takes_its_part", &[("LEDGER_URL", &server.url()), ("LEDGER_NAME", name)]);
            process.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // This process is a third, with two connections.
    let here = tokio::join!(reserved(ledger(&server.url(), "shared:"), "a"), reserved(ledger(&server.url(), "shared:"), "b"));
    let there = children.into_iter().map(|child| {
        let told = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        told.lines().find_map(|line| line.split_once("reserved: ")?.1.parse::<usize>().ok()).unwrap()
    });
    assert_eq!(here.0 + here.1 + there.sum::<usize>(), 37);
    let balance = redis.balances().await.unwrap().remove(0).2;
    assert_eq!((balance.reserved, balance.remaining()), (37, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "is a process of the test above"]
async fn takes_its_part() {
    let redis = ledger(&super::variable("LEDGER_URL"), "shared:");
    let count = reserved(redis, &super::variable("LEDGER_NAME")).await;
    #[expect(clippy::print_stdout, reason = "this is how a process tells the test")]
    {
        println!("\nreserved: {count}");
    }
}
