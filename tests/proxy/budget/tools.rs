//! Calls of tools: what they cost, and what becomes of those that may not be made.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use toolgate::budget::Unit;

use super::{CALL, REPLY, budget, money, reserved, settled, spent};
use crate::{
    harness::{Client, Reply, chat},
    mcp::bench::{Bench, changing, done, eventually, explained, lookup, reading, streamed, tools},
};

/// `[[limit]]` of calls of one tool in a day.
fn of_tool(tool: &str, amount: &str) -> String {
    format!("[[limit]]\nsubject = \"session\"\ntool = \"{tool}\"\namount = \"{amount}\"\n")
}

#[tokio::test]
async fn a_run_costs_what_its_models_and_tools_cost() {
    let bench = Bench::with([lookup(), done()], tools(), budget("", "")).await;
    let answer = explained(&bench, &chat()).await;
    let told = answer.json()["toolgate"].clone();
    assert_eq!((&told["cost_usd"], &told["calls"][0]["cost_usd"]), (&json!(0.00062), &json!(0.0005)), "{told}");
    let costs: Vec<(String, u64)> = settled(&bench.proxy).await.iter().map(|entry| (entry.action.kind.clone(), money(entry))).collect();
    let expected = [("model", REPLY), ("tool.read", CALL), ("model", REPLY)].map(|(kind, cost)| (kind.to_owned(), cost));
    assert_eq!(costs, expected);
}

#[tokio::test]
async fn a_call_over_a_limit_is_a_result_and_the_run_goes_on() {
    let calls = Reply::calls(&[("lookup", r#"{"q":"a"}"#), ("lookup", r#"{"q":"b"}"#)]);
    let bench = Bench::with([calls, done()], tools(), budget("", &of_tool("fs.look*", "1 calls"))).await;
    let answer = explained(&bench, &chat()).await;
    assert_eq!((answer.content().as_str(), answer.header("x-toolgate-halt"), bench.calls()), ("Done.", "", 1));
    let calls = answer.json()["toolgate"]["calls"].clone();
    let mut executed: Vec<bool> = calls.as_array().unwrap().iter().map(|call| call["executed"].as_bool().unwrap()).collect();
    executed.sort_unstable();
    assert_eq!(executed, [false, true], "{calls}");
    let told: Vec<String> = bench.outline(1).into_iter().filter(|line| line.contains("was not called: The budget of limit")).collect();
    assert_eq!((told.len(), settled(&bench.proxy).await.len()), (1, 3));
}

#[tokio::test]
async fn what_a_server_never_got_costs_nothing() {
    let crashing = json!([reading("lookup", json!({"crash": 1}))]);
    let replies = [lookup(), Reply::call("lookup", r#"{"q":"b"}"#), done()];
    let bench = Bench::with(replies, crashing, |config| {
        budget("", "")(config);
        config.tools.breaker.failures_max = 1;
        config.tools.breaker.open_for = Duration::from_secs(60);
    })
    .await;
    let answer = explained(&bench, &chat()).await;
    let calls = answer.json()["toolgate"]["calls"].clone();
    assert_eq!((&calls[0]["executed"], &calls[1]["executed"]), (&json!(true), &json!(false)), "{calls}");
    assert!(calls[1]["error"].as_str().unwrap().contains("left alone"), "{calls}");
    // The first was sent, and nobody knows what became of it.
    let tools = settled(&bench.proxy).await.iter().filter(|entry| entry.action.kind == "tool.read").count();
    assert_eq!((tools, spent(&bench.proxy, Unit::UsdMicrocents).await), (1, 3 * REPLY + CALL));
}

#[tokio::test]
async fn calls_of_clients_that_leave_are_settled() {
    for slow in [reading("lookup", json!({"delay": 1})), changing("lookup", json!({"delay": 1}))] {
        for request in [chat(), streamed(chat())] {
            let bench = Bench::with([lookup(), done()], json!([slow]), budget("", "")).await;
            let mut asking = JoinSet::new();
            let (client, body) = (Client::new(bench.proxy.address), request.to_string());
            asking.spawn(async move {
                let answer = client.open("POST", "/v1/chat/completions", &[], body).await;
                std::future::pending::<()>().await;
                drop(answer);
            });
            eventually("the call is not made", || bench.calls() == 1).await;
            assert!(reserved(&bench.proxy).await > 0, "what it costs is put aside while it runs");
            asking.shutdown().await;
            let kinds: Vec<(bool, u64)> =
                settled(&bench.proxy).await.iter().map(|entry| (entry.action.kind == "model", money(entry))).collect();
            assert_eq!(kinds, [(true, REPLY), (false, CALL)]);
        }
    }
}

#[tokio::test]
async fn a_rehearsal_calls_and_books_no_tool() {
    let bench = Bench::with([lookup(), done()], tools(), budget("", "")).await;
    let answer = bench.proxy.ask_with(&chat(), &[("x-toolgate-dry-run", "1")]).await;
    assert_eq!(answer.json()["toolgate"]["calls"][0]["success"], true, "{}", answer.text());
    assert!(settled(&bench.proxy).await.iter().all(|entry| entry.action.kind == "model"));

    let bench = Bench::with([lookup(), done()], tools(), budget("", &of_tool("fs.*", "0 calls"))).await;
    let answer = bench.proxy.ask_with(&chat(), &[("x-toolgate-dry-run", "1")]).await;
    let call = answer.json()["toolgate"]["calls"][0].clone();
    assert_eq!(call["success"], json!(false), "{call}");
    assert!(call["error"].as_str().unwrap_or_default().contains("was not called"), "the plan says what a call would meet: {call}");
    let balances = bench.proxy.gate.store().unwrap().balances().await.unwrap();
    assert!(!balances.iter().any(|(scope, ..)| scope.starts_with("limit ")), "{balances:?}");
}
