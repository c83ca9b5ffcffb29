//! Several servers have the tool that the model calls: which of them serves the call.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate::tools::selector::embed::{self, Kind};

use super::acting::{Acting, asking, explained};
use crate::harness::{Proxy, Reply, Upstream, mcp};

/// A model that calls `lookup` once in each conversation.
async fn looking_up() -> Upstream {
    Upstream::saying([(); 4].into_iter().flat_map(|()| [Reply::call("lookup", "{}"), Reply::call("respond", r#"{"message":"Done."}"#)]))
        .await
}

fn described(id: &str, description: &str) -> Acting {
    Acting::new(id, json!([{"name": "lookup", "description": description, "inputSchema": {"type": "object"}}]))
}

fn chosen(calls: &[Value]) -> (&str, &str, &Value) {
    let field = |name: &str| calls[0][name].as_str().unwrap();
    (field("server"), field("selection_rule"), &calls[0]["alternatives"])
}

#[tokio::test]
async fn the_user_the_conversation_and_the_order_decide() {
    let upstream = looking_up().await;
    let (alpha, beta) = (described("alpha", "Looks."), described("beta-2", "Looks."));
    let proxy = Proxy::start_with(&upstream, mcp::with_servers([alpha.server.clone(), beta.server.clone()])).await;
    let session = [("x-session-id", "one")];
    let calls = explained(&proxy, &asking("Look."), &session).await;
    assert_eq!(chosen(&calls), ("alpha", "priority-order", &json!(["beta-2"])));
    let calls = explained(&proxy, &asking("Look on Beta-2."), &session).await;
    assert_eq!(chosen(&calls), ("beta-2", "explicit-mention", &json!(["alpha"])));
    let calls = explained(&proxy, &asking("Look again."), &session).await;
    assert_eq!(chosen(&calls), ("beta-2", "session-recency", &json!(["alpha"])));
    // Another conversation knows nothing of it.
    let calls = explained(&proxy, &asking("Look again."), &[("x-session-id", "two")]).await;
    assert_eq!(chosen(&calls), ("alpha", "priority-order", &json!(["beta-2"])));
    assert_eq!((alpha.calls(), beta.calls()), (2, 2));
}

fn vectors(vectors: &[[f64; 2]]) -> Reply {
    let data: Vec<Value> = vectors.iter().enumerate().map(|(index, vector)| json!({"index": index, "embedding": vector})).collect();
    Reply::json(200, &json!({"object": "list", "data": data, "model": "m"}).to_string())
}

/// A proxy whose two servers are compared by `embedder`, and the servers.
async fn comparing(upstream: &Upstream, embedder: &Upstream, kind: Kind) -> (Proxy, [Acting; 2]) {
    let servers = [described("alpha", "stock prices"), described("beta", "city weather")];
    let with_servers = mcp::with_servers(servers.iter().map(|acting| acting.server.clone()));
    let url = format!("http://{}/v1", embedder.address).parse().unwrap();
    let proxy = Proxy::start_with(upstream, |config| {
        with_servers(config);
        let (model, api_key) = ("m".to_owned(), Some(toolgate::secret::Secret::new("key")));
        config.tools.embedder = embed::Config::Remote { kind, url, model, api_key, timeout: Duration::from_millis(500) };
    })
    .await;
    (proxy, servers)
}

#[tokio::test]
async fn a_model_compares_descriptions_and_is_asked_once_about_each() {
    let upstream = looking_up().await;
    // The message, the descriptions, another message.
    let embedder = Upstream::saying([vectors(&[[0.0, 1.0]]), vectors(&[[0.0, 1.0], [1.0, 0.0]]), vectors(&[[1.0, 0.0]])]).await;
    let (proxy, _servers) = comparing(&upstream, &embedder, Kind::OpenAi).await;
    let asked = async |words: &str, session: &str| explained(&proxy, &asking(words), &[("x-session-id", session)]).await;
    let calls = asked("Is it raining?", "1").await;
    assert_eq!(chosen(&calls), ("beta", "cosine-similarity", &json!(["alpha"])));
    assert_eq!(calls[0]["note"], Value::Null);
    assert_eq!(chosen(&asked("Is it up?", "2").await).0, "alpha");
    // Both are known by now.
    assert_eq!(chosen(&asked("Is it raining?", "3").await).0, "beta");
    let requests = embedder.requests();
    let inputs: Vec<Value> = requests.iter().map(|request| request.json()["input"].clone()).collect();
    assert_eq!(inputs, [json!(["Is it raining?"]), json!(["city weather", "stock prices"]), json!(["Is it up?"])]);
    assert_eq!(requests[0].path, "/v1/embeddings");
    assert_eq!(requests[0].headers["authorization"], "Bearer key");
    assert_eq!(requests[0].json(), json!({"model": "m", "input": ["Is it raining?"]}));
}

#[tokio::test]
async fn voyage_is_told_which_text_is_the_question() {
    let upstream = looking_up().await;
    let embedder = Upstream::saying([vectors(&[[0.0, 1.0]]), vectors(&[[0.0, 1.0], [1.0, 0.0]])]).await;
    let (proxy, _servers) = comparing(&upstream, &embedder, Kind::Voyage).await;
    assert_eq!(chosen(&explained(&proxy, &asking("Is it raining?"), &[]).await).0, "beta");
    let kinds: Vec<Value> = embedder.requests().iter().map(|request| request.json()["input_type"].clone()).collect();
    assert_eq!(kinds, [json!("query"), json!("document")]);
}

#[tokio::test]
async fn a_failing_model_is_told_of_and_left_alone_for_a_while() {
    let upstream = looking_up().await;
    let embedder = Upstream::saying([Reply::error(500, "no")]).await;
    let (proxy, _servers) = comparing(&upstream, &embedder, Kind::OpenAi).await;
    for session in ["1", "2"] {
        let calls = explained(&proxy, &asking("How is the weather in the city?"), &[("x-session-id", session)]).await;
        assert_eq!(chosen(&calls), ("beta", "cosine-similarity", &json!(["alpha"])));
        assert!(calls[0]["note"].as_str().unwrap().contains("compared by their words"), "{calls:?}");
    }
    assert_eq!(embedder.calls(), 1);
}

#[tokio::test]
async fn a_silent_model_costs_no_more_than_its_time() {
    let upstream = looking_up().await;
    let embedder = Upstream::saying([vectors(&[[0.0, 1.0]]).after(Duration::from_secs(60))]).await;
    let (proxy, _servers) = comparing(&upstream, &embedder, Kind::OpenAi).await;
    let calls = explained(&proxy, &asking("How is the weather in the city?"), &[]).await;
    assert_eq!(chosen(&calls).0, "beta");
    assert!(calls[0]["note"].as_str().unwrap().contains("within 0.5 s"), "{calls:?}");
}
