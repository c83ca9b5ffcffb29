//! MCP servers that are child processes: what they may do wrong, and what becomes of them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolgate::{
    secret::Template,
    tools::{
        config::{Server, Transport},
        server::State,
    },
};

use crate::harness::{
    Proxy, Reply, Upstream, chat,
    mcp::{self, Bench, Log, eventually, exists, scripted_tool as tool},
};

fn script(log: &Log, tools: Value, more: Value) -> Value {
    let mut script = json!({"tools": tools, "log": log.path()});
    let Value::Object(more) = more else { panic!("a script is an object") };
    script.as_object_mut().unwrap().extend(more);
    script
}

/// What the model reads of one call of the tool `go` of a server of this script.
async fn result_of(go: Value, more: Value) -> String {
    let log = Log::new();
    let bench = Bench::calling("go", [mcp::scripted("s", &script(&log, json!([tool("go", go)]), more))], |_| {}).await;
    bench.run().await
}

/// `server`, of which a call may take so long.
fn hasty(mut server: Server, seconds: f64) -> Server {
    server.timeout = Duration::from_secs_f64(seconds);
    server
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again() {
    let log = Log::new();
    let tools = json!([tool("go", json!({"crash": 7, "says": "out of memory"}))]);
    let bench = Bench::calling("go", [mcp::scripted("s", &script(&log, tools, json!({})))], |_| {}).await;
    let told = bench.run().await;
    assert!(told.contains("went away before it answered") && told.contains("exit status: 7"), "{told}");
    // What it said last is told too: it is why.
    assert!(told.contains("out of memory"), "{told}");
    eventually("started again", || log.count("start ") == 2).await;
    bench.becomes(State::Ready).await;
    let told = bench.run().await;
    assert!(told.contains("exit status: 7"), "{told}");
    // It was called once each time: nobody knows how far it came.
    assert_eq!(log.count("tools/call"), 2);
}

#[tokio::test]
async fn a_server_that_ends_after_each_call_serves_the_next_one() {
    let log = Log::new();
    let tools = json!([tool("go", json!({"once": true}))]);
    let bench = Bench::calling("go", [mcp::scripted("s", &script(&log, tools, json!({})))], |_| {}).await;
    for run in 1..=4 {
        assert_eq!(bench.run().await, "go {}", "{run}");
        eventually("the next one", || log.count("tools/list") == run + 1).await;
        bench.becomes(State::Ready).await;
    }
}

#[tokio::test]
async fn a_server_that_fails_to_start_says_why_until_it_starts() {
    let log = Log::new();
    let tools = json!([tool("go", json!({}))]);
    let server = mcp::scripted("s", &script(&log, tools, json!({"crash_starts": 2})));
    let bench = Bench::calling("go", [server], |_| {}).await;
    bench.becomes(State::Broken).await;
    let reason = bench.health().reason.unwrap();
    assert!(reason.contains("exit status: 3") && reason.contains("no luck today"), "{reason}");
    bench.becomes(State::Ready).await;
    assert_eq!(bench.health().reason, None);
    assert_eq!(bench.run().await, "go {}");
    assert_eq!(log.count("start "), 3);
}

#[tokio::test]
async fn a_program_that_there_is_not_does_not_hold_up_the_others() {
    let transport =
        Transport::Stdio { command: "no-such-program-anywhere".to_owned(), args: Vec::new(), env: Default::default(), cwd: None };
    let broken = Server { transport, ..mcp::server("broken", json!([])) };
    let bench = Bench::calling("go", [broken, mcp::server("sound", json!([tool("go", json!({}))]))], |_| {}).await;
    assert_eq!(bench.run().await, "go {}");
    let health = bench.toolbox().health();
    assert_eq!((health[0].state, health[1].state), (State::Broken, State::Ready));
    let reason = health[0].reason.clone().unwrap();
    assert!(reason.contains("no-such-program-anywhere") && reason.contains("No such file"), "{reason}");
}

#[tokio::test]
async fn a_variable_that_is_not_set_is_named() {
    let mut server = mcp::server("s", json!([]));
    let Transport::Stdio { env, .. } = &mut server.transport else { panic!("a child process") };
    env.insert("TOKEN".to_owned(), Template::new("${TOOLGATE_TEST_SURELY_UNSET}"));
    let bench = Bench::calling("go", [server], |_| {}).await;
    bench.becomes(State::Broken).await;
    let reason = bench.health().reason.unwrap();
    assert!(reason.contains("TOOLGATE_TEST_SURELY_UNSET is not set"), "{reason}");
}

#[tokio::test]
async fn a_server_gets_the_variables_that_it_is_given_and_no_others() {
    let tools = json!([tool("go", json!({"text": "ENV GIVEN"})), tool("other", json!({"text": "ENV CARGO_MANIFEST_DIR"}))]);
    let mut server = mcp::server("s", tools);
    let Transport::Stdio { env, .. } = &mut server.transport else { panic!("a child process") };
    env.insert("GIVEN".to_owned(), Template::new("at ${HOME}"));
    let home = std::env::home_dir().unwrap().display().to_string();
    assert_eq!(Bench::calling("go", [server.clone()], |_| {}).await.run().await, format!("at {home}"));
    // The tests have it, their servers do not.
    assert_eq!(Bench::calling("other", [server], |_| {}).await.run().await, "None");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let log = Log::new();
    let server = hasty(mcp::scripted("s", &script(&log, json!([]), json!({"silent": true}))), 2.0);
    let bench = Bench::calling("go", [server], |_| {}).await;
    bench.becomes(State::Broken).await;
    assert_eq!(bench.health().reason.unwrap(), "no answer within 2 s");
    // And it is ended before the next one is begun.
    eventually("the second one", || log.count("start ") == 2).await;
    let first = log.processes()[0];
    eventually("the first one has ended", || !exists(first)).await;
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_time_and_the_server_is_told() {
    let log = Log::new();
    let server = hasty(mcp::scripted("s", &script(&log, json!([tool("go", json!({"hang": true}))]), json!({}))), 3.0);
    let bench = Bench::calling("go", [server], |_| {}).await;
    let told = bench.run().await;
    assert!(told.contains("no answer within 3 s"), "{told}");
    eventually("the cancellation", || log.count("cancelled ") == 1).await;
    // It still answers otherwise, so it stays.
    assert_eq!(log.count("start "), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_call_along() {
    let log = Log::new();
    let mut go = tool("go", json!({"hang": true}));
    // What may change something is finished whoever waits for it.
    go["annotations"] = json!({"readOnlyHint": true});
    let bench = Bench::calling("go", [mcp::scripted("s", &script(&log, json!([go]), json!({})))], |_| {}).await;
    let request = chat();
    let asking = bench.proxy.ask(&request);
    let called = eventually("the call", || log.count("calls ") == 1);
    tokio::select! {
        answer = asking => panic!("{}", answer.text()),
        () = called => {}
    }
    eventually("the cancellation", || log.count("cancelled ") == 1).await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_skipped() {
    let banner = json!({"banner": ["Starting up …", "", "{\"not\": \"JSON-RPC\"}", "[1, 2"], "garbage": 30});
    assert_eq!(result_of(json!({}), banner).await, "go {}");
}

#[tokio::test]
async fn a_server_that_writes_nothing_else_is_broken() {
    let lines: Vec<String> = (0..200).map(|line| format!("line {line}")).collect();
    let log = Log::new();
    let server = mcp::scripted("s", &script(&log, json!([]), json!({"banner": lines, "silent": true})));
    let bench = Bench::calling("go", [server], |_| {}).await;
    bench.becomes(State::Broken).await;
    let reason = bench.health().reason.unwrap();
    assert!(reason.contains("no JSON-RPC") && reason.contains("line 99"), "{reason}");
}

#[tokio::test]
async fn a_broken_answer_fails_its_call_and_no_other() {
    for (raw, expected) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"both"}}"#, "no JSON-RPC"),
        (r#"{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}"#, "no JSON-RPC"),
        (r#"{"jsonrpc":"2.0","id":ID,"error":"words"}"#, "no JSON-RPC"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":"words"}}"#, "no result of a tool"),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"which city?"}}"#, "which city?"),
    ] {
        let log = Log::new();
        let tools = json!([tool("go", json!({"raw": raw}))]);
        let bench = Bench::calling("go", [mcp::scripted("s", &script(&log, tools, json!({})))], |_| {}).await;
        let told = bench.run().await;
        assert!(told.contains(expected), "{raw}: {told}");
        assert_eq!((bench.health().state, log.count("start ")), (State::Ready, 1), "{raw}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read_and_the_next_one_is() {
    let log = Log::new();
    let tools = json!([tool("go", json!({"bytes": 50 << 20}))]);
    let bench = Bench::calling("go", [mcp::scripted("s", &script(&log, tools, json!({})))], |_| {}).await;
    for _ in 0..2 {
        let told = bench.run().await;
        assert!(told.contains("longer than the 4194304 bytes"), "{told}");
    }
    assert_eq!((bench.health().state, log.count("start "), log.count("tools/call")), (State::Ready, 1, 2));
}

#[tokio::test]
async fn an_answer_that_is_long_but_not_too_long_is_read() {
    let told = result_of(json!({"bytes": 3 << 20}), json!({})).await;
    assert!(told.starts_with("xxx") && told.ends_with("xxx") && told.contains("left out"), "{} bytes", told.len());
}

#[tokio::test]
async fn a_server_that_asks_is_answered() {
    // A ping with a pong, and a question that nobody here can answer with a refusal.
    assert_eq!(result_of(json!({}), json!({"ping": true})).await, r#"{"result": {}}"#);
    let told = result_of(json!({}), json!({"elicit": true})).await;
    assert!(told.contains("decline") || told.contains("error"), "{told}");
}

#[tokio::test]
async fn a_tool_that_wants_more_input_is_refused_in_words() {
    let required = json!({"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create", "params": {
        "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}}}});
    let told = result_of(json!({"answer": required}), json!({})).await;
    assert!(told.contains("asks for more input"), "{told}");
}

#[tokio::test]
async fn both_generations_of_the_protocol_are_spoken() {
    for modern in [json!({}), json!({"modern": true})] {
        assert_eq!(result_of(json!({}), modern.clone()).await, "go {}", "{modern}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_read_does_not_hold_up_more_than_its_calls() {
    let log = Log::new();
    let server = hasty(mcp::scripted("s", &script(&log, json!([tool("go", json!({}))]), json!({"deaf": true}))), 3.0);
    let bench = Bench::calling("go", [server, mcp::server("other", json!([tool("idle", json!({}))]))], |_| {}).await;
    let begun = Instant::now();
    let told = bench.run().await;
    assert!(told.contains("no answer within"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn no_more_calls_are_under_way_than_a_server_takes() {
    let log = Log::new();
    let mut server = mcp::scripted("s", &script(&log, json!([tool("go", json!({"delay": 0.01}))]), json!({})));
    server.concurrent_max = 2;
    // A hundred calls, whichever run they fall to.
    let replies = std::iter::repeat_n(Reply::call("go", "{}"), 100).chain([Reply::call("respond", r#"{"message":"Done."}"#)]);
    let upstream = Upstream::saying(replies).await;
    let with = mcp::with_servers([server]);
    let proxy = Proxy::start_with(&upstream, |config| {
        with(config);
        config.server.keep_alive = Some(mcp::KEEP_ALIVE);
    })
    .await;
    let answers = join_all((0..100).map(|_| mcp::answer_of(&proxy))).await;
    assert!(answers.iter().all(|answer| answer == "Done."), "{answers:?}");
    let under_way = log.lines("calls ");
    assert_eq!(under_way.len(), 100);
    assert_eq!(under_way.iter().max().unwrap(), "2");
}

#[tokio::test]
async fn nobody_is_left_when_the_toolbox_ends() {
    let log = Log::new();
    let polite = mcp::scripted("polite", &script(&log, json!([tool("go", json!({}))]), json!({"grandchild": true})));
    let stubborn = mcp::scripted("stubborn", &script(&log, json!([]), json!({"stubborn": true})));
    let bench = Bench::calling("go", [polite, stubborn], |_| {}).await;
    assert_eq!(bench.run().await, "go {}");
    eventually("both", || log.count("initialize") == 2).await;
    let mut processes = log.processes();
    processes.extend(log.lines("grandchild ").iter().map(|id| id.parse::<u32>().unwrap()));
    assert_eq!(processes.len(), 3);
    assert!(processes.iter().all(|id| exists(*id)));
    assert_eq!(bench.proxy.tasks.end(Duration::from_secs(20)).await, 0);
    // Our own are reaped by now, the grandchild by whoever adopted it.
    assert!(log.processes().iter().all(|id| !exists(*id)));
    // Both were asked to go first, by the end of their input.
    assert_eq!(log.count("end"), 2);
    eventually("the grandchild", || processes.iter().all(|id| !is_running(*id))).await;
}

#[test]
fn nobody_is_left_when_the_runtime_is_dropped() {
    let log = Log::new();
    let script = script(&log, json!([tool("go", json!({}))]), json!({"grandchild": true, "stubborn": true}));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bench = runtime.block_on(async {
        let bench = Bench::calling("go", [mcp::scripted("s", &script)], |_| {}).await;
        assert_eq!(bench.run().await, "go {}");
        bench
    });
    let grandchild: u32 = log.lines("grandchild ")[0].parse().unwrap();
    let process = log.processes()[0];
    assert!(is_running(process) && is_running(grandchild));
    drop(runtime);
    drop(bench);
    let begun = Instant::now();
    while exists(process) || is_running(grandchild) {
        assert!(begun.elapsed() < Duration::from_secs(5), "{process} and {grandchild}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipes_holds_nothing_up() {
    let log = Log::new();
    let script = script(&log, json!([tool("go", json!({"crash": 4}))]), json!({"grandchild": true}));
    let bench = Bench::calling("go", [mcp::scripted("s", &script)], |_| {}).await;
    let begun = Instant::now();
    let told = bench.run().await;
    assert!(told.contains("exit status: 4"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let grandchild: u32 = log.lines("grandchild ")[0].parse().unwrap();
    eventually("its end", || !is_running(grandchild)).await;
}

/// Whether the process exists and has not ended.
fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
