//! From the choice of a server to the result: what is checked, what is asked again and where, and what the model and the client are told.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::{
    config::Config,
    tools::config::{Approval, Named, Policy},
};

use super::acting::{Acting, acting, asking, explained, read_by_model, reading};
use crate::harness::{Proxy, Reply, Upstream, mcp};

/// A model that makes each of `calls` in a reply of its own, and then answers.
async fn calling(calls: &[(&str, &str)]) -> Upstream {
    calling_in([calls]).await
}

/// The same, in several conversations.
async fn calling_in<'a>(conversations: impl IntoIterator<Item = &'a [(&'a str, &'a str)]>) -> Upstream {
    let replies =
        |calls: &[(&str, &str)]| calls.iter().map(|(name, arguments)| Reply::call(name, arguments)).chain([done()]).collect::<Vec<_>>();
    Upstream::saying(conversations.into_iter().flat_map(replies)).await
}

fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

async fn proxy(upstream: &Upstream, servers: &[&Acting], change: impl FnOnce(&mut Config)) -> Proxy {
    let with_servers = mcp::with_servers(servers.iter().map(|acting| acting.server.clone()));
    Proxy::start_with(upstream, |config| {
        with_servers(config);
        change(config);
    })
    .await
}

fn of(record: &Value, fields: &[&str]) -> Vec<Value> {
    fields.iter().map(|field| record[field].clone()).collect()
}

