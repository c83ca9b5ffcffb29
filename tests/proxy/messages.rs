//! Anthropic's Messages over the same engine: `POST /v1/messages` and the count of tokens, in front of a backend that speaks OpenAI.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate::inference::ToolArguments;

use crate::harness::{Client, PATIENCE, Proxy, Reply, Upstream, fold_message, frames, message, message_with, paris, proxy_before};

const PAUSE: Duration = Duration::from_millis(40);

fn tool_use(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input, "caller": {"type": "direct"}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text, "citations": null})
}

fn plain(more: Value) -> Value {
    let mut request = message_with(more);
    request.as_object_mut().unwrap().remove("tools");
    request
}

#[tokio::test]
async fn a_call_is_a_block_with_an_object() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let message = proxy.message_both_ways(&message()).await;
    assert_eq!(message["content"], json!([tool_use("call_1", "get_weather", json!({"city": "Paris"}))]));
    assert_eq!((&message["stop_reason"], &message["model"]), (&json!("tool_use"), &json!("tiny-upstream")));
    let usage = &message["usage"];
    assert_eq!((&usage["input_tokens"], &usage["cache_read_input_tokens"], &usage["output_tokens"]), (&json!(6), &json!(4), &json!(5)));
    let sent = &upstream.requests()[0];
    assert_eq!(sent.path, "/v1/chat/completions", "the query is not the backend's");
    let sent = sent.json();
    assert_eq!((&sent["max_tokens"], &sent["messages"][0]["role"]), (&json!(1024), &json!("user")));
    assert_eq!(sent["tools"][0]["function"]["parameters"]["required"], json!(["city"]));
    assert_eq!(sent["tools"][2]["function"]["name"], "respond");
}

#[tokio::test]
async fn a_call_in_text_is_rescued() {
    let reply = || Reply::text("I'll look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>");
    let (proxy, _upstream) = proxy_before([reply()]).await;
    let answer = proxy.message(&message()).await;
    assert_eq!(answer.outcome(), (200, "rescued", "1"));
    let message = proxy.message_both_ways(&message()).await;
    assert_eq!((&message["content"][0], &message["content"][1]["input"]), (&text("I'll look."), &json!({"city": "Paris"})));
    assert_eq!(message["stop_reason"], "tool_use");
}

#[tokio::test]
async fn what_respond_says_is_text() {
    let (proxy, _upstream) = proxy_before([Reply::call("respond", r#"{"message":"It \"rains\".\nStill."}"#)]).await;
    let message = proxy.message_both_ways(&message()).await;
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([text("It \"rains\".\nStill.")]), &json!("end_turn")));
}

#[tokio::test]
async fn wrong_arguments_are_corrected_unseen() {
    let wrong = || Reply::call("get_weather", r#"{"town":"Paris"}"#);
    let (proxy, upstream) = proxy_before([wrong(), paris(), wrong(), paris()]).await;
    let message = proxy.message_both_ways(&message()).await;
    assert_eq!(message["content"], json!([tool_use("call_1", "get_weather", json!({"city": "Paris"}))]));
    assert_eq!(message["usage"]["output_tokens"], 10, "both attempts are counted");
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test]
async fn thinking_comes_first_for_those_who_asked_for_it() {
    let (proxy, upstream) = proxy_before([paris().thinking("Paris, then.")]).await;
    let asked = message_with(json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}));
    let content = proxy.message_both_ways(&asked).await["content"].clone();
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "Paris, then.", "signature": ""}));
    assert_eq!((content.as_array().unwrap().len(), &content[1]["type"]), (2, &json!("tool_use")));
    assert_eq!(upstream.requests()[0].json()["thinking_budget_tokens"], 2048);
    let content = proxy.message_both_ways(&message()).await["content"].clone();
    assert_eq!((content.as_array().unwrap().len(), &content[0]["type"]), (1, &json!("tool_use")));
}

