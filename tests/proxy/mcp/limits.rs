//! How far a run may go.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate::{config::Config, inference::ToolArguments, trace::Sink};

use super::bench::{Bench, changing, done, eventually, explained, lookup, reading, streamed, tools};
use crate::harness::{Answer, Reply, chat};

fn nth(n: usize) -> Reply {
    Reply::call("lookup", &json!({"q": n.to_string()}).to_string())
}

async fn run(replies: Vec<Reply>, tools: Value, change: impl FnOnce(&mut Config)) -> (Bench, Answer) {
    let bench = Bench::with(replies, tools, change).await;
    let answer = explained(&bench, &chat()).await;
    (bench, answer)
}

/// The last request offers no tools and says why; the answer is the model's last word.
fn was_halted(bench: &Bench, answer: &Answer, reason: &str, asked: usize) {
    assert_eq!((answer.content().as_str(), answer.finish_reason().as_str()), ("Enough.", "stop"), "{}", answer.text());
    assert_eq!(answer.json()["toolgate"]["halt_reason"], reason);
    let requests = bench.upstream.requests();
    assert_eq!(requests.len(), asked, "one last attempt, and no more");
    let last = requests[asked - 1].json();
    assert!(last["tools"].is_null(), "{last}");
    assert!(bench.outline(asked - 1).last().unwrap().starts_with("user No more tools can be called"), "{last}");
    assert!(requests[..asked - 1].iter().all(|request| request.json()["tools"].is_array()));
}

#[tokio::test]
async fn turns_are_limited() {
    let replies = vec![nth(1), nth(2), Reply::text("Enough."), nth(3)];
    let (bench, answer) = run(replies, tools(), |config| config.agent.turns_max = 2).await;
    was_halted(&bench, &answer, "turns", 3);
    assert_eq!(bench.calls(), 2);
}

#[tokio::test]
async fn a_model_that_calls_at_the_end_all_the_same_runs_nothing() {
    let replies = vec![nth(1), nth(2), nth(3)];
    let (bench, answer) = run(replies, tools(), |config| config.agent.turns_max = 1).await;
    assert_eq!((answer.status, bench.calls(), bench.upstream.calls()), (200, 1, 2));
    assert_eq!(answer.finish_reason(), "stop");
    assert!(answer.message()["tool_calls"].is_null(), "{}", answer.text());
}

#[tokio::test]
async fn calls_are_limited_and_those_beyond_are_told_so() {
    let three: Vec<String> = (0..3).map(|n| json!({"q": n.to_string()}).to_string()).collect();
    let calls: Vec<(&str, &str)> = three.iter().map(|arguments| ("lookup", arguments.as_str())).collect();
    let replies = vec![Reply::calls(&calls), Reply::text("Enough.")];
    let (bench, answer) = run(replies, tools(), |config| config.agent.calls_max = 2).await;
    was_halted(&bench, &answer, "calls", 2);
    assert_eq!(bench.calls(), 2);
    assert!(bench.outline(1)[4].contains("2 calls are the most"), "{:?}", bench.outline(1));
    let told: Vec<Value> = answer.json()["toolgate"]["calls"].as_array().unwrap().iter().map(|call| call["executed"].clone()).collect();
    assert_eq!(told, [true, true, false]);
}

#[tokio::test]
async fn tokens_are_limited() {
    let replies = vec![nth(1).costing([90, 20, 0]), Reply::text("Enough.")];
    let (bench, answer) = run(replies, tools(), |config| config.agent.tokens_max = 100).await;
    was_halted(&bench, &answer, "tokens", 2);
}

#[tokio::test]
async fn the_deadline_cuts_calls_that_run() {
    for tool in [reading("lookup", json!({"delay": 30})), changing("lookup", json!({"delay": 30}))] {
        let begun = Instant::now();
        let wall_clock = |config: &mut Config| config.agent.wall_clock = Duration::from_secs(1);
        let (bench, answer) = run(vec![lookup(), Reply::text("Enough.")], json!([tool]), wall_clock).await;
        was_halted(&bench, &answer, "deadline", 2);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        let record = answer.json()["toolgate"]["calls"][0].clone();
        assert_eq!((&record["success"], &record["executed"]), (&json!(false), &json!(true)), "{record}");
    }
}

