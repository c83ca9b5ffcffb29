//! Streams that are guarded and live: what is certain is shown at once, what is wrong is given up at once, and the client is never left
//! in silence.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{PATIENCE, Proxy, Reply, Streaming, Upstream, events, fold, paris, proxy_before, question, question_with};

const PAUSE: Duration = Duration::from_millis(40);

fn streamed() -> Value {
    question_with(json!({"stream": true}))
}

/// Reads until `part` has come; returns all that came.
async fn read_until(stream: &mut Streaming, part: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(part) {
        let (piece, _) = stream.next().await.unwrap_or_else(|| panic!("no {part:?} in {seen}"));
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    seen
}

#[tokio::test]
async fn what_respond_says_is_shown_while_it_is_said() {
    let reply = Reply::call("respond", r#"{"message":"first \"words\" \ud83d\ude00 and then some more of them"}"#)
        .in_pieces_of(7)
        .dripping(PAUSE / 8);
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut stream = proxy.ask_slowly(&streamed()).await;
    let mut text = read_until(&mut stream, "first").await;
    assert_eq!(upstream.finished(), 0, "the model still speaks");
    text.push_str(stream.whole().await.unwrap().text());
    let whole = fold(&events(text.as_bytes()));
    assert_eq!(whole["message"]["content"], "first \"words\" 😀 and then some more of them");
    assert_eq!((&whole["finish_reason"], &whole["message"]["tool_calls"]), (&json!("stop"), &Value::Null));
}

#[tokio::test]
async fn an_unknown_tool_is_given_up_at_its_name() {
    let long = json!({"text": "word ".repeat(200)}).to_string();
    let wrong = Reply::call("wether", &long).in_pieces_of(20).dripping(PAUSE / 4);
    let (proxy, upstream) = proxy_before([wrong, paris()]).await;
    let begun = Instant::now();
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, answer.calls().len(), upstream.calls()), (200, 1, 2));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(upstream.cancellations(), 1);
}

