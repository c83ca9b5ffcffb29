//! A backend that refuses, fails, stalls or breaks off, with and without tools in the request.

use std::{net::TcpListener, time::Duration};

use serde_json::{Value, json};

use crate::harness::{Proxy, Reply, Upstream, chat, paris, proxy_before, question, question_with};

/// The same question on the short cut and under the guardrails, as JSON and streamed.
fn ways() -> [Value; 4] {
    let mut streamed = chat();
    streamed["stream"] = json!(true);
    [chat(), streamed, question(), question_with(json!({"stream": true}))]
}

#[tokio::test]
async fn a_refusal_keeps_status_message_and_retry_after() {
    for status in [400, 401, 403, 404, 422, 429, 500, 503] {
        for request in ways() {
            let reply = Reply::error(status, "no luck or so").header("retry-after", "17");
            let (proxy, upstream) = proxy_before([reply]).await;
            let answer = proxy.ask(&request).await;
            let error = answer.error();
            assert_eq!((answer.status, answer.header("retry-after")), (status, "17"), "{request}");
            assert_eq!((&error["message"], &error["type"]), (&json!("no luck or so"), &json!("some_error")));
            assert_eq!(upstream.calls(), 1, "a refusal is not asked again");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_a_later_attempt_keeps_them_too() {
    let replies = [Reply::text("words"), Reply::error(429, "all slots are busy").header("retry-after", "3"), paris()];
    let (proxy, upstream) = proxy_before(replies).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "3"));
    assert_eq!((answer.error()["message"].as_str(), upstream.calls()), (Some("all slots are busy"), 2));
}

#[tokio::test]
async fn an_error_in_any_known_form_is_read_and_a_raw_body_never_shown() {
    let check = async |body: &str, expected: &str| {
        for request in ways() {
            let (proxy, _upstream) = proxy_before([Reply::body(500, "text/html", body)]).await;
            let answer = proxy.ask(&request).await;
            assert_eq!((answer.status, answer.error()["message"].as_str()), (500, Some(expected)), "{body}");
        }
    };
    check(r#"{"error":"out of memory"}"#, "out of memory").await;
    check(r#"{"detail":"nope"}"#, "nope").await;
    check(r#"{"error":{"code":500,"message":"m","type":"server_error"}}"#, "m").await;
    check("<html>secret stack trace</html>", "The backend answered with status 500.").await;
    check(r#"{"detail":[{"loc":["secret"]}]}"#, "The backend answered with status 500.").await;
    check("", "The backend answered with status 500.").await;
}

#[tokio::test]
async fn a_redirect_is_no_answer() {
    for request in ways() {
        let (proxy, _upstream) = proxy_before([Reply::body(302, "text/html", "moved").header("location", "http://elsewhere/")]).await;
        let answer = proxy.ask(&request).await;
        assert_eq!(answer.status, 502);
        answer.error();
    }
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let proxy = Proxy::start_at(&url, |_| {}).await;
    for request in ways() {
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("backend_unreachable")));
    }
    let answer = proxy.get("/v1/models").await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("backend_unreachable")));
}

/// A proxy that waits 150 ms for a first byte and as long between two pieces.
async fn impatient(reply: Reply) -> (Proxy, Upstream) {
    let upstream = Upstream::saying([reply]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.upstream.first_byte_timeout = Duration::from_millis(150);
        config.upstream.idle_timeout = Duration::from_millis(150);
    })
    .await;
    (proxy, upstream)
}

#[tokio::test]
async fn a_first_byte_too_late_is_a_time_out_and_ends_the_upstream_call() {
    for request in ways() {
        let (proxy, upstream) = impatient(paris().after(Duration::from_secs(60))).await;
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (504, Some("first_byte_timeout")));
        upstream.cancelled().await;
    }
}

#[tokio::test]
async fn a_stall_under_the_guardrails_is_a_time_out_and_ends_the_upstream_call() {
    for stream in [false, true] {
        let (proxy, upstream) = impatient(paris().stalling_after(2)).await;
        let answer = proxy.ask(&question_with(json!({"stream": stream}))).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (504, Some("idle_timeout")));
        upstream.cancelled().await;
    }
}

#[tokio::test]
async fn a_stall_of_a_passed_stream_breaks_it_off() {
    let (proxy, upstream) = impatient(Reply::text("hello").stalling_after(2)).await;
    let answer = proxy.ask_slowly(&chat()).await;
    assert_eq!(answer.status, 200);
    assert!(answer.whole().await.is_err(), "half an answer looks whole");
    upstream.cancelled().await;
}

#[tokio::test]
async fn slow_but_steady_is_no_stall() {
    let (proxy, _upstream) = impatient(paris().dripping(Duration::from_millis(60))).await;
    assert_eq!(proxy.ask(&question()).await.calls().len(), 1);
}

