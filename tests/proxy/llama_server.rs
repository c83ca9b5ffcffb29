//! What only llama-server has: its timings, its loading, its slots, and what it says about itself.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Proxy, Reply, Upstream, chat, events, paris, proxy_before, question, question_with};

const LOADING: &str = r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#;

fn loading() -> Reply {
    Reply::json(503, LOADING)
}

/// A server that answers everything but chat completions as build 11434 does, with so many slots.
async fn server(replies: impl IntoIterator<Item = Reply>, slots: u64) -> Upstream {
    let upstream = Upstream::saying(replies).await;
    upstream.at("/props", props(slots));
    upstream
}

fn props(slots: u64) -> Reply {
    let props = json!({
        "default_generation_settings": {"params": {}, "n_ctx": 2048},
        "total_slots": slots,
        "modalities": {"vision": false, "audio": false},
        "chat_template_caps": {"supports_tools": true, "supports_tool_calls": true},
    });
    Reply::json(200, &props.to_string())
}

/// The bodies of the chat completions that were asked for.
fn asked(upstream: &Upstream) -> Vec<Value> {
    upstream.requests().iter().filter(|request| request.path == "/v1/chat/completions").map(|request| request.json()).collect()
}

fn times(upstream: &Upstream, path: &str) -> usize {
    upstream.requests().iter().filter(|request| request.path == path).count()
}