#[tokio::test]
async fn several_calls_are_several_blocks() {
    let calls = [("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#)];
    let expected = json!([
        text("Both."),
        tool_use("call_1", "get_weather", json!({"city": "Paris"})),
        tool_use("call_2", "add", json!({"a": 1, "b": 2})),
    ]);
    let (proxy, _upstream) = proxy_before([Reply::calls(&calls).saying("Both.")]).await;
    assert_eq!(proxy.message_both_ways(&message()).await["content"], expected);
    let one = json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}});
    let message = proxy.message_both_ways(&message_with(one)).await;
    assert_eq!(message["content"].as_array().unwrap().len(), 2, "{message}");
}

#[tokio::test]
async fn arguments_are_shown_as_they_come_where_that_is_wanted() {
    let calls = [("get_weather", r#"{"city":"Paris"}"#), ("add", r#"{"a":1,"b":2}"#)];
    let upstream = Upstream::saying([Reply::calls(&calls).in_tokens_of(3)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.inference.tool_arguments = ToolArguments::Live).await;
    let answer = proxy.message(&message_with(json!({"stream": true}))).await;
    assert!(answer.text().matches("input_json_delta").count() > 6, "{}", answer.text());
    let content = proxy.message_both_ways(&message()).await["content"].clone();
    assert_eq!((&content[0]["input"], &content[1]["input"]), (&json!({"city": "Paris"}), &json!({"a": 1, "b": 2})));
}

#[tokio::test]
async fn text_without_tools_flows_as_it_comes() {
    let reply = Reply::text(&"word ".repeat(40)).in_tokens_of(5).dripping(PAUSE / 4);
    let (proxy, upstream) = proxy_before([reply]).await;
    let mut stream = proxy.message_slowly(&plain(json!({"stream": true}))).await;
    let mut seen = String::new();
    while !seen.contains("text_delta") {
        seen.push_str(std::str::from_utf8(&stream.next().await.unwrap().0).unwrap());
    }
    assert_eq!(upstream.finished(), 0, "the model still speaks");
    seen.push_str(stream.whole().await.unwrap().text());
    let message = fold_message(&frames(seen.as_bytes()));
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([text(&"word ".repeat(40))]), &json!("end_turn")));
    let sent = upstream.only_request().json();
    assert_eq!((&sent["tools"], &sent["tool_choice"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn guardrails_switch_off() {
    let odd = r#"{"town":"Paris"}"#;
    let (proxy, upstream) = proxy_before([Reply::call("get_weather", odd)]).await;
    for stream in [false, true] {
        let answer = proxy.message_with(&message_with(json!({"stream": stream})), &[("x-toolgate-disable", "all")]).await;
        let message = if stream { fold_message(&frames(&answer.body)) } else { answer.json() };
        assert_eq!(message["content"], json!([tool_use("call_1", "get_weather", json!({"town": "Paris"}))]));
    }
    assert_eq!(upstream.requests()[0].json()["tools"].as_array().unwrap().len(), 2, "`respond` is not offered");
}

#[tokio::test]
async fn the_end_says_why() {
    for (finish, reason) in [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")] {
        let (proxy, _upstream) = proxy_before([Reply::text("So").finishing(finish)]).await;
        let message = proxy.message_both_ways(&plain(json!({}))).await;
        assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!(reason), &Value::Null));
    }
}

#[tokio::test]
async fn the_guardrails_explain_themselves() {
    let wrong = || Reply::call("wether", "{}");
    let (proxy, _upstream) = proxy_before([wrong(), paris(), wrong(), paris()]).await;
    for stream in [false, true] {
        let answer = proxy.message_with(&message_with(json!({"stream": stream})), &[("x-toolgate-explain", "1")]).await;
        let message = if stream { fold_message(&frames(&answer.body)) } else { answer.json() };
        assert_eq!(message["toolgate"]["guardrail"], "nudged", "{message}");
        assert_eq!(message["toolgate"]["attempts"][0]["fault"], "unknown_tool");
    }
    assert_eq!(proxy.message(&message()).await.json()["toolgate"], Value::Null);
}

#[tokio::test]
async fn faults_of_a_request_are_errors_in_anthropics_shape() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    let answer = proxy.message(&message_with(json!({"messages": [{"role": "user"}]}))).await;
    let (status, kind, said) = answer.anthropic_error();
    assert_eq!((status, kind.as_str()), (400, "invalid_request_error"));
    assert!(said.contains("`messages.0.content`"), "{said}");
    let send = |method: &'static str, path: &'static str| proxy.client.send(method, path, &[], "");
    assert_eq!(send("POST", "/v1/messages").await.anthropic_error().1, "invalid_request_error");
    let wrong_method = send("GET", "/v1/messages").await;
    assert_eq!((wrong_method.anthropic_error().0, wrong_method.header("allow")), (405, "POST"));
    assert_eq!(send("POST", "/v1/messages/batches").await.anthropic_error().1, "not_found_error");
    let named = proxy.message_with(&json!({}), &[("x-request-id", "mine")]).await;
    assert_eq!((named.anthropic_error().0, named.header("request-id")), (400, "mine"));
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn failures_of_the_backend_are_errors_in_anthropics_shape() {
    for (reply, status, kind) in [
        (Reply::error(401, "who?"), 401, "authentication_error"),
        (Reply::error(429, "busy").header("retry-after", "3"), 429, "rate_limit_error"),
        (Reply::error(500, "fell over"), 500, "api_error"),
        (Reply::error(503, "no slots"), 503, "overloaded_error"),
        (paris().cut_after(2), 502, "api_error"),
    ] {
        let (proxy, _upstream) = proxy_before([reply]).await;
        for request in [message(), message_with(json!({"stream": true})), plain(json!({"stream": true}))] {
            if status == 502 && request["stream"] == true {
                continue;
            }
            let answer = proxy.message(&request).await;
            let (found, word, _) = answer.anthropic_error();
            assert_eq!((found, word.as_str()), (status, kind), "{request}");
            assert_eq!(answer.header("retry-after"), if status == 429 { "3" } else { "" });
        }
    }
}

#[tokio::test]
async fn a_body_too_large_is_said_to_be() {
    let upstream = Upstream::saying([paris()]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.server.body_bytes_max = 64).await;
    let (status, kind, _) = proxy.message(&message()).await.anthropic_error();
    assert_eq!((status, kind.as_str()), (413, "request_too_large"));
}

#[tokio::test]
async fn a_backend_that_dies_in_the_middle_is_an_error_event() {
    let long = json!({"message": format!("first words {}", "and more ".repeat(100))}).to_string();
    let reply = Reply::call("respond", &long).in_pieces_of(50).dripping(PAUSE / 4).cut_after(35);
    let (proxy, upstream) = proxy_before([reply]).await;
    let answer = proxy.message(&message_with(json!({"stream": true}))).await;
    let frames = frames(&answer.body);
    let last = frames.last().unwrap();
    assert_eq!((answer.status, &last["type"], &last["error"]["type"]), (200, &json!("error"), &json!("api_error")));
    assert!(frames.iter().any(|frame| frame["delta"]["type"] == "text_delta"), "{}", answer.text());
    assert!(!answer.text().contains("message_stop"), "half an answer has no end");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_late_refusal_is_an_error_event() {
    let upstream = Upstream::saying([Reply::error(429, "all slots are busy").after(PAUSE * 4)]).await;
    let proxy = Proxy::start_with(&upstream, |config| config.server.head_grace = PAUSE).await;
    let answer = proxy.message(&message_with(json!({"stream": true}))).await;
    let frames = frames(&answer.body);
    assert_eq!((answer.status, frames.len(), &frames[0]["error"]["type"]), (200, 1, &json!("rate_limit_error")));
}

#[tokio::test]
async fn silence_is_filled_with_pings() {
    let upstream = Upstream::saying([paris().after(PAUSE * 10)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        config.server.head_grace = PAUSE;
        config.server.keep_alive = Some(PAUSE);
    })
    .await;
    let answer = proxy.message(&message_with(json!({"stream": true}))).await;
    assert!(answer.text().matches("event: ping\ndata: {\"type\":\"ping\"}\n\n").count() > 2, "{}", answer.text());
    assert_eq!(fold_message(&frames(&answer.body))["stop_reason"], "tool_use");
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_model() {
    for request in [message(), message_with(json!({"stream": true})), plain(json!({})), plain(json!({"stream": true}))] {
        let (proxy, upstream) = proxy_before([paris().stalling_after(2)]).await;
        let (client, body) = (Client::new(proxy.address), request.to_string());
        let mut asking = tokio::task::JoinSet::new();
        asking.spawn(async move {
            let answer = client.open("POST", "/v1/messages", &[], body).await;
            std::future::pending::<()>().await;
            drop(answer);
        });
        upstream.arrived(1).await;
        tokio::time::sleep(PAUSE).await;
        let left = Instant::now();
        asking.shutdown().await;
        let cancelled = tokio::time::timeout(PATIENCE, upstream.cancelled()).await.unwrap();
        assert!(cancelled - left < Duration::from_millis(50), "{:?}: {request}", cancelled - left);
    }
}

#[tokio::test]
async fn a_conversation_goes_up_in_openais_words() {
    let (proxy, upstream) = proxy_before([Reply::call("respond", r#"{"message":"Rain."}"#)]).await;
    let request = message_with(json!({
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "Weather in Paris?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]},
                {"type": "text", "text": "Well?"},
            ]},
        ],
        "stop_sequences": ["END"], "metadata": {"user_id": "u"}, "context_management": {"edits": []}, "betas": ["x"],
    }));
    proxy.message(&request).await;
    let sent = upstream.only_request().json();
    let roles: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(sent["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"city":"Paris"}"#);
    assert_eq!((&sent["messages"][3]["tool_call_id"], &sent["messages"][3]["content"]), (&json!("toolu_1"), &json!("rain")));
    assert_eq!((&sent["stop"], &sent["user"]), (&json!(["END"]), &json!("u")));
    for absent in ["system", "stop_sequences", "metadata", "context_management", "betas"] {
        assert_eq!(sent[absent], Value::Null, "{absent}");
    }
}

#[tokio::test]
async fn no_id_comes_twice_in_a_conversation() {
    let (proxy, _upstream) = proxy_before([paris()]).await;
    let first = proxy.message(&message()).await.json();
    let call = &first["content"][0];
    let request = message_with(json!({"messages": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}]},
    ]}));
    let second = proxy.message(&request).await.json();
    assert_ne!(second["id"], first["id"]);
    assert!(second["content"][0]["id"].as_str().unwrap().starts_with("toolu_"), "{second}");
    let streamed = proxy.message(&message_with(json!({"stream": true, "messages": request["messages"]}))).await;
    let third = fold_message(&frames(&streamed.body));
    assert!(third["content"][0]["id"] != second["content"][0]["id"] && third["content"][0]["id"] != call["id"]);
}

#[tokio::test]
async fn a_bare_key_is_the_callers_identity() {
    let (proxy, upstream) = proxy_before([paris()]).await;
    proxy.message_with(&message(), &[("x-api-key", "sk-caller-1"), ("anthropic-version", "2023-06-01")]).await;
    let sent = upstream.only_request();
    assert_eq!(sent.headers["authorization"], "Bearer sk-caller-1");
    assert!(sent.headers.get("x-api-key").is_none(), "an identity goes up once");
}

#[tokio::test]
async fn tokens_are_counted_by_the_backend_or_estimated() {
    let upstream = Upstream::saying([]).await;
    let proxy = Proxy::start(&upstream).await;
    let count = || proxy.client.send("POST", "/v1/messages/count_tokens?beta=true", &[], message().to_string());
    upstream.at("/v1/messages/count_tokens", Reply::json(200, r#"{"input_tokens":77}"#));
    assert_eq!(count().await.json(), json!({"input_tokens": 77}));
    assert_eq!(upstream.only_request().json(), message());
    for status in [404, 405, 501] {
        upstream.at("/v1/messages/count_tokens", Reply::error(status, "no such path"));
        let answer = count().await;
        let tokens = answer.json()["input_tokens"].as_u64().unwrap();
        assert!(answer.status == 200 && (50..300).contains(&tokens), "{status}: {}", answer.text());
    }
    upstream.at("/v1/messages/count_tokens", Reply::error(500, "fell over"));
    assert_eq!(count().await.anthropic_error().1, "api_error");
    let wrong = proxy.client.send("POST", "/v1/messages/count_tokens", &[], "{}").await;
    assert!(wrong.anthropic_error().2.contains("`messages`"));
}
