//! A Redis that is gone for a while, or whose connections are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    super::opened::{TENANT, UNIT, event, request},
    server::{Server, ledger, ledger_within},
};
use crate::{
    budget::{
        Amount, Gate, Policy, Store, Unit,
        ledger::{Code, Error, Overage, Terms, place, reservation_id},
        store::redis::Redis,
    },
    resilience::tasks::Tasks,
};

const TIMEOUT: Duration = Duration::from_millis(250);
/// What a busy machine adds to a time-out.
const MARGIN: Duration = Duration::from_millis(500);

async fn opened(redis: &Redis) {
    redis.allocate(TENANT, UNIT, &Terms { allocated: Some(1000), ..Terms::default() }).await.unwrap();
}

/// Closes all other connections to the server.
fn cut(server: &Server) {
    let mut client = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let closed: u64 = ::redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]).query(&mut client).unwrap();
    assert!(closed > 0, "there was one");
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_gone_for_5_s_is_told_at_once_and_used_again_within_one() {
    let mut server = Server::start(&["--appendonly", "no"]);
    let redis = ledger_within(&server.url(), "gone:", TIMEOUT);
    opened(&redis).await;
    server.kill();
    let gone = Instant::now();
    let mut told = 0;
    while gone.elapsed() < Duration::from_secs(5) {
        let asked = Instant::now();
        let error = redis.reserve(&request(1, Overage::default())).await.unwrap_err();
        assert!(asked.elapsed() < TIMEOUT + MARGIN, "{:?}", asked.elapsed());
        let Error::Store(error) = error else { panic!("{error:?}") };
        assert!(error.to_string().starts_with("the ledger cannot be used: the Redis "), "{error}");
        assert!(!error.to_string().contains("p@ss") && !error.to_string().contains("p%40ss"), "{error}");
        told += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(told > 50, "it is told at once: {told}");
    server.begin();
    let back = Instant::now();
    // It was not kept; whoever answers that there is no budget is there.
    while matches!(redis.reserve(&request(1, Overage::default())).await, Err(Error::Store(_))) {
        assert!(back.elapsed() < Duration::from_secs(1), "it is not used again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_that_does_not_answer_is_told_in_time() {
    let server = Server::start(&["--appendonly", "no"]);
    let redis = ledger_within(&server.url(), "stopped:", TIMEOUT);
    opened(&redis).await;
    server.stop();
    let asked = Instant::now();
    let error = redis.reserve(&request(1, Overage::default())).await.unwrap_err();
    assert!(asked.elapsed() < TIMEOUT + MARGIN, "{:?}", asked.elapsed());
    assert_eq!(error.to_string(), "the ledger cannot be used: the Redis gave no answer in 250 ms");
    server.go_on();
    let back = Instant::now();
    while redis.decide(&request(1, Overage::default())).await.is_err() {
        assert!(back.elapsed() < Duration::from_secs(1), "it is not used again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_connections_that_are_dead_are_replaced_where_nothing_is_done_twice() {
    let server = Server::start(&["--appendonly", "no"]);
    let redis = ledger(&server.url(), "dead:");
    opened(&redis).await;
    for _ in 0..20 {
        cut(&server);
        let id = redis.reserve(&request(2, Overage::default())).await.unwrap().reservation_id;
        cut(&server);
        redis.commit(&id, "a", &[Amount::new(UNIT, 1)]).await.unwrap();
        cut(&server);
        redis.event(&event(1, Overage::default())).await.unwrap();
    }
    cut(&server);
    let sums = redis.balances().await.unwrap().remove(0).2;
    assert_eq!((sums.spent, sums.reserved), (40, 0));
    // Nor is money put in twice.
    cut(&server);
    assert_eq!(redis.fund(TENANT, Amount::new(UNIT, 1), "k").await.unwrap().allocated, 1001);
    assert_eq!(redis.fund(TENANT, Amount::new(UNIT, 1), "k").await.unwrap().allocated, 1001);
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_keeps_nothing_of_a_reservation_whose_answer_was_lost() {
    let server = Server::start(&["--appendonly", "no"]);
    let store = Arc::new(Store::Redis(Box::new(ledger_within(&server.url(), "lost:", TIMEOUT))));
    store.allocate(TENANT, UNIT, &Terms { allocated: Some(1000), ..Terms::default() }).await.unwrap();
    // The server knows the script.
    let known = request(1, Overage::default());
    let known = store.reserve(&known).await.unwrap().reservation_id;
    store.release(&known, "a").await.unwrap();
    let gate = Gate::new(Policy::default(), Some(Arc::clone(&store)), Tasks::default());
    let asked = request(10, Overage::default());
    server.stop();
    assert!(matches!(gate.reserve(asked.clone()).await, Err(Error::Store(_))));
    // What it was asked, it does as soon as it goes on.
    server.go_on();
    let id = reservation_id(&place("reserve", &asked.subject, &asked.idempotency_key));
    let back = Instant::now();
    let is_taken_back = async || match store.commit(&id, "b", &[Amount::new(Unit::Tokens, 1)]).await {
        // Nothing of this is charged: a reservation that stands counts in another unit.
        Err(Error::Refused(refusal)) => refusal.code == Code::ReservationFinalized,
        _ => false,
    };
    while !is_taken_back().await {
        assert!(back.elapsed() < Duration::from_secs(10), "it is not taken back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let sums = store.balances().await.unwrap().remove(0).2;
    assert_eq!((sums.spent, sums.reserved), (0, 0));
}
