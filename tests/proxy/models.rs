//! The names by which clients ask for models, and what a model gets at its backend.

use serde_json::{Value, json};

use crate::harness::{Proxy, Reply, Upstream, chat, paris, question, question_with};

fn ways() -> [Value; 4] {
    let mut streamed = chat();
    streamed["stream"] = json!(true);
    [chat(), streamed, question(), question_with(json!({"stream": true}))]
}

/// A table of a backend called `name`.
fn backend(name: &str, upstream: &Upstream, settings: &str) -> String {
    format!("[[backend]]\nname = \"{name}\"\nkind = \"openai\"\nurl = \"http://{}\"\n{settings}\n", upstream.address)
}

fn listing(names: &[&str]) -> Reply {
    let data: Vec<Value> = names.iter().map(|name| json!({"id": name, "max_model_len": 4096})).collect();
    Reply::json(200, &json!({"object": "list", "data": data}).to_string())
}

fn chats(upstream: &Upstream) -> usize {
    upstream.requests().iter().filter(|request| request.path == "/v1/chat/completions").count()
}

#[tokio::test]
async fn without_names_in_the_configuration_those_have_a_model_that_list_it() {
    let (first, second) = (Upstream::saying([paris()]).await, Upstream::saying([paris()]).await);
    first.at("/v1/models", listing(&["tiny", "other"]));
    second.at("/v1/models", listing(&["large", "tiny"]));
    let proxy = Proxy::start_from(&(backend("a", &first, "") + &backend("b", &second, "")), |_| {}).await;
    let models = proxy.get("/v1/models").await.json();
    let known: Vec<_> =
        models["data"].as_array().unwrap().iter().map(|model| (&model["id"], &model["owned_by"], &model["context_length"])).collect();
    let entry = |id, owner| (json!(id), json!(owner), json!(4096));
    let expected = [entry("tiny", "a"), entry("other", "a"), entry("large", "b")];
    assert_eq!(known, expected.each_ref().map(|(id, owner, length)| (id, owner, length)));
    for mut request in ways() {
        request["model"] = json!("large");
        assert_eq!(proxy.ask(&request).await.status, 200);
        request["model"] = json!("nowhere");
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("model_not_found")));
    }
    assert_eq!((chats(&first), chats(&second)), (0, 4));
}

