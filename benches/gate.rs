//! What the ledger adds to a tool call: a reservation before it and a commit after it, in two units and three scopes, with one limit.
//!
//! Beside what criterion tells of each store, one line says the median and the 99th percentile, in microseconds.
//! `TOOLGATE_BENCH_REDIS` may name a Redis to be tried as well: one that may be filled, such as `redis://127.0.0.1:6379`.

#![expect(clippy::print_stdout, reason = "figures are printed")]

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use toolgate::budget::{
    Amount, Store, Subject, Unit,
    ledger::{Action, Error, Overage, Quota, Request, StoreError},
    store::{
        file::{File, Sync},
        memory::Memory,
        redis::Redis,
    },
};
use toolgate::{redis::Config, secret::Secret};

static NEXT: AtomicU64 = AtomicU64::new(0);

fn request(key: &str) -> Request {
    let level = |value: &str| Some(value.to_owned());
    Request {
        idempotency_key: key.to_owned(),
        subject: Subject { tenant: level("acme"), app: level("chat"), workflow: level("session-1"), ..Subject::default() },
        action: Action { kind: "tool.read".to_owned(), name: "files.read_file".to_owned(), ..Action::default() },
        estimates: vec![Amount::new(Unit::Credits, 1), Amount::new(Unit::UsdMicrocents, 50_000)],
        quotas: vec![Quota { scope: "limit:calls/key:k".to_owned(), unit: Unit::Credits, allocated: 1 << 50, until_ms: 4_000_000_000_000 }],
        opens: true,
        ttl_ms: 60_000,
        grace_period_ms: 5_000,
        overage_policy: Overage::AllowIfAvailable,
    }
}

/// One tool call, as the ledger sees it.
async fn call(store: &Store) -> Result<(), Error> {
    let key = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let reserved = store.reserve(&request(&key)).await?;
    store.commit(&reserved.reservation_id, &key, &[Amount::new(Unit::UsdMicrocents, 31_000)]).await.map(drop)
}

/// Times calls one by one, with some time between them as there is in life, so that what is done in the background is done meanwhile.
async fn percentiles(name: &str, store: &Store) {
    const CALLS: usize = 4000;
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        if number % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let begun = Instant::now();
        let outcome = call(store).await;
        times.push(begun.elapsed());
        if let Err(error) = outcome {
            println!("gate, {name}: {error}");
            return;
        }
    }
    times.sort_unstable();
    let at = |share: usize| times.get(CALLS * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    println!("gate, {name}: median {:.1} us, 99th percentile {:.1} us", at(50), at(99));
}

fn bench(criterion: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let folder = std::env::temp_dir().join(format!("toolgate-bench-{}", std::process::id()));
    let file = |name: &str, sync| File::open(folder.join(name), sync).map(Store::File);
    let stores = [
        ("memory", Ok(Store::Memory(Memory::default()))),
        ("file", file("every", Sync::Every(Duration::from_millis(100)))),
        ("file, synced", file("always", Sync::Always)),
    ];
    for (name, store) in stores.into_iter().chain(redis()) {
        match store {
            Ok(store) => {
                runtime.block_on(percentiles(name, &store));
                criterion.bench_function(&format!("gate, {name}"), |bencher| bencher.iter(|| black_box(runtime.block_on(call(&store)))));
            }
            Err(error) => println!("gate, {name}: {error}"),
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// The ledger in the Redis at the address in `TOOLGATE_BENCH_REDIS`, where there is one: something that is empty and may be filled.
fn redis() -> Option<(&'static str, Result<Store, StoreError>)> {
    #[expect(clippy::disallowed_methods, reason = "a benchmark is no part of the program")]
    let url = std::env::var("TOOLGATE_BENCH_REDIS").ok()?;
    let config = Config::new(Secret::new(&url), "toolgate-bench:".to_owned(), Duration::from_millis(250));
    let store = config.map(|config| Store::Redis(Box::new(Redis::new(config))));
    Some(("redis", store.map_err(|invalid| StoreError(format!("TOOLGATE_BENCH_REDIS {invalid}")))))
}

criterion_group!(benches, bench);
criterion_main!(benches);
