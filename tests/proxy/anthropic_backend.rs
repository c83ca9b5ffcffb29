//! An OpenAI client before a server of Anthropic's Messages API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    Answer, PATIENCE, Proxy, Reply, Upstream, chat, events, fold,
    messages::{message, named, text, thinking, tool_use},
    question, question_with, text_so_far,
};

const KEY: &str = "sk-caller-0123456789";

/// A server that says `replies`, and a proxy before it.
async fn proxy_before(replies: impl IntoIterator<Item = Reply>) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    (Proxy::start_before(&upstream, "[backend]\nkind = \"anthropic\"").await, upstream)
}

fn paris() -> Reply {
    message(&[tool_use("toolu_1", "get_weather", r#"{"city":"Paris"}"#)], "tool_use")
}

fn check_paris(answer: &Answer) {
    assert_eq!(answer.calls(), [("get_weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())]);
    assert_eq!(answer.finish_reason(), "tool_calls");
}

#[tokio::test]
async fn a_call_comes_back_as_openais() {
    let (proxy, upstream) =
        proxy_before([message(&[thinking("Hm."), tool_use("toolu_1", "get_weather", r#"{"city":"Paris"}"#)], "tool_use")]).await;
    let answer = proxy.ask(&question_with(json!({"max_tokens": 300, "logprobs": true}))).await;
    assert_eq!(answer.outcome(), (200, "clean", "1"));
    check_paris(&answer);
    let body = answer.json();
    assert_eq!((&body["id"], &body["model"], &body["object"]), (&json!("msg_1"), &json!("claude-up"), &json!("chat.completion")));
    assert_eq!(body["choices"][0]["message"]["reasoning_content"], "Hm.");
    assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["id"], "toolu_1");
    let usage = &body["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(12), &json!(5)));
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 4);
    let asked = upstream.only_request();
    assert_eq!((asked.path.as_str(), asked.headers["anthropic-version"].to_str().unwrap()), ("/v1/messages", "2023-06-01"));
    let asked = asked.json();
    assert_eq!(
        (&asked["model"], &asked["max_tokens"], &asked["stream"], &asked["logprobs"]),
        (&json!("tiny"), &json!(300), &json!(true), &Value::Null)
    );
    let names: Vec<_> = asked["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get_weather", "add", "respond"]);
    assert_eq!(asked["tools"][0]["input_schema"]["required"], json!(["city"]));
    assert_eq!(asked["messages"][0]["content"][0]["text"], "What is the weather in Paris?");
}

#[tokio::test]
async fn a_call_in_the_text_is_rescued() {
    let (proxy, upstream) =
        proxy_before([message(&[text(r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#)], "end_turn")]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), answer.calls()[0].0.as_str(), upstream.calls()), ((200, "rescued", "1"), "get_weather", 1));
}

#[tokio::test]
async fn corrections_are_calls_and_results_and_the_next_call_is_forced() {
    let wrong = message(&[text("Let me see."), tool_use("toolu_0", "get_weather", r#"{"town":"Paris"}"#)], "tool_use");
    let (proxy, upstream) = proxy_before([wrong, paris()]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!(answer.outcome(), (200, "nudged", "2"));
    check_paris(&answer);
    let asked: Vec<Value> = upstream.requests().iter().map(|request| request.json()).collect();
    assert_eq!(asked[0]["tool_choice"], Value::Null);
    assert_eq!(asked[1]["tool_choice"], json!({"type": "any", "disable_parallel_tool_use": true}));
    let turns = asked[1]["messages"].as_array().unwrap();
    let roles: Vec<_> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let called = turns[1]["content"].as_array().unwrap().last().unwrap();
    assert_eq!(called, &json!({"type": "tool_use", "id": "toolu_0", "name": "get_weather", "input": {"town": "Paris"}}));
    let result = &turns[2]["content"][0];
    assert_eq!((&result["type"], &result["tool_use_id"]), (&json!("tool_result"), &json!("toolu_0")));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("city"), "{result}");
}

#[tokio::test]
async fn text_where_a_call_is_due_is_corrected_in_the_users_role() {
    let (proxy, upstream) = proxy_before([message(&[text("I would rather talk.")], "end_turn"), paris()]).await;
    let answer = proxy.ask(&question_with(json!({"tool_choice": "required"}))).await;
    check_paris(&answer);
    let turns = upstream.requests()[1].json()["messages"].clone();
    let roles: Vec<_> = turns.as_array().unwrap().iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[tokio::test]
async fn a_stream_folds_to_the_same_answer_however_it_is_cut() {
    let reply = message(
        &[text("Let me see."), tool_use("t1", "get_weather", r#"{"city":"Paris"}"#), tool_use("t2", "add", r#"{"a":1,"b":2}"#)],
        "tool_use",
    );
    for piece in [1, 7, 100_000] {
        let (proxy, _upstream) = proxy_before([reply.clone().in_pieces_of(piece)]).await;
        let whole = proxy.ask(&question()).await;
        assert_eq!(whole.calls().len(), 2);
        let stream = proxy.ask(&question_with(json!({"stream": true, "stream_options": {"include_usage": true}}))).await;
        let folded = fold(&events(&stream.body));
        assert_eq!(folded["message"]["tool_calls"], whole.message()["tool_calls"]);
        assert_eq!((&folded["usage"], &folded["finish_reason"]), (&whole.json()["usage"], &json!("tool_calls")));
    }
}

#[tokio::test]
async fn text_is_shown_while_it_comes() {
    let (proxy, _upstream) = proxy_before([message(&[text("Hello, how are you today?")], "end_turn").stalling_after(5)]).await;
    let mut chat = chat();
    chat["stream"] = true.into();
    let mut streaming = proxy.ask_slowly(&chat).await;
    let mut so_far = String::new();
    while text_so_far(&so_far) != "Hello, how are you today?" {
        so_far.push_str(std::str::from_utf8(&streaming.next().await.unwrap().0).unwrap());
    }
}

#[tokio::test]
async fn a_request_without_tools_is_translated_too() {
    let (proxy, upstream) = proxy_before([message(&[text("Hello.")], "max_tokens")]).await;
    let answer = proxy.ask(&chat()).await;
    assert_eq!((answer.content().as_str(), answer.finish_reason().as_str()), ("Hello.", "length"));
    let asked = upstream.only_request();
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!((&asked.json()["tools"], &asked.json()["max_tokens"]), (&Value::Null, &json!(4096)));
}

#[tokio::test]
async fn the_callers_key_goes_into_its_slot_and_nowhere_else() {
    let (proxy, upstream) = proxy_before([message(&[text("words")], "end_turn"), paris()]).await;
    proxy.ask_with(&question_with(json!({"tool_choice": "required"})), &[("authorization", &format!("Bearer {KEY}"))]).await;
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.headers["x-api-key"], KEY);
        let mut others = request.headers.iter().filter(|(name, _)| *name != "x-api-key");
        assert!(others.all(|(name, value)| name != "authorization" && !value.to_str().unwrap().contains(KEY)));
        assert!(!request.text().contains(KEY) && !request.path.contains(KEY));
    }
}

#[tokio::test]
async fn a_configured_key_replaces_it_and_without_one_none_is_sent() {
    let upstream = Upstream::saying([paris()]).await;
    let proxy = Proxy::start_before(&upstream, "[backend]\nkind = \"anthropic\"\napi_key = \"sk-static-0123\"").await;
    proxy.ask_with(&question(), &[("authorization", &format!("Bearer {KEY}"))]).await;
    assert_eq!(upstream.only_request().headers["x-api-key"], "sk-static-0123");
    let (proxy, upstream) = proxy_before([paris()]).await;
    proxy.ask(&question()).await;
    let headers = upstream.only_request().headers;
    assert!(!headers.contains_key("x-api-key") && !headers.contains_key("authorization"));
}

fn failure(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

#[tokio::test]
async fn overload_and_limits_reach_the_client_with_the_time_to_wait() {
    for (status, kind) in [(529, "overloaded_error"), (429, "rate_limit_error")] {
        for request in [question(), chat(), question_with(json!({"stream": true}))] {
            let refused = Reply::json(status, &failure(kind, "Come back later").to_string()).header("retry-after", "17");
            let (proxy, _upstream) = proxy_before([refused]).await;
            let answer = proxy.ask(&request).await;
            assert_eq!((answer.status, answer.header("retry-after")), (status, "17"));
            let error = answer.error();
            assert_eq!((&error["type"], &error["message"]), (&json!(kind), &json!("Come back later")));
        }
    }
}

#[tokio::test]
async fn an_error_that_quotes_the_key_does_not_show_it() {
    let refused = Reply::json(401, &failure("authentication_error", &format!("invalid x-api-key {KEY}")).to_string());
    let (proxy, _upstream) = proxy_before([refused]).await;
    let answer = proxy.ask_with(&question(), &[("authorization", &format!("Bearer {KEY}"))]).await;
    assert_eq!((answer.status, &answer.error()["message"]), (401, &json!("invalid x-api-key [secret]")));
}

#[tokio::test]
async fn an_error_in_the_stream_has_the_status_of_its_type() {
    let begun = json!({"type": "message_start", "message": {"id": "m", "model": "c"}});
    let (proxy, _upstream) = proxy_before([named(&[begun, failure("overloaded_error", "Overloaded")])]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, &answer.error()["type"]), (529, &json!("overloaded_error")));
}

#[tokio::test]
async fn a_stream_that_is_cut_is_an_error() {
    let whole = message(&[text("Hello, how are you?")], "end_turn");
    for cut in [whole.clone().cut_after(4), whole.clone().cut_after(7)] {
        let (proxy, _upstream) = proxy_before([cut.clone()]).await;
        let answer = proxy.ask(&chat()).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("backend_protocol_error")));
        let mut streamed = chat();
        streamed["stream"] = true.into();
        let (proxy, _upstream) = proxy_before([cut]).await;
        let stream = proxy.ask(&streamed).await;
        assert!(!stream.text().contains("[DONE]") && stream.text().contains("backend_protocol_error"), "{}", stream.text());
    }
    // A body that ends by the book before the message does.
    let begun = json!({"type": "message_start", "message": {"id": "m", "model": "c"}});
    let (proxy, _upstream) = proxy_before([named(&[begun])]).await;
    assert_eq!(proxy.ask(&question()).await.error()["code"], "backend_protocol_error");
    for no_message in [Reply::json(200, "{}"), Reply::body(200, "text/html", "<p>")] {
        let (proxy, _upstream) = proxy_before([no_message]).await;
        assert_eq!(proxy.ask(&question()).await.error()["code"], "backend_protocol_error");
    }
}

#[tokio::test]
async fn a_server_may_answer_with_the_whole_message() {
    let content = json!([{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}]);
    let whole =
        json!({"type": "message", "id": "m", "model": "c", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}});
    let (proxy, _upstream) = proxy_before([Reply::json(200, &whole.to_string())]).await;
    check_paris(&proxy.ask(&question()).await);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_without_asking() {
    for (more, param) in [
        (json!({"n": 2}), "n"),
        (json!({"tools": [{"type": "web_search"}]}), "tools"),
        (json!({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}), "messages"),
    ] {
        let (proxy, upstream) = proxy_before([paris()]).await;
        let answer = proxy.ask(&question_with(more)).await;
        assert_eq!((answer.status, answer.error()["param"].as_str(), upstream.calls()), (400, Some(param), 0));
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_model() {
    let (proxy, upstream) = proxy_before([message(&[text("Hello.")], "end_turn").stalling_after(4)]).await;
    let mut streamed = chat();
    streamed["stream"] = true.into();
    let mut streaming = proxy.ask_slowly(&streamed).await;
    streaming.next().await.unwrap();
    let left = Instant::now();
    drop(streaming);
    assert!(upstream.cancelled().await.duration_since(left) < Duration::from_millis(50));
}

#[tokio::test]
async fn the_end_of_the_message_ends_the_answer() {
    // The body goes on, silently: nobody waits for it.
    let whole = message(&[text("Hello.")], "end_turn");
    let pieces = whole.bytes().windows(7).filter(|window| *window == b"\nevent:").count() + 1;
    let (proxy, _upstream) = proxy_before([whole.stalling_after(pieces)]).await;
    let begun = Instant::now();
    assert_eq!(proxy.ask(&chat()).await.content(), "Hello.");
    assert!(begun.elapsed() < PATIENCE / 2);
}

#[tokio::test]
async fn models_are_listed_and_readiness_is_asked_of_their_list() {
    let (proxy, upstream) = proxy_before([]).await;
    let support = |supported: bool| json!({"supported": supported});
    let claude = json!({"type": "model", "id": "claude-x", "display_name": "X", "max_input_tokens": 200_000,
        "capabilities": {"image_input": support(true), "thinking": support(false)}});
    let plain = json!({"type": "model", "id": "plain"});
    upstream.at("/v1/models", Reply::json(200, &json!({"data": [claude, plain], "has_more": false}).to_string()));
    let listed = proxy.get("/v1/models").await.json();
    let models = listed["data"].as_array().unwrap();
    assert_eq!((&models[0]["id"], &models[1]["id"], models.len()), (&json!("claude-x"), &json!("plain"), 2));
    assert!(models[0].to_string().contains("200000") && models[0].to_string().contains("vision"), "{}", models[0]);
    for asked in upstream.requests() {
        assert_eq!(asked.path, "/v1/models?limit=1000");
        assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    }
    for (status, ready) in [(200, 200), (401, 200), (403, 200), (404, 200), (503, 503), (529, 503)] {
        upstream.at("/v1/models", Reply::json(status, r#"{"data":[]}"#));
        assert_eq!(proxy.get("/health/ready").await.status, ready, "the list answered {status}");
    }
}
