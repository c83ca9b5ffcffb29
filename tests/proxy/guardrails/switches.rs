//! Each guardrail off, by request header and by configuration.

use toolgate::inference::Guardrails;

use crate::harness::{Answer, Proxy, Reply, Upstream, paris, question};

/// Asks twice with a guardrail off: by header, then by configuration. `check` sees each answer and the upstream calls that it took.
async fn without(name: &str, off: fn(&mut Guardrails), replies: Vec<Reply>, check: impl Fn(Answer, Upstream)) {
    let upstream = Upstream::saying(replies.clone()).await;
    let proxy = Proxy::start(&upstream).await;
    check(proxy.ask_with(&question(), &[("x-toolgate-disable", name)]).await, upstream);
    let upstream = Upstream::saying(replies).await;
    let proxy = Proxy::start_with(&upstream, |config| off(&mut config.inference.guardrails)).await;
    check(proxy.ask(&question()).await, upstream);
}

#[tokio::test]
async fn without_respond_tools_go_as_they_are_and_text_is_an_answer() {
    without(
        "respond",
        |guardrails| guardrails.respond = false,
        vec![Reply::text("words")],
        |answer, upstream| {
            assert_eq!((answer.outcome(), answer.content()), ((200, "clean", "1"), "words".to_owned()));
            assert_eq!(upstream.only_request().json()["tools"], question()["tools"]);
        },
    )
    .await;
}

#[tokio::test]
async fn without_respond_a_call_of_it_is_unknown() {
    let replies = vec![Reply::call("respond", r#"{"message":"hi"}"#), paris()];
    without(
        "respond",
        |guardrails| guardrails.respond = false,
        replies,
        |answer, _| {
            assert_eq!(answer.outcome(), (200, "nudged", "2"));
        },
    )
    .await;
}

#[tokio::test]
async fn without_rescue_a_call_in_text_is_text() {
    let text = r#"{"name":"get_weather","arguments":{"city":"Paris"}}"#;
    without(
        "rescue",
        |guardrails| guardrails.rescue = false,
        vec![Reply::text(text), paris()],
        |answer, upstream| {
            assert_eq!(answer.outcome(), (200, "nudged", "2"));
            assert_eq!(upstream.requests()[1].json()["messages"][1]["content"], text);
        },
    )
    .await;
}

#[tokio::test]
async fn without_validate_any_call_passes() {
    let replies = vec![Reply::calls(&[("wether", "{not json"), ("add", r#"{"a":"x"}"#)])];
    without(
        "validate",
        |guardrails| guardrails.validate = false,
        replies,
        |answer, _| {
            assert_eq!(answer.outcome(), (200, "clean", "1"));
            let expected = [("wether", "{not json"), ("add", r#"{"a":"x"}"#)];
            assert_eq!(answer.calls(), expected.map(|(name, arguments)| (name.to_owned(), arguments.to_owned())));
        },
    )
    .await;
}

#[tokio::test]
async fn without_nudge_text_is_an_answer() {
    without(
        "nudge",
        |guardrails| guardrails.nudge = false,
        vec![Reply::text("words"), paris()],
        |answer, upstream| {
            assert_eq!((answer.status, answer.content(), upstream.calls()), (200, "words".to_owned(), 1));
        },
    )
    .await;
}

#[tokio::test]
async fn without_nudge_a_wrong_call_is_an_error_at_once() {
    without(
        "nudge",
        |guardrails| guardrails.nudge = false,
        vec![Reply::call("add", "{}"), paris()],
        |answer, upstream| {
            assert_eq!((answer.status, answer.error()["code"].as_str(), upstream.calls()), (502, Some("retries_exhausted"), 1));
        },
    )
    .await;
}

#[tokio::test]
async fn without_any_a_request_is_passed_through() {
    let reply = Reply::json(200, "{ \"as\": \"is\" }");
    without(
        "all",
        |guardrails| *guardrails = Guardrails::NONE,
        vec![reply],
        |answer, upstream| {
            assert_eq!((answer.text(), answer.header("x-toolgate-guardrail")), ("{ \"as\": \"is\" }", ""));
            assert_eq!(upstream.only_request().text(), question().to_string());
        },
    )
    .await;
}

#[tokio::test]
async fn several_are_switched_off_together() {
    let upstream = Upstream::saying([Reply::text("words")]).await;
    let proxy = Proxy::start(&upstream).await;
    let answer = proxy.ask_with(&question(), &[("x-toolgate-disable", "rescue, respond ,nudge")]).await;
    assert_eq!((answer.outcome(), answer.content()), ((200, "clean", "1"), "words".to_owned()));
}

#[tokio::test]
async fn a_header_does_not_outlive_its_request() {
    let upstream = Upstream::saying([paris()]).await;
    let proxy = Proxy::start(&upstream).await;
    proxy.ask_with(&question(), &[("x-toolgate-disable", "respond")]).await;
    proxy.ask(&question()).await;
    let offered: Vec<_> = upstream.requests().iter().map(|request| request.json()["tools"].as_array().unwrap().len()).collect();
    assert_eq!(offered, [2, 3]);
}