#[tokio::test]
async fn a_reply_that_is_cut_is_never_half_an_answer() {
    // The last pieces are the finish reason, usage and `[DONE]`.
    let pieces = 4;
    for after in 0..pieces {
        for stream in [false, true] {
            let (proxy, upstream) = proxy_before([paris().cut_after(after)]).await;
            let answer = proxy.ask(&question_with(json!({"stream": stream}))).await;
            assert_eq!((answer.status, answer.error()["type"].as_str()), (502, Some("upstream_error")), "after {after}");
            assert_eq!(upstream.calls(), 1);
        }
    }
}

#[tokio::test]
async fn a_stream_that_merely_ends_is_no_answer() {
    let reply = Reply::events(&[r#"{"choices":[{"index":0,"delta":{"content":"half of "}}]}"#]);
    let (proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("backend_protocol_error")));
}

#[tokio::test]
async fn a_cut_of_a_passed_stream_breaks_it_off() {
    let (proxy, _upstream) = proxy_before([Reply::text("hello").cut_after(2)]).await;
    let answer = proxy.ask_slowly(&chat()).await;
    assert!(answer.whole().await.is_err(), "half an answer looks whole");
}

#[tokio::test]
async fn what_follows_done_is_not_waited_for() {
    let (proxy, _upstream) = impatient(paris().stalling_after(usize::MAX - 1)).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "clean", "1"));
}

#[tokio::test]
async fn a_connection_that_breaks_after_done_has_said_all() {
    let (proxy, _upstream) = proxy_before([paris().cut_after(usize::MAX - 1)]).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "clean", "1"));
}

#[tokio::test]
async fn an_answer_that_is_no_stream_cannot_be_used() {
    for reply in [Reply::json(200, r#"{"choices":[]}"#), Reply::body(200, "text/html", "<html>secret</html>"), Reply::events(&["no JSON"])]
    {
        let (proxy, _upstream) = proxy_before([reply]).await;
        let answer = proxy.ask(&question()).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("backend_protocol_error")));
        assert!(!answer.text().contains("secret"));
    }
}

#[tokio::test]
async fn a_content_type_may_have_parameters_and_capitals() {
    for kind in ["text/event-stream; charset=utf-8", "Text/Event-Stream"] {
        let (proxy, _upstream) = proxy_before([paris().header("content-type", kind)]).await;
        assert_eq!(proxy.ask(&question()).await.outcome(), (200, "clean", "1"), "{kind}");
    }
}

#[tokio::test]
async fn an_error_event_keeps_its_status_and_message() {
    let check = async |error: Value, status: u16, message: &str| {
        for stream in [false, true] {
            let (proxy, upstream) = proxy_before([Reply::text("half").failing_with(error.clone())]).await;
            let answer = proxy.ask(&question_with(json!({"stream": stream}))).await;
            assert_eq!((answer.status, answer.error()["message"].as_str()), (status, Some(message)), "{error}");
            assert_eq!(upstream.calls(), 1);
        }
    };
    check(
        json!({"code": 400, "message": "the request exceeds the context size", "type": "x"}),
        400,
        "the request exceeds the context size",
    )
    .await;
    check(json!({"code": 200, "message": "odd"}), 502, "odd").await;
    check(json!({"message": "no code"}), 502, "no code").await;
    check(json!("just text"), 502, "just text").await;
}

#[tokio::test]
async fn a_reply_without_end_is_given_up() {
    let upstream = Upstream::saying([Reply::text(&"x".repeat(5000))]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.reply_bytes_max = 1000).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("reply_too_long")));
}

#[tokio::test]
async fn the_cuts_of_the_network_do_not_matter() {
    let reply = Reply::calls(&[("get_weather", r#"{"city":"Zürich 世界"}"#), ("add", r#"{"a":1,"b":2}"#)]).thinking("größer");
    let (proxy, _upstream) = proxy_before([reply.clone()]).await;
    let whole = proxy.ask(&question()).await.json();
    for size in [1, 2, 3, 7, 50, 1000] {
        let (proxy, _upstream) = proxy_before([reply.clone().in_pieces_of(size)]).await;
        assert_eq!(proxy.ask(&question()).await.json(), whole, "pieces of {size}");
    }
}

#[tokio::test]
async fn a_correction_that_the_backend_refuses_costs_no_answer() {
    let replies = [Reply::text("It is sunny."), Reply::error(400, "the request exceeds the available context size")];
    let (proxy, upstream) = proxy_before(replies).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.content()), ((200, "exhausted", "2"), "It is sunny.".to_owned()));
    assert_eq!(upstream.calls(), 2);
}