/// A call of `get_weather` with `arguments`, and timings in the last chunk.
fn timed(arguments: &str, predicted_n: u64) -> Reply {
    let call = json!([{"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": arguments}}]);
    let chunk = |choices: Value| json!({"id": "x", "choices": choices});
    let mut last = chunk(json!([]));
    last["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 2});
    last["timings"] = json!({"predicted_n": predicted_n, "predicted_per_second": 11.352_284_079_556_808});
    let payloads = [
        chunk(json!([{"index": 0, "delta": {"tool_calls": call}}])),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])),
        last,
    ];
    let payloads: Vec<String> = payloads.iter().map(Value::to_string).chain(["[DONE]".to_owned()]).collect();
    Reply::events(&payloads.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn timings_reach_the_client_in_the_last_chunk_and_in_a_whole_answer() {
    let (proxy, _upstream) = proxy_before([timed(r#"{"city":"Paris"}"#, 7)]).await;
    let whole = proxy.ask(&question()).await;
    assert_eq!(whole.json()["timings"]["predicted_n"], 7);
    assert!(whole.text().contains("11.352284079556808"), "{}", whole.text());
    for include_usage in [false, true] {
        let options = json!({"stream": true, "stream_options": {"include_usage": include_usage}});
        let chunks: Vec<Value> = events(&proxy.ask(&question_with(options)).await.body);
        let (last, before) = chunks.split_last().unwrap();
        assert_eq!((&last["timings"]["predicted_n"], last["usage"].is_object()), (&json!(7), include_usage), "{last}");
        assert!(before.iter().all(|chunk| chunk.get("timings").is_none()));
    }
}

#[tokio::test]
async fn timings_are_those_of_the_reply_that_became_the_answer() {
    let (proxy, upstream) = proxy_before([timed("{}", 1), timed(r#"{"city":"Paris"}"#, 2)]).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.outcome(), &answer.json()["timings"]["predicted_n"]), ((200, "nudged", "2"), &json!(2)));
    assert_eq!(upstream.calls(), 2);
    let (proxy, _upstream) = proxy_before([paris()]).await;
    assert!(proxy.ask(&question()).await.json().get("timings").is_none());
}

#[tokio::test]
async fn a_server_that_loads_its_model_is_waited_for() {
    for stream in [false, true] {
        let upstream = server([loading(), loading(), paris()], 1).await;
        let answer = Proxy::start(&upstream).await.ask(&question_with(json!({"stream": stream}))).await;
        assert!(answer.status == 200 && answer.text().contains("Paris"), "{}", answer.text());
        assert_eq!(upstream.calls(), 3);
    }
}

#[tokio::test]
async fn it_is_waited_for_no_longer_than_is_set() {
    let upstream = server([loading()], 1).await;
    let proxy = Proxy::start_before(&upstream, "[backend]\nload_timeout = \"400ms\"").await;
    let begun = Instant::now();
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.status, answer.error()["message"].as_str()), (503, Some("Loading model")));
    assert!(begun.elapsed() >= Duration::from_millis(200) && upstream.calls() > 2, "{:?} {}", begun.elapsed(), upstream.calls());

    let upstream = server([loading()], 1).await;
    let proxy = Proxy::start_before(&upstream, "[backend]\nload_timeout = \"0s\"").await;
    assert_eq!(proxy.ask(&question()).await.status, 503);
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn other_refusals_are_not_waited_out() {
    let upstream = server([Reply::error(503, "no slot available")], 1).await;
    let answer = Proxy::start(&upstream).await.ask(&question()).await;
    assert_eq!((answer.status, answer.error()["message"].as_str(), upstream.calls()), (503, Some("no slot available"), 1));
}

#[tokio::test]
async fn where_the_refusal_says_nothing_the_health_check_does() {
    let bare = || Reply::body(503, "text/html", "<html>");
    let upstream = server([bare(), paris()], 1).await;
    upstream.at("/health", loading());
    assert_eq!(Proxy::start(&upstream).await.ask(&question()).await.outcome(), (200, "clean", "1"));

    let upstream = server([bare()], 1).await;
    assert_eq!(Proxy::start(&upstream).await.ask(&question()).await.status, 503);
    assert_eq!(asked(&upstream).len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_is_not_waited_for() {
    let upstream = server([loading()], 1).await;
    let proxy = Proxy::start(&upstream).await;
    let answer = proxy.ask_slowly(&question_with(json!({"stream": true}))).await;
    upstream.arrived(2).await;
    drop(answer);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = upstream.calls();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(upstream.calls(), asked);
}

#[tokio::test]
async fn whether_a_prompt_is_cached_is_said_where_it_is_set() {
    for request in [question(), chat()] {
        let upstream = server([paris()], 1).await;
        Proxy::start(&upstream).await.ask(&request).await;
        assert!(asked(&upstream)[0].get("cache_prompt").is_none());
        let proxy = Proxy::start_before(&upstream, "[backend]\ncache_prompt = false").await;
        proxy.ask(&request).await;
        assert_eq!(asked(&upstream)[1]["cache_prompt"], false);
        let mut own = request.clone();
        own["cache_prompt"] = json!(true);
        proxy.ask(&own).await;
        assert_eq!(asked(&upstream)[2]["cache_prompt"], true);
    }
}

const AFFINITY: &str = "[backend]\nslot_affinity = true";

#[tokio::test]
async fn a_conversation_keeps_to_its_slot() {
    let upstream = server([paris()], 64).await;
    let proxy = Proxy::start_before(&upstream, AFFINITY).await;
    let later = json!({"messages": [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "And tomorrow?"},
    ]});
    let other = json!({"messages": [{"role": "user", "content": "Another conversation"}]});
    for request in [question(), question_with(later), question_with(other), question_with(json!({"id_slot": 77}))] {
        assert_eq!(proxy.ask(&request).await.status, 200);
    }
    let slots: Vec<_> = asked(&upstream).iter().map(|body| body["id_slot"].as_u64().unwrap()).collect();
    assert_eq!(slots[0], slots[1]);
    assert!(slots[0] < 64 && slots[0] != slots[2], "{slots:?}");
    assert_eq!(slots[3], 77);
    assert_eq!(times(&upstream, "/props"), 1);
}

#[tokio::test]
async fn without_affinity_or_choice_the_server_chooses() {
    for (file, slots, props) in [("", 4, 0), (AFFINITY, 1, 1)] {
        let upstream = server([paris()], slots).await;
        let proxy = Proxy::start_before(&upstream, file).await;
        for _ in 0..2 {
            assert_eq!(proxy.ask(&question()).await.status, 200);
        }
        assert!(asked(&upstream).iter().all(|body| body.get("id_slot").is_none()));
        assert_eq!(times(&upstream, "/props"), props, "{file}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_slots_is_asked_once_and_not_waited_for() {
    for silent in [Reply::error(404, "no such page"), Reply::json(200, "not JSON"), props(4).after(Duration::from_secs(30))] {
        let upstream = Upstream::saying([paris()]).await;
        upstream.at("/props", silent);
        let proxy = Proxy::start_before(&upstream, AFFINITY).await;
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(proxy.ask(&question()).await.outcome(), (200, "clean", "1"));
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(times(&upstream, "/props"), 1);
        assert!(asked(&upstream).iter().all(|body| body.get("id_slot").is_none()));
    }
}

#[tokio::test]
async fn a_server_that_came_back_is_asked_again() {
    let upstream = server([paris(), loading(), paris()], 64).await;
    let proxy = Proxy::start_before(&upstream, AFFINITY).await;
    proxy.ask(&question()).await;
    // It starts anew with one slot.
    upstream.at("/props", props(1));
    proxy.ask(&question()).await;
    let bodies = asked(&upstream);
    assert_eq!((bodies.len(), times(&upstream, "/props")), (3, 2));
    assert!(bodies[1]["id_slot"].is_u64() && bodies[2].get("id_slot").is_none());
}

#[tokio::test]
async fn its_models_are_listed_with_what_their_props_say() {
    let upstream = server([paris()], 4).await;
    let list = json!({
        "models": [{"name": "tiny.gguf", "capabilities": ["completion"]}],
        "data": [{"id": "tiny.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32768}}],
    });
    upstream.at("/v1/models", Reply::json(200, &list.to_string()));
    let models = upstream.models("").await;
    let [model] = models.as_slice() else { panic!("{models:?}") };
    assert_eq!((model.id.as_str(), model.context_length), ("tiny.gguf", Some(2048)));
    assert_eq!(model.capabilities, ["completion", "tools"]);
}
