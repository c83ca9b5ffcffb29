//! How a reservation is kept alive.

use super::*;

#[tokio::test]
async fn a_lease_is_extended_until_it_is_settled_and_no_longer() {
    let bench = Bench::new("beat").await;
    bench.server.shorten(3_150);
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    bench.asked("extend", 3).await;
    assert_eq!(keys(&bench.server, &["extend"])[..3], ["extend:1:k", "extend:2:k", "extend:3:k"]);
    commit(lease);
    bench.settled().await;
    let count = bench.server.asked("extend").len();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(bench.server.asked("extend").len(), count);
}

#[tokio::test]
async fn a_lease_that_is_dropped_is_extended_no_more() {
    let bench = Bench::new("beat-dropped").await;
    bench.server.shorten(3_150);
    drop(bench.client().reserve(&ask("k")).await.unwrap());
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(bench.server.asked("extend").is_empty());
}

#[tokio::test]
async fn leases_that_are_too_short_to_be_extended_in_time_are_left_alone() {
    let bench = Bench::new("beat-short").await;
    let (log, _guard) = log();
    bench.server.shorten(2_500);
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    eventually("it is reported", || log.text().contains("too short to be extended in time")).await;
    // The first delay is none, and so is the second.
    assert_eq!(bench.server.asked("extend").len(), 1);
    commit(lease);
    bench.settled().await;
}

#[tokio::test]
async fn a_heart_stops_at_a_no() {
    let no = [(410, "RESERVATION_EXPIRED"), (409, "RESERVATION_FINALIZED"), (409, "MAX_EXTENSIONS_EXCEEDED"), (409, "TENANT_CLOSED")];
    for (status, code) in no.into_iter().chain([(404, "NOT_FOUND")]) {
        let bench = Bench::new(&format!("beat-{code}")).await;
        let (log, _guard) = log();
        bench.server.shorten(3_050);
        bench.server.fault("extend", [Fault::Say(status, error(code))]);
        let lease = bench.client().reserve(&ask("k")).await.unwrap();
        eventually("it is reported", || log.text().contains("is extended no more")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(bench.server.asked("extend").len(), 1, "{code}");
        assert!(log.text().contains(code), "{}", log.text());
        commit(lease);
        bench.settled().await;
    }
}

#[tokio::test]
async fn an_extension_is_not_tried_when_the_lease_would_not_outlast_it() {
    let bench = Bench::new("beat-late").await;
    let (log, _guard) = log();
    bench.server.shorten(3_050);
    bench.server.fault("extend", vec![Fault::Say(503, String::new()); 9]);
    let lease = bench.client().reserve(&ask("k")).await.unwrap();
    eventually("it is reported", || log.text().contains("no time for another try")).await;
    // Due with 3 s left; again with 2.5 s left; a third time would be with 1.5 s left, less than a try and a second.
    assert_eq!(keys(&bench.server, &["extend"]), ["extend:1:k"; 2]);
    commit(lease);
    bench.settled().await;
}
