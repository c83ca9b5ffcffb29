//! The liberties that a backend may take with its stream without costing the answer.

use serde_json::json;

use crate::harness::{Answer, Reply, proxy_before, question};

async fn answer_to(payloads: &[&str]) -> Answer {
    proxy_before([Reply::events(payloads)]).await.0.ask(&question()).await
}

const END: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
const PARIS: (&str, &str) = ("get_weather", r#"{"city":"Paris"}"#);
const SUM: (&str, &str) = ("add", r#"{"a":1,"b":2}"#);

/// Sends each of `pieces` as the `tool_calls` of one delta.
async fn check(pieces: &[&str], expected: &[(&str, &str)]) {
    let chunk = |calls: &&str| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":{calls}}}}}]}}"#);
    let payloads: Vec<String> = pieces.iter().map(chunk).chain([END.to_owned(), "[DONE]".to_owned()]).collect();
    let answer = answer_to(&payloads.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let expected: Vec<_> = expected.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect();
    assert_eq!(answer.calls(), expected, "{pieces:?}");
    assert_eq!(answer.outcome(), (200, "clean", "1"));
}

#[tokio::test]
async fn an_index_may_start_anywhere() {
    check(&[r#"[{"index":1,"id":"x","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]"#], &[PARIS]).await;
}

#[tokio::test]
async fn an_index_may_be_missing() {
    let pieces = [
        r#"[{"id":"x","function":{"name":"get_weather","arguments":"{\"city\":"}}]"#,
        r#"[{"function":{"arguments":"\"Paris\"}"}}]"#,
        r#"[{"id":"y","function":{"name":"add","arguments":"{\"a\":1,\"b\":2}"}}]"#,
    ];
    check(&pieces, &[PARIS, SUM]).await;
}

#[tokio::test]
async fn name_and_id_may_be_repeated() {
    let pieces = [
        r#"[{"index":0,"id":"x","type":"function","function":{"name":"get_weather","arguments":"{\"city\":"}}]"#,
        r#"[{"index":0,"id":"x","type":"function","function":{"name":"get_weather","arguments":"\"Paris\"}"}}]"#,
    ];
    check(&pieces, &[PARIS]).await;
}

#[tokio::test]
async fn pieces_of_calls_may_interleave() {
    let pieces = [
        r#"[{"index":0,"id":"x","function":{"name":"get_weather","arguments":""}},{"index":1,"id":"y","function":{"name":"add","arguments":"{\"a\":1"}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"city\":\"Paris\"}"}}]"#,
        r#"[{"index":1,"function":{"arguments":",\"b\":2}"}}]"#,
    ];
    check(&pieces, &[PARIS, SUM]).await;
}

#[tokio::test]
async fn arguments_may_be_an_object() {
    check(&[r#"[{"index":0,"id":"x","function":{"name":"add","arguments":{"a":1,"b":2}}}]"#], &[SUM]).await;
}

/// Ollama 0.20 sends each parallel call whole and numbers all of them 0; a new id is a new call.
#[tokio::test]
async fn whole_calls_may_share_an_index() {
    let pieces = [
        r#"[{"index":0,"id":"x","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]"#,
        r#"[{"index":0,"id":"y","function":{"name":"add","arguments":"{\"a\":1,\"b\":2}"}}]"#,
    ];
    check(&pieces, &[PARIS, SUM]).await;
}

#[tokio::test]
async fn two_calls_of_one_id_get_two() {
    let calls = r#"[{"index":0,"id":"same","function":{"name":"add","arguments":"{\"a\":1,\"b\":2}"}},{"index":1,"id":"same","function":{"name":"add","arguments":"{\"a\":3,\"b\":4}"}}]"#;
    let message = answer_to(&[&format!(r#"{{"choices":[{{"delta":{{"tool_calls":{calls}}}}}]}}"#), END]).await.message();
    assert_ne!(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
}

const CALL: &str =
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"add","arguments":"{\"a\":1,\"b\":2}"}}]}}]}"#;

/// The bytes `stream` make one clean call.
async fn check_stream(stream: String) {
    let (proxy, _upstream) = proxy_before([Reply::body(200, "text/event-stream", &stream)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.calls().len()), ((200, "clean", "1"), 1), "{stream}");
}

#[tokio::test]
async fn comments_line_ends_and_other_fields_do_no_harm() {
    check_stream(format!(": ping\n\ndata: {CALL}\n\n: ping\n\ndata: {END}\n\ndata: [DONE]\n\n")).await;
    check_stream(format!("data:{CALL}\r\n\r\ndata:{END}\r\n\r\ndata:[DONE]\r\n\r\n")).await;
    check_stream(format!("event: message\nid: 1\ndata: {CALL}\n\nretry: 3\ndata: {END}\n\n")).await;
}

#[tokio::test]
async fn chunks_without_choices_do_no_harm() {
    check_stream(format!(
        "data: {{\"choices\":[]}}\n\ndata: {CALL}\n\ndata: {END}\n\ndata: {{\"choices\":[],\"usage\":null,\"timings\":{{}}}}\n\n"
    ))
    .await;
}

#[tokio::test]
async fn an_end_is_an_end_however_it_is_said() {
    check_stream(format!("data: {CALL}\n\ndata: [DONE]\n\n")).await;
    check_stream(format!("data: {CALL}\n\ndata: {}\n\ndata: [DONE]", END.replace("tool_calls", "stop"))).await;
}

/// As SambaNova sends it.
#[tokio::test]
async fn a_time_may_have_a_fraction() {
    check_stream(format!("data: {}\n\ndata: {END}\n\n", CALL.replacen('{', "{\"created\":1700000000.5,", 1))).await;
}

#[tokio::test]
async fn a_second_choice_has_nowhere_to_go() {
    let other = r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#;
    let answer = answer_to(&[other, CALL, END]).await;
    assert!(answer.message()["content"].is_null() && !answer.text().contains("other"));
}

#[tokio::test]
async fn a_new_id_on_every_piece_is_still_one_call() {
    let piece = |id: &str, function: serde_json::Value| {
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": id, "function": function}]}}]}).to_string()
    };
    let pieces = [
        piece("a", json!({"name": "get_weather", "arguments": ""})),
        piece("b", json!({"arguments": r#"{"city":"#})),
        piece("c", json!({"arguments": r#""Paris"}"#})),
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
        "[DONE]".to_owned(),
    ];
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let (proxy, _upstream) = proxy_before([Reply::events(&pieces)]).await;
    assert_eq!(proxy.ask(&question()).await.calls(), [("get_weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())]);
}
