//! A Redis that is gone for a while, or whose connections are.

use std::time::{Duration, Instant};

use super::{
    super::opened::{TENANT, UNIT, event, request},
    server::{Server, ledger, ledger_within},
};
use crate::budget::{
    Amount,
    ledger::{Error, Overage, Terms},
    store::redis::Redis,
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
