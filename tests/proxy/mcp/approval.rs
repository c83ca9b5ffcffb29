//! Calls about which the client is asked.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolgate::tools::config::{Approval, Policy};

use super::bench::{Bench, asking, changing, done, explained, follow, names, streamed, tools};
use crate::harness::{Reply, chat, events, fold, question};

fn change() -> Reply {
    Reply::call("change", r#"{"q":"a"}"#)
}

/// A run that asks about a call: the bench, and the message that asks.
async fn asked(replies: impl IntoIterator<Item = Reply>) -> (Bench, Value) {
    let bench = Bench::with(replies, tools(), asking).await;
    let answer = bench.proxy.ask(&chat()).await;
    let message = answer.message();
    assert_eq!((names(&message), answer.finish_reason().as_str()), (vec!["fs__change"], "tool_calls"));
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"q":"a"}"#);
    assert_eq!(bench.calls(), 0, "nothing runs before it is approved");
    (bench, message)
}

#[tokio::test]
async fn what_was_approved_is_what_runs_and_it_runs_once() {
    let (bench, mut message) = asked([change(), done(), done()]).await;
    message["tool_calls"][0]["function"]["arguments"] = json!(r#"{"q":"something else"}"#);
    let request = follow(&chat(), &message, &[" Approve "]);
    let answer = explained(&bench, &request).await;
    assert_eq!((answer.content().as_str(), bench.calls()), ("Done.", 1));
    assert_eq!(answer.json()["toolgate"]["calls"][0]["tool"], "change");
    let expected = ["user Hello", "assistant call_1=change", r#"tool call_1 change {"q": "a"}"#];
    assert_eq!(bench.outline(1), expected);
    assert_eq!(bench.proxy.ask(&request).await.content(), "Done.");
    assert_eq!((bench.calls(), bench.outline(2)), (1, bench.outline(1)), "a request that is sent again runs nothing");
}

#[tokio::test]
async fn whatever_is_no_approval_is_a_refusal() {
    for (said, told) in [("deny", "denied"), ("yes please", "yes please"), ("", "denied")] {
        let (bench, message) = asked([change(), done()]).await;
        let answer = explained(&bench, &follow(&chat(), &message, &[said])).await;
        assert_eq!((answer.content().as_str(), bench.calls()), ("Done.", 0));
        let read = bench.outline(1)[2].clone();
        assert!(read.starts_with("tool call_1 Not called:") && read.contains(told), "{read}");
        let record = answer.json()["toolgate"]["calls"][0].clone();
        assert_eq!((&record["executed"], &record["success"], &record["server"]), (&json!(false), &json!(false), &json!("fs")));
        // Who changes their mind is too late: the model was told.
        bench.proxy.ask(&follow(&chat(), &message, &["approve"])).await;
        assert_eq!((bench.calls(), bench.outline(2)[2].as_str()), (0, read.as_str()));
    }
}

#[tokio::test]
async fn of_two_who_bring_the_same_approval_one_runs_it() {
    let slow = json!([changing("change", json!({"delay": 0.3}))]);
    let bench = Bench::with([change(), done()], slow, asking).await;
    let message = bench.proxy.ask(&chat()).await.message();
    let request = follow(&chat(), &message, &["approve"]).to_string();
    let mut asking = JoinSet::new();
    for _ in 0..4 {
        let (client, request) = (bench.proxy.client.clone(), request.clone());
        asking.spawn(async move { client.send("POST", "/v1/chat/completions", &[], request).await.content() });
    }
    assert_eq!(asking.join_all().await, ["Done."; 4]);
    assert_eq!(bench.calls(), 1);
    for request in 1..=4 {
        assert_eq!(bench.outline(request)[2], r#"tool call_1 change {"q": "a"}"#);
    }
}

#[tokio::test]
async fn an_approval_whose_call_is_lost_runs_nothing() {
    let (_bench, message) = asked([change()]).await;
    let other = Bench::with([done()], tools(), asking).await;
    let answer = other.proxy.ask(&follow(&chat(), &message, &["approve"])).await;
    assert_eq!((answer.content().as_str(), answer.header("x-toolgate-continuation")), ("Done.", "lost"));
    assert!(other.outline(0)[2].contains("not known whether it was made"), "{:?}", other.outline(0));
    assert_eq!(other.calls(), 0);
}

#[tokio::test]
async fn an_approval_with_the_tools_switched_off_runs_nothing() {
    let (bench, message) = asked([change(), Reply::text("Off."), done()]).await;
    let request = follow(&chat(), &message, &["approve"]);
    let answer = bench.proxy.ask_with(&request, &[("x-toolgate-mcp", "off")]).await;
    assert_eq!((answer.content().as_str(), bench.calls()), ("Off.", 0));
    assert!(bench.outline(1)[2].contains("switched off"), "{:?}", bench.outline(1));
    // It was not spent by that.
    bench.proxy.ask(&request).await;
    assert_eq!(bench.calls(), 1);
}

#[tokio::test]
async fn calls_of_all_kinds_in_one_reply_keep_the_models_order() {
    let calls =
        [("change", r#"{"q":"a"}"#), ("get_weather", r#"{"city":"Paris"}"#), ("lookup", r#"{"q":"b"}"#), ("change", r#"{"q":"c"}"#)];
    for stream in [false, true] {
        let bench = Bench::with([Reply::calls(&calls), done()], tools(), asking).await;
        let request = question();
        let message = if stream {
            fold(&events(&bench.proxy.ask(&streamed(request.clone())).await.body))["message"].clone()
        } else {
            bench.proxy.ask(&request).await.message()
        };
        assert_eq!(names(&message), ["fs__change", "get_weather", "fs__change"]);
        assert_eq!(bench.calls(), 1, "what need not be asked runs at once");
        bench.proxy.ask(&follow(&request, &message, &["deny", "sunny", "approve"])).await;
        let expected = [
            "assistant call_1=change,call_2=get_weather,call_3=lookup,call_4=change",
            "tool call_1 Not called: the user denied it.",
            "tool call_2 sunny",
            r#"tool call_3 lookup {"q": "b"}"#,
            r#"tool call_4 change {"q": "c"}"#,
        ];
        assert_eq!(bench.outline(1)[1..], expected);
    }
}

#[tokio::test]
async fn what_is_denied_is_neither_offered_nor_run() {
    let denying = |config: &mut toolgate::config::Config| {
        config.tools.approvals = vec![Approval { pattern: "fs.change".to_owned(), policy: Policy::Deny }];
    };
    let bench = Bench::with([change(), Reply::text("Then not.")], tools(), denying).await;
    let answer = bench.proxy.ask_with(&chat(), &[("x-toolgate-disable", "all")]).await;
    assert_eq!((answer.content().as_str(), bench.calls()), ("Then not.", 0));
    let offered = bench.upstream.requests()[0].json()["tools"].to_string();
    assert!(offered.contains("lookup") && !offered.contains("change"), "{offered}");
}

#[tokio::test]
async fn nobody_is_asked_about_a_rehearsal() {
    let bench = Bench::with([change(), done()], tools(), asking).await;
    let mut request = chat();
    request["dry_run"] = json!(true);
    let answer = bench.proxy.ask(&request).await;
    assert_eq!((answer.content().as_str(), bench.calls()), ("Done.", 0));
}

#[tokio::test]
async fn a_decision_in_a_rehearsal_spends_nothing() {
    let (bench, message) = asked([change(), done(), done()]).await;
    let request = follow(&chat(), &message, &["approve"]);
    let mut rehearsal = request.clone();
    rehearsal["dry_run"] = json!(true);
    let answer = bench.proxy.ask(&rehearsal).await.json();
    assert_eq!((&answer["toolgate"]["calls"][0]["dry_run"], bench.calls()), (&json!(true), 0), "{answer}");
    bench.proxy.ask(&request).await;
    assert_eq!(bench.calls(), 1);
}

#[tokio::test]
async fn who_denies_what_is_being_made_is_told_what_came_of_it() {
    let slow = json!([changing("change", json!({"delay": 0.5}))]);
    let bench = Bench::with([change(), done()], slow, asking).await;
    let message = bench.proxy.ask(&chat()).await.message();
    let [approve, deny] = ["approve", "deny"].map(|said| follow(&chat(), &message, &[said]));
    let later = async {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        bench.proxy.ask(&deny).await
    };
    tokio::join!(bench.proxy.ask(&approve), later);
    assert_eq!(bench.calls(), 1);
    for request in 1..=2 {
        assert_eq!(bench.outline(request)[2], r#"tool call_1 change {"q": "a"}"#, "nobody is told that it was not made");
    }
}

#[tokio::test]
async fn what_the_user_said_is_for_the_model_alone() {
    let (bench, message) = asked([change(), done()]).await;
    let answer = explained(&bench, &follow(&chat(), &message, &["my secret plan"])).await;
    assert!(bench.outline(1)[2].contains("my secret plan"));
    assert!(!answer.text().contains("my secret plan"), "{}", answer.text());
}
