//! What is kept on the disk, and what the next process does with it.

use std::time::Instant;

use super::*;

/// Reserves and commits in a process that dies once the server was asked `count` times for `operation`.
async fn die_after(bench: &Bench, operation: &str, count: usize) {
    die_when(bench, || bench.server.asked(operation).len() >= count).await;
}

/// The same, once something is so.
async fn die_when(bench: &Bench, is_so: impl FnMut() -> bool) {
    let (client, runtime) = bench.process();
    runtime.spawn(async move { commit(client.reserve(&ask("k")).await.unwrap()) }).await.unwrap();
    eventually("the moment to die", is_so).await;
    runtime.shutdown_background();
}

#[tokio::test]
async fn cr_durable_001_a_commit_is_on_the_disk_before_it_leaves_and_survives() {
    let bench = Bench::new("durable-001").await;
    bench.server.fault("commit", [Fault::Silence]);
    die_after(&bench, "commit", 1).await;
    assert_eq!(bench.server.asked("commit")[0].journaled, 1);
    assert_eq!(bench.journal().len(), 1);
    bench.client().replay().await;
    bench.settled().await;
    assert_eq!(keys(&bench.server, &["commit"]), ["commit:k"; 2]);
    assert_eq!(bench.server.entries().await.len(), 1);
    bench.balanced(3_000, 0).await;
}