#[tokio::test]
async fn the_models_are_listed_once_under_the_names_that_clients_use() {
    let upstream = Upstream::saying([paris()]).await;
    upstream.at("/v1/models", Reply::json(200, r#"{"data": [{"id": "qwen.gguf", "meta": {"n_ctx": 2048}}, {"id": "tiny"}]}"#));
    let file = r#"
        [backend]
        name = "here"
        kind = "openai"
        default = true
        [[model]]
        name = "tiny"
        aliases = ["gpt-4o"]
        backends = [{ backend = "here", model = "qwen.gguf" }]
    "#;
    let proxy = Proxy::start_before(&upstream, file).await;
    for path in ["/v1/models", "/models"] {
        let ids: Vec<Value> = proxy.get(path).await.json()["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
        assert_eq!(ids, ["tiny", "gpt-4o", "qwen.gguf"]);
    }
    let one = proxy.get("/v1/models/gpt-4o").await.json();
    assert_eq!((&one["context_length"], &one["object"]), (&json!(2048), &json!("model")));
    let none = proxy.get("/v1/models/no/such").await;
    assert_eq!((none.status, none.error()["code"].as_str()), (404, Some("model_not_found")));
}

#[tokio::test]
async fn tools_are_written_into_the_prompt_where_that_is_declared() {
    let said = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    for stream in [false, true] {
        let upstream = Upstream::saying([Reply::text("I do not know."), Reply::text(said)]).await;
        let proxy = Proxy::start_before(&upstream, "[backend]\ntools = \"prompt\"").await;
        let answer = proxy.ask_with(&question_with(json!({"stream": stream})), &[("x-toolgate-disable", "rescue")]).await;
        assert!(
            answer.text().contains(r#"{\"city\":\"Paris\"}"#) || answer.text().contains(r#"{\"city\": \"Paris\"}"#),
            "{}",
            answer.text()
        );
        for request in upstream.requests() {
            let sent = request.json();
            assert!(sent.get("tools").is_none(), "{sent}");
            let roles: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
            assert!(roles.starts_with(&["system", "user"]) && !roles.contains(&"tool"), "{roles:?}");
            assert!(sent["messages"][0]["content"].as_str().unwrap().contains("get_weather"));
        }
        assert_eq!(upstream.calls(), 2);
        let health = proxy.get("/health").await.json();
        assert_eq!(health["backends"][0]["tools"], "prompt");
    }
}

#[tokio::test]
async fn a_model_is_sampled_as_its_maker_recommends_where_that_is_wanted() {
    let upstream = Upstream::saying([paris()]).await;
    let file = "[backend]\nrecommended_sampling = true\n[[model]]\nname = \"qwen3-8b\"\nsampling = { top_k = 7 }\n";
    let proxy = Proxy::start_before(&upstream, file).await;
    let recommended = toolgate::backend::sampling::recommended("qwen3-8b").unwrap();
    let value = |name: &str| {
        recommended.sampling.iter().find(|(known, _)| known == name).map(|(_, value)| serde_json::from_slice::<Value>(value).unwrap())
    };
    for mut request in ways() {
        request["model"] = json!("qwen3-8b");
        request["top_p"] = json!(0.11);
        proxy.ask(&request).await;
        let sent = upstream.requests().last().unwrap().json();
        assert_eq!((&sent["top_p"], &sent["top_k"], Some(&sent["temperature"])), (&json!(0.11), &json!(7), value("temperature").as_ref()));
    }
}

#[tokio::test]
async fn the_default_gets_what_nobody_lists() {
    let (first, second) = (Upstream::saying([paris()]).await, Upstream::saying([paris()]).await);
    first.at("/v1/models", listing(&["tiny"]));
    second.at("/v1/models", listing(&["large"]));
    let proxy = Proxy::start_from(&(backend("a", &first, "default = true") + &backend("b", &second, "")), |_| {}).await;
    assert_eq!(proxy.get("/v1/models").await.status, 200);
    for (model, expected) in [("large", (0, 1)), ("tiny", (1, 1)), ("gpt-4o", (2, 1))] {
        let answer = proxy.ask(&question_with(json!({"model": model}))).await;
        assert_eq!((answer.status, (chats(&first), chats(&second))), (200, expected), "{model}");
    }
}

#[tokio::test]
async fn who_does_not_answer_may_have_the_model() {
    let first = Upstream::saying([paris()]).await;
    first.at("/v1/models", listing(&["tiny"]));
    let gone = Upstream::saying([]).await;
    let file = backend("a", &first, "") + &backend("b", &gone, "");
    drop(gone);
    let proxy = Proxy::start_from(&file, |_| {}).await;
    let answer = proxy.ask(&question_with(json!({"model": "large"}))).await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (502, Some("backend_unreachable")));
    assert_eq!(proxy.ask(&question()).await.status, 200);
}

#[tokio::test]
async fn what_a_backend_needs_holds_however_it_is_found() {
    let (first, second) = (Upstream::saying([paris()]).await, Upstream::saying([paris()]).await);
    first.at("/v1/models", listing(&["tiny"]));
    second.at("/v1/models", listing(&["large"]));
    let file = backend("a", &first, "strict_alternation = true") + &backend("b", &second, "strict_alternation = true");
    let proxy = Proxy::start_from(&file, |_| {}).await;
    let messages = json!([{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}]);
    assert_eq!(proxy.ask(&question_with(json!({"messages": messages}))).await.status, 200);
    let sent = first.requests().into_iter().find(|request| request.path == "/v1/chat/completions").unwrap().json();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1, "{sent}");
}

#[tokio::test]
async fn who_answered_goes_on_though_another_model_is_there_too() {
    // Both models are at one backend: the first fails, its fallback answers, and is corrected.
    let upstream = Upstream::saying([Reply::error(500, "no memory"), Reply::text("words"), paris()]).await;
    let file = r#"
        [[model]]
        name = "tiny"
        backends = [{ backend = "llama_server", model = "big" }]
        fallbacks = ["small"]
        [[model]]
        name = "small"
        backends = ["llama_server"]
    "#;
    let proxy = Proxy::start_before(&upstream, file).await;
    assert_eq!(proxy.ask(&question()).await.outcome(), (200, "nudged", "2"));
    let asked: Vec<Value> = upstream.requests().iter().map(|request| request.json()["model"].clone()).collect();
    assert_eq!(asked, ["big", "small", "small"]);
}
