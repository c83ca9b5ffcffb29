//! Servers over time: their lists, their states, and who is told.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::tools::{config::Server, server::State};

use crate::harness::mcp::{self, Bench, Log, eventually, scripted_tool as tool};

fn server(log: &Log, tools: Value, more: Value) -> Server {
    let mut script = json!({"tools": tools, "log": log.path()});
    let Value::Object(more) = more else { panic!("a script is an object") };
    script.as_object_mut().unwrap().extend(more);
    mcp::scripted("s", &script)
}

#[tokio::test]
async fn a_list_that_grows_is_read_again() {
    for modern in [json!({}), json!({"modern": true})] {
        let log = Log::new();
        let tools = json!([tool("go", json!({"adds": tool("later", json!({}))}))]);
        let bench = Bench::calling("go", [server(&log, tools, modern)], |_| {}).await;
        assert_eq!(bench.run().await, "go {}");
        assert_eq!(bench.offered(), ["go"]);
        eventually("the second tool", || bench.health().tools == 2).await;
        bench.run().await;
        assert_eq!(bench.offered(), ["go", "later"]);
    }
}

#[tokio::test]
async fn a_burst_of_changes_is_read_a_few_times_and_its_end_is_not_missed() {
    let log = Log::new();
    let tools = json!([tool("go", json!({"burst": 1000, "adds": tool("later", json!({}))}))]);
    let bench = Bench::calling("go", [server(&log, tools, json!({}))], |_| {}).await;
    assert_eq!(bench.run().await, "go {}");
    eventually("the second tool", || bench.health().tools == 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lists = log.count("tools/list");
    assert!((2..=20).contains(&lists), "{lists} lists");
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let log = Log::new();
    let tools: Vec<Value> = (0..7).map(|number| tool(&format!("tool_{number}"), json!({}))).collect();
    let bench = Bench::calling("tool_6", [server(&log, json!(tools), json!({"page_size": 3}))], |_| {}).await;
    assert_eq!(bench.run().await, "tool_6 {}");
    assert_eq!((bench.health().tools, log.count("tools/list")), (7, 3));
}

#[tokio::test]
async fn pages_that_go_round_in_circles_end() {
    let log = Log::new();
    let tools: Vec<Value> = (0..4).map(|number| tool(&format!("tool_{number}"), json!({}))).collect();
    let bench = Bench::calling("tool_3", [server(&log, json!(tools), json!({"page_size": 2, "page_loop": true}))], |_| {}).await;
    assert_eq!(bench.run().await, "tool_3 {}");
    assert_eq!(bench.health().tools, 4);
    assert!(log.count("tools/list") <= 4);
}

#[tokio::test]
async fn a_thousand_tools_are_offered_and_one_of_them_is_run() {
    let log = Log::new();
    let bench = Bench::calling("tool_999", [server(&log, json!([]), json!({"count": 1000}))], |_| {}).await;
    assert_eq!(bench.run().await, "tool_999 {}");
    assert_eq!((bench.health().tools, bench.offered().len()), (1000, 1000));
}

#[tokio::test]
async fn a_list_that_fails_leaves_the_old_one_in_place() {
    let log = Log::new();
    let tools = json!([tool("go", json!({"burst": 1}))]);
    let bench = Bench::calling("go", [server(&log, tools, json!({"list_error": 1}))], |_| {}).await;
    assert_eq!(bench.run().await, "go {}");
    eventually("why", || bench.health().reason.is_some()).await;
    let health = bench.health();
    assert_eq!((health.state, health.tools), (State::Ready, 1));
    assert!(health.reason.as_ref().unwrap().contains("no list today"), "{health:?}");
    assert_eq!(bench.run().await, "go {}");
    assert_eq!(log.count("start "), 1);
}

#[tokio::test]
async fn a_list_that_was_not_confirmed_for_long_is_stale_and_still_answers() {
    let log = Log::new();
    let tools = json!([tool("go", json!({"burst": 1}))]);
    let bench = Bench::calling("go", [server(&log, tools, json!({"list_error": 1}))], |config| {
        config.tools.stale_after = Duration::from_millis(200);
    })
    .await;
    bench.becomes(State::Stale).await;
    assert_eq!(bench.run().await, "go {}");
    assert_eq!((bench.health().tools, log.count("start ")), (1, 1));
}

#[tokio::test]
async fn a_server_without_tools_is_empty() {
    let log = Log::new();
    let bench = Bench::calling("go", [server(&log, json!([]), json!({}))], |_| {}).await;
    bench.becomes(State::Empty).await;
    assert_eq!(bench.health().reason, None);
}

#[tokio::test]
async fn a_server_that_is_gone_is_stale_its_calls_fail_at_once_and_it_is_back_by_itself() {
    let log = Log::new();
    // It starts once, dies in the first call, and is down for two starts.
    let tools = json!([tool("go", json!({"crash": 5}))]);
    let more = json!({"crash_starts": 3, "crash_after": 1});
    let bench = Bench::calling("go", [server(&log, tools, more)], |_| {}).await;
    let told = bench.run().await;
    assert!(told.contains("exit status: 5"), "{told}");
    eventually("the second start", || log.count("start ") >= 2).await;
    bench.becomes(State::Stale).await;
    assert_eq!(bench.health().tools, 1);
    let reason = bench.health().reason.unwrap();
    assert!(reason.contains("exit status"), "{reason}");
    bench.becomes(State::Ready).await;
    assert_eq!(bench.health().reason, None);
}

#[tokio::test]
async fn a_list_is_renewed_where_the_server_does_not_say_when_it_changes() {
    let log = Log::new();
    let bench = Bench::calling("go", [server(&log, json!([tool("go", json!({}))]), json!({"quiet": true}))], |config| {
        config.tools.list_ttl = Duration::from_millis(100);
    })
    .await;
    bench.becomes(State::Ready).await;
    eventually("renewals", || log.count("tools/list") >= 4).await;
}

#[tokio::test]
async fn a_list_is_not_renewed_where_the_server_says_when_it_changes() {
    let log = Log::new();
    let bench = Bench::calling("go", [server(&log, json!([tool("go", json!({}))]), json!({}))], |config| {
        config.tools.list_ttl = Duration::from_millis(50);
    })
    .await;
    bench.becomes(State::Ready).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(log.count("tools/list"), 1);
}

#[tokio::test]
async fn a_server_that_leaves_its_lists_unanswered_is_started_again() {
    let log = Log::new();
    let mut hung = server(&log, json!([tool("go", json!({}))]), json!({"deaf": true, "quiet": true}));
    hung.timeout = Duration::from_secs(2);
    let bench = Bench::calling("go", [hung], |config| config.tools.list_ttl = Duration::from_millis(50)).await;
    bench.becomes(State::Ready).await;
    eventually("started again", || log.count("start ") == 2).await;
}