#[tokio::test]
async fn cr_durable_001_what_was_booked_before_the_death_is_booked_once() {
    let bench = Bench::new("durable-001-booked").await;
    bench.server.fault("commit", [Fault::Late(Duration::from_secs(60))]);
    die_after(&bench, "commit", 1).await;
    bench.balanced(3_000, 0).await;
    bench.client().replay().await;
    bench.settled().await;
    assert_eq!(bench.server.asked("commit").len(), 2);
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn cr_durable_002_that_it_is_an_event_now_is_on_the_disk_before_the_event() {
    let bench = Bench::new("durable-002").await;
    bench.server.fault("commit", [Fault::Silence, Fault::Say(410, error("RESERVATION_EXPIRED"))]);
    bench.server.fault("events", [Fault::Silence]);
    die_after(&bench, "commit", 1).await;
    let (client, runtime) = bench.process();
    runtime.spawn(async move { client.replay().await }).await.unwrap();
    bench.asked("events", 1).await;
    assert!(bench.journal()[0].contains(r#""mode":"event""#), "{:?}", bench.journal());
    runtime.shutdown_background();
    bench.client().replay().await;
    bench.settled().await;
    assert_eq!(bench.server.operations(), ["reservations", "commit", "commit", "events", "events"]);
    assert_eq!(keys(&bench.server, &["commit", "events"]), ["commit:k"; 4]);
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn cr_durable_003_no_process_asks_before_the_server_wants_it() {
    let bench = Bench::new("durable-003").await;
    bench.server.fault("commit", [Fault::SayLater(429, error("LIMIT_EXCEEDED"), 1)]);
    die_when(&bench, || bench.journal().iter().any(|record| !record.contains(r#""not_before_ms":0"#))).await;
    bench.client().replay().await;
    bench.settled().await;
    let commits = bench.server.asked("commit");
    let [first, second] = &commits[..] else { panic!("{commits:?}") };
    assert!(second.at - first.at >= Duration::from_millis(990), "{:?}", second.at - first.at);
    assert_eq!(first.key(), second.key());
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn a_process_that_lives_does_not_ask_before_the_server_wants_it() {
    let bench = Bench::new("retry-after").await;
    bench.server.fault("commit", [Fault::SayLater(429, error("LIMIT_EXCEEDED"), 1)]);
    commit(bench.client().reserve(&ask("k")).await.unwrap());
    bench.asked("commit", 2).await;
    bench.settled().await;
    let commits = bench.server.asked("commit");
    assert!(commits[1].at - commits[0].at >= Duration::from_millis(990));
}

#[tokio::test]
async fn cr_durable_004_a_new_key_finds_what_the_old_one_left() {
    let bench = Bench::new("durable-004").await;
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    bench.server.lock("cyc_live_new");
    commit(lease);
    bench.asked("commit", 2).await;
    assert!(!bench.journal()[0].contains(API_KEY));
    bench.client_of(Config { api_key: Some(Secret::new("cyc_live_new")), ..bench.config() }).replay().await;
    bench.settled().await;
    assert_eq!(bench.server.asked("commit").last().unwrap().api_key.as_deref(), Some("cyc_live_new"));
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn cr_durable_005_a_record_that_cannot_be_read_stays_and_the_others_go_on() {
    let bench = Bench::new("durable-005").await;
    bench.server.fault("commit", [Fault::Silence]);
    die_after(&bench, "commit", 1).await;
    corrupt(&bench.folder);
    bench.client().replay().await;
    eventually("the other is settled", || bench.journal() == ["{"]).await;
    assert_eq!(bench.server.entries().await.len(), 1);
    // It is looked at again, and left again.
    tokio::time::sleep(RETRIES.slow * 2).await;
    assert_eq!(bench.journal(), ["{"]);
}

#[tokio::test]
async fn cr_durable_006_two_processes_that_replay_at_once_book_once() {
    let bench = Bench::new("durable-006").await;
    bench.server.fault("commit", [Fault::Silence, Fault::Late(TIMEOUT / 3)]);
    die_after(&bench, "commit", 1).await;
    let (first, second) = (bench.client(), bench.client());
    tokio::join!(first.replay(), second.replay());
    bench.asked("commit", 3).await;
    bench.settled().await;
    assert_eq!(keys(&bench.server, &["commit"]), ["commit:k"; 3]);
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn what_the_server_does_not_take_for_long_is_tried_at_a_slow_pace() {
    let bench = Bench::new("slow").await;
    bench.server.fault("commit", vec![Fault::LoseQuestion; 7]);
    commit(bench.client().reserve(&ask("k")).await.unwrap());
    bench.asked("commit", 8).await;
    bench.settled().await;
    let at: Vec<Instant> = bench.server.asked("commit").iter().map(|seen| seen.at).collect();
    let gaps: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[..4].iter().all(|gap| *gap < RETRIES.slow), "{gaps:?}");
    assert!(gaps[4..].iter().all(|gap| *gap >= RETRIES.slow), "{gaps:?}");
    assert_eq!(bench.server.entries().await.len(), 1);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_is_told_and_the_cost_is_settled_all_the_same() {
    let bench = Bench::new("full").await;
    let (log, _guard) = log();
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    bench.server.watch(std::env::temp_dir());
    fs::remove_dir_all(&bench.folder).unwrap();
    bench.server.fault("commit", [Fault::LoseQuestion]);
    commit(lease);
    bench.asked("commit", 2).await;
    bench.balanced(3_000, 0).await;
    assert!(log.text().contains("ERROR") && log.text().contains("cannot be written to the journal"), "{}", log.text());
}

#[tokio::test]
async fn a_cost_is_on_the_disk_even_where_nothing_runs_any_more() {
    let bench = Bench::new("no-runtime").await;
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    std::thread::spawn(move || commit(lease)).join().unwrap();
    assert_eq!(bench.journal().len(), 1);
    bench.client().replay().await;
    bench.settled().await;
    bench.balanced(3_000, 0).await;
}

#[tokio::test]
async fn the_end_of_the_process_waits_for_a_try_and_not_for_a_pause() {
    let bench = Bench::new("end").await;
    bench.server.fault("commit", vec![Fault::Say(503, String::new()); 100]);
    let tasks = Tasks::default();
    let slow = Retries { first: Duration::from_secs(60), ..RETRIES };
    let client = Cycles::with_retries(bench.config(), tasks.clone(), slow).unwrap();
    commit(client.reserve(&ask("k")).await.unwrap());
    bench.asked("commit", 1).await;
    assert_eq!(tasks.end(Duration::from_secs(5)).await, 0);
    assert_eq!(bench.journal().len(), 1);
}

#[tokio::test]
async fn costs_for_another_server_stay_where_they_are() {
    let bench = Bench::new("foreign").await;
    bench.server.fault("commit", [Fault::Silence]);
    die_after(&bench, "commit", 1).await;
    let other = Bench::new("foreign-other").await;
    bench.client_of(Config { url: other.server.url(), ..bench.config() }).replay().await;
    tokio::time::sleep(RETRIES.slow * 2).await;
    assert!(other.server.seen().is_empty());
    assert_eq!(bench.journal().len(), 1);
}
