//! What is in the Redis, and for how long.

use std::collections::HashMap;

use ::redis::{Client, Commands, Connection};

use super::{
    super::opened::{TENANT, UNIT, at, event, request, since_begin},
    server::{Server, ledger},
};
use crate::budget::{
    Amount,
    amount::AMOUNT_MAX,
    ledger::{Caps, KEPT_MS, Overage, Terms},
    store::redis::Redis,
};

const DAY_MS: u64 = 24 * 3600 * 1000;

fn client(server: &Server) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
}

async fn allocated(redis: &Redis, amount: u64) {
    redis.allocate(TENANT, UNIT, &Terms { allocated: Some(amount), ..Terms::default() }).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_forgets_what_is_settled_and_never_what_stands() {
    let server = Server::shared();
    let redis = ledger(&server.url(), "forgets:");
    let mut client = client(&server);
    allocated(&redis, 100).await;
    let standing = redis.reserve(&request(1, Overage::default())).await.unwrap().reservation_id;
    let settled = redis.reserve(&request(1, Overage::default())).await.unwrap().reservation_id;
    redis.release(&settled, "a").await.unwrap();
    redis.event(&event(1, Overage::default())).await.unwrap();
    let keys: Vec<String> = client.keys("forgets:*").unwrap();
    assert!(keys.iter().all(|key| key.starts_with("forgets:{ledger}:")), "one slot: {keys:?}");
    let times: HashMap<&str, i64> =
        keys.iter().map(|key| (key.strip_prefix("forgets:{ledger}:").unwrap(), client.pttl(key).unwrap())).collect();
    let day = i64::try_from(KEPT_MS).unwrap();
    for (name, ms) in &times {
        // Until when each is kept, in days.
        let days = match *name {
            name if name.starts_with("answer:commit/") || name.starts_with("answer:event/") => Some(30),
            name if name.starts_with("answer:") => Some(1),
            name if *name == *format!("reservation:{settled}") => Some(7),
            _ => None,
        };
        let expected = days.map_or(-1..=-1, |days| day * days - 60_000..=day * days);
        assert!(expected.contains(ms), "{name}: {ms}");
    }
    // Four answers, two reservations, the balances, what is due, and the books with their count.
    assert_eq!(times.len(), 10, "{times:?}");
    assert_eq!(client.zrange::<_, Vec<String>>("forgets:{ledger}:due", 0, -1).unwrap(), [standing]);
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_books_what_waited_for_days_once() {
    let server = Server::shared();
    let redis = ledger(&server.url(), "waited:");
    at(0);
    allocated(&redis, 100).await;
    let id = redis.reserve(&request(5, Overage::default())).await.unwrap().reservation_id;
    let (told, cost) = (event(4, Overage::default()), [Amount::new(UNIT, 3)]);
    let first = (redis.commit(&id, "a", &cost).await.unwrap(), redis.event(&told).await.unwrap());
    // A process that was killed before it heard the answers comes back.
    at(29 * DAY_MS);
    assert_eq!((redis.commit(&id, "a", &cost).await.unwrap(), redis.event(&told).await.unwrap()), first);
    assert_eq!(redis.balances().await.unwrap()[0].2.spent, 7);
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_keeps_large_amounts_to_the_last_digit() {
    let server = Server::shared();
    let redis = ledger(&server.url(), "large:");
    let caps = Caps { max_tokens: Some(u64::MAX), ..Caps::default() };
    redis.allocate(TENANT, UNIT, &Terms { allocated: Some(AMOUNT_MAX), caps: Some(caps.clone()), ..Terms::default() }).await.unwrap();
    let reserved = redis.reserve(&request(AMOUNT_MAX - 1, Overage::default())).await.unwrap();
    assert_eq!((reserved.reserved, reserved.caps), (vec![Amount::new(UNIT, AMOUNT_MAX - 1)], Some(caps)));
    let sums = async || redis.balances().await.unwrap().remove(0).2;
    assert_eq!((sums().await.reserved, sums().await.remaining()), (AMOUNT_MAX - 1, 1));
    let committed = redis.commit(&reserved.reservation_id, "a", &[Amount::new(UNIT, AMOUNT_MAX - 4)]).await.unwrap();
    assert_eq!((committed.charged[0].amount, committed.released[0].amount), (AMOUNT_MAX - 4, 3));
    assert_eq!((sums().await.spent, sums().await.remaining()), (AMOUNT_MAX - 4, 4));
    assert_eq!(redis.entries(0, u64::MAX, usize::MAX).await.unwrap()[0].charged, [Amount::new(UNIT, AMOUNT_MAX - 4)]);
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_keeps_the_books_in_order_for_400_days() {
    let server = Server::shared();
    let redis = ledger(&server.url(), "books:");
    at(0);
    allocated(&redis, AMOUNT_MAX).await;
    // More than are read at a time, many of them of one millisecond.
    for cost in 0..2500 {
        at(cost / 1700);
        redis.event(&event(cost, Overage::default())).await.unwrap();
    }
    let entries = redis.entries(0, u64::MAX, usize::MAX).await.unwrap();
    assert!(entries.iter().map(|entry| entry.cost[0].amount).eq(0..2500));
    assert_eq!(redis.entries(since_begin(1), since_begin(2), usize::MAX).await.unwrap().len(), 800);
    assert_eq!(redis.entries(0, since_begin(1), usize::MAX).await.unwrap().len(), 1700);
    at(400 * DAY_MS + 1);
    // So many at once.
    for left in [1500, 800, 800] {
        redis.expire().await.unwrap();
        assert_eq!(redis.entries(0, u64::MAX, usize::MAX).await.unwrap().len(), left);
    }
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_is_swept_by_several_without_harm() {
    let server = Server::shared();
    let replicas: Vec<_> = (0..4).map(|_| ledger(&server.url(), "swept:")).collect();
    at(0);
    allocated(&replicas[0], 5000).await;
    for _ in 0..2500 {
        replicas[0].reserve(&request(1, Overage::default())).await.unwrap();
    }
    let reserved = async || replicas[0].balances().await.unwrap()[0].2.reserved;
    assert_eq!(reserved().await, 2500);
    at(65_001);
    let sweeps = tokio::join!(replicas[0].expire(), replicas[1].expire(), replicas[2].expire(), replicas[3].expire());
    let mut counts = [sweeps.0, sweeps.1, sweeps.2, sweeps.3].map(Result::unwrap);
    counts.sort_unstable();
    assert_eq!(counts, [0, 500, 1000, 1000]);
    assert_eq!(reserved().await, 0);
}

#[tokio::test]
#[ignore = "needs a redis-server, see tests/real/test.sh"]
async fn real_redis_says_what_time_it_is() {
    let server = Server::shared();
    let redis = ledger(&server.url(), "time:");
    allocated(&redis, 10).await;
    let asked = request(1, Overage::default());
    let before = crate::budget::store::now_ms();
    let reserved = redis.reserve(&asked).await.unwrap();
    let after = crate::budget::store::now_ms();
    assert!((before + asked.ttl_ms..=after + asked.ttl_ms).contains(&reserved.expires_at_ms), "{reserved:?}");
}