#[tokio::test]
async fn the_deadline_holds_for_calls_that_wait_for_a_place() {
    let begun = Instant::now();
    let calls = [("lookup", r#"{"q":"1"}"#), ("lookup", r#"{"q":"2"}"#)];
    let slow = json!([reading("lookup", json!({"delay": 30}))]);
    let (bench, answer) = run(vec![Reply::calls(&calls), Reply::text("Enough.")], slow, |config| {
        config.agent.wall_clock = Duration::from_secs(1);
        config.tools.servers[0].concurrent_max = 1;
    })
    .await;
    was_halted(&bench, &answer, "deadline", 2);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(bench.calls(), 1, "what waited is not sent");
}

#[tokio::test]
async fn the_same_call_is_not_made_for_ever() {
    let replies = vec![lookup(), lookup(), lookup(), lookup(), done(), lookup(), done()];
    let (bench, answer) = run(replies, tools(), |_| {}).await;
    assert_eq!((answer.content().as_str(), bench.calls()), ("Done.", 3));
    assert!(bench.outline(4).last().unwrap().contains("3 times"), "{:?}", bench.outline(4));
    // The next run counts anew.
    bench.proxy.ask(&chat()).await;
    assert_eq!(bench.calls(), 4);
}

#[tokio::test]
async fn results_are_in_the_order_of_the_calls_and_so_many_run_at_once() {
    let tools = json!([reading("slow", json!({"delay": 0.4})), reading("fast", json!({"delay": 0.1}))]);
    let calls = [("slow", r#"{"q":"1"}"#), ("fast", r#"{"q":"2"}"#), ("slow", r#"{"q":"3"}"#), ("fast", r#"{"q":"4"}"#)];
    let (bench, _) = run(vec![Reply::calls(&calls), done()], tools, |config| config.agent.parallel_max = 2).await;
    let read: Vec<String> = bench.outline(1).split_off(2);
    let expected = [r#"slow {"q": "1"}"#, r#"fast {"q": "2"}"#, r#"slow {"q": "3"}"#, r#"fast {"q": "4"}"#];
    let results: Vec<String> = expected.iter().enumerate().map(|(n, result)| format!("tool call_{} {result}", n + 1)).collect();
    assert_eq!(read, results);
    assert!(bench.count("calls 2") > 0 && bench.count("calls 3") == 0, "two at once, and no more");
}

#[tokio::test]
async fn a_schema_is_told_once_in_full_in_one_reply_too() {
    let calls = [("lookup", r#"{"q":7}"#), ("lookup", r#"{"q":8}"#)];
    let bench = Bench::with([Reply::calls(&calls), lookup(), done()], tools(), |_| {}).await;
    bench.proxy.ask_with(&chat(), &[("x-toolgate-disable", "all")]).await;
    let told: Vec<bool> = bench.outline(1)[2..].iter().map(|line| line.contains("JSON schema")).collect();
    assert_eq!(told, [true, false], "{:?}", bench.outline(1));
}

#[tokio::test]
async fn a_call_that_waits_when_the_client_leaves_is_recorded_too() {
    let path = std::env::temp_dir().join(format!("toolgate-waiting-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let calls = [("lookup", r#"{"q":"1"}"#), ("lookup", r#"{"q":"2"}"#), ("nobodys", "{}")];
    let slow = json!([reading("lookup", json!({"delay": 30}))]);
    let bench = Bench::with([Reply::calls(&calls)], slow, |config| {
        config.agent.parallel_max = 1;
        config.trace.sink = Sink::File(path.clone());
    })
    .await;
    let request = chat();
    let asking = bench.proxy.ask_with(&request, &[("x-toolgate-disable", "all")]);
    tokio::select! {
        answer = asking => panic!("{}", answer.text()),
        () = eventually("the first call is not made", || bench.calls() == 1) => {}
    }
    let traced = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.filter(|line: &Value| line["tool"].is_string()).collect()
    };
    eventually("not all are recorded", || traced().len() == 3).await;
    let mut errors: Vec<String> = traced().iter().map(|line| line["error"].as_str().unwrap_or_default().to_owned()).collect();
    errors.sort();
    assert!(errors.iter().all(|error| error.starts_with("cancelled")), "{errors:?}");
    let _ = std::fs::remove_file(&path);
}

#[tokio::test]
async fn what_a_wrong_live_call_cost_counts() {
    let replies = [Reply::call("lookup", r#"{"q":7}"#).costing([90, 20, 0]), Reply::text("Enough.")];
    let bench = Bench::with(replies, tools(), |config| {
        config.inference.tool_arguments = ToolArguments::Live;
        config.agent.tokens_max = 100;
    })
    .await;
    bench.proxy.ask(&streamed(chat())).await;
    assert!(bench.outline(1).last().unwrap().starts_with("user No more tools can be called"), "{:?}", bench.outline(1));
}
