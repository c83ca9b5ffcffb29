//! Broken histories, which clients repeat with every request: what the backend gets instead.

use serde_json::{Value, json};
use toolgate::inference::history::Replay;

use crate::harness::{Proxy, Reply, Upstream, paris, proxy_before, question_with};

fn asked(messages: &Value) -> Value {
    question_with(json!({"messages": messages}))
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calling(id: &str, arguments: &str) -> Value {
    let call = json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}});
    json!({"role": "assistant", "content": null, "tool_calls": [call]})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

#[tokio::test]
async fn a_sound_history_goes_up_byte_for_byte() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let messages = r#"[ {"content" :"q","role":"user"}, {"role":"assistant","content":null,"tool_calls":[ {"id":"c","type":"function","function":{"name":"f","arguments":"{ }"}} ] } ,{"role":"tool","tool_call_id":"c","content":"\u00e9"}]"#;
    let body = asked(&json!([])).to_string().replace("\"messages\":[]", &format!("\"messages\":{messages}"));
    let answer = proxy.client.send("POST", "/v1/chat/completions", &[("x-toolgate-explain", "1")], body).await;
    assert_eq!(answer.outcome(), (200, "clean", "1"));
    assert!(upstream.requests()[0].text().contains(messages), "{}", upstream.requests()[0].text());
    assert!(answer.json()["toolgate"].get("history").is_none());
}

#[tokio::test]
async fn a_dead_conversation_goes_on() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let messages = json!([user("q"), calling("c", "{\"city\":"), result("c", "Error."), user("again")]);
    let answer = proxy.ask_with(&asked(&messages), &[("x-toolgate-explain", "1")]).await;
    assert_eq!(answer.outcome(), (200, "clean", "1"));
    let told = result("c", "Error.\n\nThe arguments of this call were no JSON object: {\"city\":");
    assert_eq!(upstream.requests()[0].json()["messages"], json!([user("q"), calling("c", "{}"), told, user("again")]));
    let changes = json!(["message 1: broken arguments replaced by an empty object", "message 2: broken arguments of its call told"]);
    assert_eq!(answer.json()["toolgate"]["history"], changes);
}

#[tokio::test]
async fn the_repaired_history_begins_every_attempt_and_every_later_request() {
    let (proxy, upstream) = proxy_before([Reply::text("words"), paris(), paris()]).await;
    let mut messages = json!([user("q"), calling("", "{}"), {"role": "tool", "content": "7"}, user("r")]);
    assert_eq!(proxy.ask(&asked(&messages)).await.outcome(), (200, "nudged", "2"));
    messages.as_array_mut().unwrap().extend([calling("", "{}"), result("", "8")]);
    assert_eq!(proxy.ask(&asked(&messages)).await.outcome(), (200, "clean", "1"));
    let sent: Vec<Vec<Value>> = upstream.requests().iter().map(|request| request.json()["messages"].as_array().unwrap().clone()).collect();
    assert_eq!(sent[0].len(), 4);
    assert!(!sent[0][2]["tool_call_id"].as_str().unwrap().is_empty());
    assert_eq!(sent[0][1]["tool_calls"][0]["id"], sent[0][2]["tool_call_id"]);
    assert_eq!((&sent[1][..4], &sent[2][..4]), (&sent[0][..], &sent[0][..]));
    assert_eq!((sent[1].len(), sent[2].len()), (6, 6));
}

#[tokio::test]
async fn reasoning_goes_up_as_configured() {
    let thought = json!({"role": "assistant", "content": "<think>why</think>a", "reasoning_content": "why"});
    let messages = json!([user("q"), thought, user("r")]);
    for (replay, expected) in
        [(Replay::None, json!([user("q"), {"role": "assistant", "content": "a"}, user("r")])), (Replay::Full, messages.clone())]
    {
        let upstream = Upstream::saying([paris()]).await;
        let proxy = Proxy::start_with(&upstream, |config| config.inference.reasoning_replay = replay).await;
        proxy.ask(&asked(&messages)).await;
        assert_eq!(upstream.requests()[0].json()["messages"], expected);
    }
}

#[tokio::test]
async fn roles_alternate_where_they_must() {
    let messages = json!([user("q"), user("r"), {"role": "system", "content": "s"}]);
    let upstream = Upstream::saying([paris()]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.backends.backends[0].strict_alternation = true).await;
    proxy.ask(&asked(&messages)).await;
    assert_eq!(upstream.requests()[0].json()["messages"], json!([user("q\n\nr\n\nNote of the system:\n\ns")]));
    let (proxy, upstream) = proxy_before([paris()]).await;
    proxy.ask(&asked(&messages)).await;
    assert_eq!(upstream.requests()[0].json()["messages"], messages);
}

#[tokio::test]
async fn what_passes_through_is_not_repaired() {
    let (proxy, upstream) = proxy_before([Reply::text("hi")]).await;
    let messages = json!([user("q"), calling("c", "{"), result("c", "Error.")]);
    proxy.ask_with(&asked(&messages), &[("x-toolgate-disable", "all")]).await;
    assert_eq!(upstream.requests()[0].json()["messages"], messages);
}