#[tokio::test]
async fn arguments_that_the_chosen_server_refuses_are_not_sent() {
    let upstream = calling(&[("read", r#"{"path":"private"}"#), ("read", r#"{"path":"b"}"#), ("read", r#"{"path":"c","repo":"r"}"#)]).await;
    let files = Acting::new("files", json!([mcp::tool("read", "path")]));
    let properties = json!({"repo": {"type": "string"}, "path": {"maxLength": 3}});
    let schema = json!({"type": "object", "properties": properties, "required": ["repo", "path"]});
    let github = Acting::new("github", json!([{"name": "get_file", "description": "Gets.", "inputSchema": schema}]));
    let proxy = proxy(&upstream, &[&files, &github], |config| {
        let named = |server: &str, tool: &str| Named { server: server.to_owned(), tool: tool.to_owned() };
        config.tools.overlaps = vec![vec![named("files", "read"), named("github", "get_file")]];
    })
    .await;
    let calls = explained(&proxy, &asking("Read it with github."), &[]).await;
    let fields = ["server", "tool", "success", "executed", "attempt"];
    assert_eq!(of(&calls[0], &fields), [json!("github"), json!("get_file"), json!(false), json!(false), json!(0)]);
    assert_eq!(of(&calls[2], &fields), [json!("github"), json!("get_file"), json!(true), json!(true), json!(1)]);
    // The schema is told once.
    assert_eq!(calls.iter().map(|call| call["corrective_retry"] == json!(true)).collect::<Vec<_>>(), [true, false, false]);
    let read = read_by_model(&upstream);
    assert!(read[0].contains("get_file of github") && read[0].contains(r#""required":["repo","path"]"#), "{}", read[0]);
    assert!(read[1].contains("\"repo\"") && !read[1].contains("schema"), "{}", read[1]);
    // The model reads what it wrote, and a record does not tell it.
    let error = calls[0]["error"].as_str().unwrap();
    assert!(read[0].contains("private") && !error.contains("private") && error.contains("/path: "), "{error}");
    assert_eq!((files.calls(), github.calls()), (0, 1));
}

#[tokio::test]
async fn what_a_tool_says_of_its_failure_is_read_and_not_asked_again() {
    let upstream = calling(&[("act", "{}"), ("act", "{}")]).await;
    let server = Acting::new("a", json!([reading("act", json!(["error", "refuse"]))]));
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    for call in &calls {
        assert_eq!(of(call, &["success", "executed", "attempt", "retries"]), [json!(false), json!(true), json!(1), json!(0)], "{call}");
    }
    let read = read_by_model(&upstream);
    assert_eq!(read[0], "The tool reports an error:\nfailed by the script");
    assert!(read[1].contains("refused by the script"), "{}", read[1]);
    assert_eq!(server.calls(), 2);
}

#[tokio::test]
async fn a_broken_call_is_made_again_where_it_changes_nothing() {
    let upstream = calling(&[("act", "{}")]).await;
    let server = Acting::new("a", json!([reading("act", json!(["die", "answer"]))]));
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    assert_eq!(of(&calls[0], &["success", "executed"]), [json!(true), json!(true)], "{calls:?}");
    let (attempt, retries) = (calls[0]["attempt"].as_u64().unwrap(), calls[0]["retries"].as_u64().unwrap());
    assert!(attempt == retries + 1 && (2..=3).contains(&attempt), "{calls:?}");
    assert!(calls[0]["retry_reason"].is_string() && calls[0]["latency_ms"].as_u64().unwrap() >= 250, "{calls:?}");
    assert_eq!(read_by_model(&upstream), ["act {}"]);
    assert_eq!(server.calls(), 2);
}

#[tokio::test]
async fn a_broken_call_that_may_have_changed_something_is_not_made_again() {
    let upstream = calling(&[("act", "{}")]).await;
    let server = Acting::new("a", json!([acting("act", json!(["die", "answer"]))]));
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    let fields = ["success", "executed", "attempt", "retries"];
    assert_eq!(of(&calls[0], &fields), [json!(false), json!(true), json!(1), json!(0)], "{calls:?}");
    assert!(read_by_model(&upstream)[0].contains("may have been carried out"), "{:?}", read_by_model(&upstream));
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn a_breaker_hears_of_what_broke_and_not_of_what_tools_say() {
    let acts = json!(["error", "refuse", "error", "refuse", "garble", "garble", "answer"]);
    let call = |n: usize| ("act", [r#"{"n":0}"#, r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#][n]);
    let upstream = calling_in([&[call(0), call(1), call(2), call(3)][..], &[call(0), call(1), call(2)]]).await;
    let server = Acting::new("a", json!([acting("act", acts)]));
    let proxy = proxy(&upstream, &[&server], |config| config.tools.breaker.failures_max = 2).await;
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    assert!(calls.iter().all(|call| call["executed"] == json!(true)), "{calls:?}");
    let calls = explained(&proxy, &asking("Act again."), &[]).await;
    assert_eq!(
        calls.iter().map(|call| call["executed"].clone()).collect::<Vec<_>>(),
        [json!(true), json!(true), json!(false)],
        "{calls:?}"
    );
    let read = read_by_model(&upstream);
    assert!(read[1].contains("broke the protocol") && read[1].contains("may have been carried out"), "{read:?}");
    assert!(read[2].contains("left alone for a while") && read[2].contains("Nothing was done"), "{read:?}");
    assert_eq!(server.calls(), 6);
}

#[tokio::test]
async fn one_call_is_the_trial_and_another_server_serves_the_rest() {
    let calls = Reply::calls(&[("act", r#"{"n":1}"#), ("act", r#"{"n":2}"#)]);
    let upstream = Upstream::saying([Reply::call("act", r#"{"n":0}"#), done(), calls, done()]).await;
    let first = Acting::new("first", json!([reading("act", json!(["garble", 0.5, "answer"]))]));
    let second = Acting::new("second", json!([reading("act", json!(["answer"]))]));
    let proxy = proxy(&upstream, &[&first, &second], |config| {
        config.tools.breaker.failures_max = 1;
        config.tools.breaker.open_for = Duration::from_millis(1500);
    })
    .await;
    let before = explained(&proxy, &asking("Act."), &[]).await;
    assert_eq!(of(&before[0], &["server", "success"]), [json!("first"), json!(false)], "{before:?}");
    tokio::time::sleep(Duration::from_millis(1600)).await;
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    assert_eq!(calls.iter().map(|call| call["server"].clone()).collect::<Vec<_>>(), ["first", "second"], "{calls:?}");
    let other = &calls[1];
    assert_eq!(of(other, &["success", "executed", "attempt", "retries"]), [json!(true), json!(true), json!(1), json!(1)], "{other}");
    assert_eq!(of(other, &["retry_reason", "alternatives"]), [json!("breaker_open: second in the place of first"), json!(["first"])]);
    assert_eq!(read_by_model(&upstream)[1], "[second answers in the place of first, which is not available]\nact {\"n\": 2}");
    assert_eq!((first.calls(), second.calls()), (2, 1));
}

#[tokio::test]
async fn a_call_without_a_place_is_told_and_not_sent() {
    let upstream = Upstream::saying([Reply::calls(&[("act", r#"{"n":1}"#), ("act", r#"{"n":2}"#)]), done()]).await;
    let mut server = Acting::new("a", json!([acting("act", json!(["hang"]))]));
    server.server.concurrent_max = 1;
    let proxy = proxy(&upstream, &[&server], |config| config.agent.wall_clock = Duration::from_secs(3)).await;
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    assert_eq!(of(&calls[0], &["executed", "attempt", "success"]), [json!(true), json!(1), json!(false)], "{calls:?}");
    assert_eq!(of(&calls[1], &["executed", "attempt", "success"]), [json!(false), json!(0), json!(false)], "{calls:?}");
    let read = read_by_model(&upstream);
    assert!(read[1].contains("had no place for it") && read[1].contains("Nothing was done"), "{read:?}");
    assert_eq!(server.calls(), 1);
}

/// A proxy whose server `gone` has died for good, when its tool `die` was called, beside `there`.
async fn with_one_gone(upstream: &Upstream, gone: &Acting, there: &Acting) -> Proxy {
    let proxy = proxy(upstream, &[gone, there], |_| {}).await;
    let calls = explained(&proxy, &asking("Go."), &[]).await;
    assert_eq!(calls[0]["server"], "gone", "{calls:?}");
    // Until that is noticed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy
}

#[tokio::test]
async fn what_the_user_meant_for_one_server_is_not_done_on_another() {
    let upstream = calling_in([&[("die", "{}")][..], &[("act", "{}")], &[("act", "{}")]]).await;
    let gone = Acting::new("gone", json!([acting("act", json!(["answer"])), acting("die", json!(["die for good"]))]));
    let there = Acting::new("there", json!([acting("act", json!(["answer"]))]));
    let proxy = with_one_gone(&upstream, &gone, &there).await;
    let calls = explained(&proxy, &asking("Use gone."), &[]).await;
    assert_eq!(of(&calls[0], &["executed", "selection_rule"]), [json!(false), json!("single-candidate")], "{calls:?}");
    let read = read_by_model(&upstream);
    assert!(read[0].contains("The user named gone, which is not available") && read[0].contains("there could serve it"), "{read:?}");
    assert_eq!(there.calls(), 0);
    // Nobody named: it steps back.
    let calls = explained(&proxy, &asking("Act."), &[]).await;
    assert_eq!(of(&calls[0], &["server", "success", "alternatives"]), [json!("there"), json!(true), json!(["gone"])], "{calls:?}");
}

#[tokio::test]
async fn what_only_reads_is_read_elsewhere_and_the_model_knows() {
    let upstream = calling_in([&[("die", "{}")][..], &[("act", "{}")]]).await;
    let gone = Acting::new("gone", json!([reading("act", json!(["answer"])), acting("die", json!(["die for good"]))]));
    let there = Acting::new("there", json!([reading("act", json!(["answer"]))]));
    let proxy = with_one_gone(&upstream, &gone, &there).await;
    let calls = explained(&proxy, &asking("Use gone."), &[]).await;
    assert_eq!(of(&calls[0], &["server", "success"]), [json!("there"), json!(true)], "{calls:?}");
    assert_eq!(read_by_model(&upstream), ["[there answers in the place of gone, which is not available]\nact {}"]);
}

#[tokio::test]
async fn a_call_that_changes_something_is_finished_though_the_client_left() {
    let upstream = calling(&[("act", "{}")]).await;
    let server = Acting::new("a", json!([acting("act", json!([1.0]))]));
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    let asked = async { proxy.ask(&asking("Act.")).await };
    tokio::select! {
        _ = asked => panic!("it was to take a second"),
        () = server.noted("call act") => {}
    }
    server.noted("done act").await;
    assert!(!server.log().contains("cancelled"), "{}", server.log());
}

#[tokio::test]
async fn a_call_that_only_reads_is_cancelled_when_the_client_leaves() {
    let upstream = calling(&[("act", "{}")]).await;
    let server = Acting::new("a", json!([reading("act", json!(["hang"]))]));
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    let asked = async { proxy.ask(&asking("Act.")).await };
    tokio::select! {
        _ = asked => panic!("it was to hang"),
        () = server.noted("call act") => {}
    }
    server.noted("cancelled").await;
}

#[tokio::test]
async fn what_waits_for_a_place_is_not_sent_once_the_client_left() {
    let upstream = Upstream::saying([Reply::calls(&[("act", r#"{"n":1}"#), ("act", r#"{"n":2}"#)]), done()]).await;
    let mut server = Acting::new("a", json!([acting("act", json!([1.0]))]));
    server.server.concurrent_max = 1;
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    let asked = async { proxy.ask(&asking("Act.")).await };
    tokio::select! {
        _ = asked => panic!("it was to take two seconds"),
        () = server.noted("call act") => {}
    }
    server.noted("done act").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.calls(), 1, "{}", server.log());
}

#[tokio::test]
async fn a_dry_run_decides_and_checks_and_asks_no_server() {
    let upstream = calling(&[("read", r#"{"path":"a"}"#)]).await;
    let first = Acting::new("first", json!([mcp::tool("read", "path")]));
    let second = Acting::new("second", json!([mcp::tool("read", "path")]));
    let proxy = proxy(&upstream, &[&first, &second], |_| {}).await;
    let calls = explained(&proxy, &asking("Read it with second."), &[("x-toolgate-dry-run", "1")]).await;
    let fields = ["server", "selection_rule", "alternatives", "success", "executed", "dry_run", "attempt"];
    let expected = [json!("second"), json!("explicit-mention"), json!(["first"]), json!(true), json!(false), json!(true), json!(0)];
    assert_eq!(of(&calls[0], &fields), expected, "{calls:?}");
    assert_eq!(calls[0]["arguments"], json!({"path": "a"}));
    assert!(read_by_model(&upstream)[0].starts_with("[dry run] read on second was not called."), "{:?}", read_by_model(&upstream));
    assert_eq!((first.calls(), second.calls()), (0, 0));
}

#[tokio::test]
async fn what_is_denied_is_not_offered_and_serves_nothing() {
    let upstream = calling(&[("act", "{}")]).await;
    let first = Acting::new("first", json!([acting("act", json!(["answer"]))]));
    let second = Acting::new("second", json!([acting("act", json!(["answer"]))]));
    let proxy = proxy(&upstream, &[&first, &second], |config| {
        config.tools.approvals = vec![Approval { pattern: "first.*".to_owned(), policy: Policy::Deny }];
    })
    .await;
    let calls = explained(&proxy, &asking("Use first."), &[]).await;
    assert_eq!(of(&calls[0], &["server", "selection_rule"]), [json!("second"), json!("single-candidate")], "{calls:?}");
    assert_eq!(first.calls(), 0);
}

#[tokio::test]
async fn a_long_result_is_read_by_its_ends() {
    let text = format!("HEAD {} TAIL", "ä".repeat(30_000));
    let upstream = calling(&[("act", "{}"), ("act", "{}")]).await;
    let result = json!({"content": [{"type": "text", "text": text}]});
    let server = Acting::new("a", json!([acting("act", json!([result, {"content": []}]))]));
    let proxy = proxy(&upstream, &[&server], |_| {}).await;
    explained(&proxy, &asking("Act."), &[]).await;
    let read = read_by_model(&upstream);
    assert!(read[0].starts_with("HEAD ä") && read[0].ends_with("ä TAIL") && read[0].contains("bytes left out"), "{}", read[0].len());
    assert!((32_000..=32 << 10).contains(&read[0].len()), "{}", read[0].len());
    assert_eq!(read[1], "(the tool answered with nothing)");
}