#[tokio::test]
async fn a_second_call_is_not_waited_for_where_one_is_wanted() {
    let long = json!({"city": "x".repeat(2000)}).to_string();
    let reply = Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("get_weather", &long)]).in_pieces_of(40).dripping(PAUSE / 4);
    let (proxy, upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&question_with(json!({"parallel_tool_calls": false}))).await;
    assert_eq!(answer.calls(), [("get_weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())]);
    assert_eq!((upstream.calls(), upstream.cancellations()), (1, 1));
}

#[tokio::test]
async fn reasoning_is_shown_held_or_dropped_as_configured() {
    use toolgate::inference::Reasoning;
    for (policy, expected) in [(Reasoning::Live, json!("Hm.")), (Reasoning::Hold, json!("Hm.")), (Reasoning::Drop, Value::Null)] {
        let upstream = Upstream::saying([paris().thinking("Hm.")]).await;
        let proxy = Proxy::start_with(&upstream, |config| config.inference.reasoning = policy).await;
        let whole = fold(&events(&proxy.ask(&streamed()).await.body));
        assert_eq!(whole["message"]["reasoning_content"], expected, "{policy:?}");
        assert_eq!(proxy.ask(&question()).await.message()["reasoning_content"], expected, "{policy:?}");
    }
}

#[tokio::test]
async fn reasoning_flows_before_the_reply_is_judged() {
    let (proxy, upstream) = proxy_before([paris().thinking("Let me see.").in_pieces_of(60).dripping(PAUSE / 4)]).await;
    let mut stream = proxy.ask_slowly(&streamed()).await;
    read_until(&mut stream, "reasoning_content").await;
    assert_eq!(upstream.finished(), 0, "the model still speaks");
}

#[tokio::test]
async fn silence_is_filled_with_comments() {
    let upstream = Upstream::saying([paris().after(PAUSE * 10)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.server.head_grace = PAUSE;
        config.server.keep_alive = Some(PAUSE);
    })
    .await;
    let begun = Instant::now();
    let mut stream = proxy.ask_slowly(&streamed()).await;
    assert!(begun.elapsed() < PAUSE * 8, "the head does not wait for the backend");
    let first = read_until(&mut stream, "\n\n").await;
    assert!(first.starts_with(':'), "{first}");
    let rest = stream.whole().await.unwrap();
    assert!(rest.text().matches(": toolgate\n\n").count() > 2, "{}", rest.text());
    assert_eq!(fold(&events(&rest.body))["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn a_failure_after_the_head_is_an_error_event_and_no_end() {
    let upstream = Upstream::saying([Reply::error(429, "all slots are busy").after(PAUSE * 4)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.server.head_grace = PAUSE).await;
    let answer = proxy.ask(&streamed()).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("\"error\"") && answer.text().contains("all slots are busy"), "{}", answer.text());
    assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
}

#[tokio::test]
async fn a_backend_that_dies_after_the_first_words_is_an_error_event() {
    let long = json!({"message": format!("first words {}", "and more ".repeat(100))}).to_string();
    let reply = Reply::call("respond", &long).in_pieces_of(50).dripping(PAUSE / 4).cut_after(35);
    let (proxy, upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&streamed()).await;
    let text = answer.text();
    assert!(text.contains("\"content\":\"f") && text.contains("\"error\"") && !text.contains("[DONE]"), "{text}");
    assert_eq!(upstream.calls(), 1, "what was shown is not said again");
    // Without a stream, half an answer is none.
    assert_eq!(proxy.ask(&question()).await.status, 502);
}

#[tokio::test]
async fn a_wrong_call_behind_what_was_said_is_left_out() {
    let calls = [("respond", r#"{"message":"Done."}"#), ("add", "{}")];
    for stream in [false, true] {
        let (proxy, upstream) = proxy_before([Reply::calls(&calls)]).await;
        let answer = proxy.ask(&question_with(json!({"stream": stream}))).await;
        let message = if stream { fold(&events(&answer.body))["message"].clone() } else { answer.message() };
        assert_eq!((&message["content"], &message["tool_calls"]), (&json!("Done."), &Value::Null));
        assert_eq!(upstream.calls(), 1);
    }
}

#[tokio::test]
async fn a_reader_that_leaves_stops_the_model() {
    let long = json!({"message": "word ".repeat(500)}).to_string();
    let (proxy, upstream) = proxy_before([Reply::call("respond", &long).in_pieces_of(20).dripping(PAUSE / 4)]).await;
    let mut stream = proxy.ask_slowly(&streamed()).await;
    read_until(&mut stream, "word").await;
    let left = Instant::now();
    drop(stream);
    drop(proxy.client);
    let cancelled = tokio::time::timeout(PATIENCE, upstream.cancelled()).await.unwrap();
    assert!(cancelled - left < Duration::from_millis(50), "{:?}", cancelled - left);
}

#[tokio::test]
async fn what_is_said_beside_the_one_call_is_heard_to_its_end() {
    let message = format!("Looking. {}", "word ".repeat(60));
    let spoken = json!({"message": message}).to_string();
    let reply = Reply::calls(&[("get_weather", r#"{"city":"Paris"}"#), ("respond", &spoken)]).in_pieces_of(30).dripping(PAUSE / 8);
    let (proxy, _upstream) = proxy_before([reply]).await;
    let answer = proxy.ask(&question_with(json!({"parallel_tool_calls": false}))).await;
    assert_eq!((answer.content(), answer.calls().len()), (message, 1));
}

#[tokio::test]
async fn where_tools_are_withheld_nothing_is_given_up() {
    let long = json!({"text": "word ".repeat(60)}).to_string();
    let (proxy, upstream) = proxy_before([Reply::call("wether", &long).in_pieces_of(30).dripping(PAUSE / 8)]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "none"}))).await;
    assert!(answer.content().contains("word word \\\"}"), "{}", answer.content());
    assert_eq!(upstream.cancellations(), 0);
}
