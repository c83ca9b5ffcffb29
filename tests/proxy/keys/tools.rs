//! Tools of MCP servers, and what is kept of conversations, key by key.

use std::{sync::Arc, time::Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolgate::{
    budget::{
        Account, Meter,
        access::{Access, Pattern},
    },
    chat::cost::Cost,
    config::{self, Config},
    tools::{
        Entry, Proposal,
        config::{Approval, Policy},
    },
};

use super::{FULL, NARROW, file, get, post};
use crate::harness::{PATIENCE, Proxy, Reply, Upstream, chat, mcp, question};

/// A tool that changes nothing, and one that may destroy something.
fn tools() -> Value {
    let mut look = mcp::tool("look", "q");
    look["annotations"] = json!({"readOnlyHint": true});
    json!([look, mcp::tool("wipe", "q")])
}

/// A proxy with the servers `fs` and `web`, each with the same tools, before a model that says `replies`.
async fn bench(replies: impl IntoIterator<Item = Reply>, change: impl FnOnce(&mut Config)) -> (Proxy, Upstream) {
    let upstream = Upstream::saying(replies).await;
    let (read, problems) = config::from_text(&file(), &std::collections::HashMap::new());
    assert_eq!(problems, []);
    let servers = mcp::with_servers([mcp::server("fs", tools()), mcp::server("web", tools())]);
    let proxy = Proxy::start_with(&upstream, |config| {
        servers(config);
        config.keys = read.keys;
        change(config);
    })
    .await;
    mcp::eventually("the servers are connected", || proxy.health().iter().all(|health| health.tools == 2)).await;
    (proxy, upstream)
}

fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

const ASK: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_tool_that_may_not_be_used_is_not_seen() {
    let (proxy, upstream) = bench([done()], |_| {}).await;
    for (secret, expected) in [(FULL, ["look", "wipe"].as_slice()), (NARROW, &["look"])] {
        post(&proxy, ASK, secret, &chat()).await.message();
        let offered = upstream.requests().last().unwrap().json()["tools"].clone();
        let names: Vec<&str> = offered.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names.iter().filter(|name| **name != "respond").copied().collect::<Vec<_>>(), expected);

        let listed = get(&proxy, "/tools", secret).await.json();
        let names: Vec<&str> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!((names.as_slice(), listed["count"].as_u64().unwrap() as usize), (expected, expected.len()));
        assert_eq!(listed.to_string().contains(r#""server":"web""#), secret == FULL, "{listed}");
    }
    assert_eq!(get(&proxy, "/tools?server=web", NARROW).await.json()["count"], 0);
}

#[tokio::test]
async fn a_call_of_what_was_not_offered_comes_to_nothing() {
    let replies = [Reply::call("wipe", r#"{"q":"a"}"#), done()];
    let (proxy, upstream) = bench(replies, |_| {}).await;
    let headers = [("x-api-key", NARROW), ("x-toolgate-disable", "all"), ("x-toolgate-explain", "1")];
    let answer = proxy.client.send("POST", ASK, &headers, chat().to_string()).await;
    assert!(answer.json()["toolgate"]["calls"].as_array().into_iter().flatten().all(|call| call["executed"] == false), "{}", answer.text());
    assert!(upstream.calls() >= 1);
    let named = json!({"type": "function", "function": {"name": "wipe"}});
    let mut request = chat();
    request["tool_choice"] = named;
    assert_eq!(post(&proxy, ASK, NARROW, &request).await.error()["param"], "tool_choice");
}

#[tokio::test]
async fn what_is_chosen_is_what_may_be_used() {
    let (proxy, _upstream) = bench([], |_| {}).await;
    let toolbox = proxy.toolbox.clone().unwrap();
    let definitions = toolbox.snapshot().tools().iter().map(|listed| Arc::clone(&listed.definition)).collect::<Vec<_>>();
    let (progress, _heard) = mpsc::channel(1);
    let choose = async |name: &str, allow: &[&str]| {
        let candidates: Vec<_> = definitions.iter().filter(|definition| definition.name == name).cloned().collect();
        let allow = allow.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let proposal = Proposal {
            step: 1,
            call_id: "call_1".to_owned(),
            meter: Meter::default(),
            cost: Cost::default(),
            account: Arc::new(Account { tools: Access { allow, ..Access::default() }, ..Account::anonymous() }),
            entry: Entry { name: name.to_owned(), description: String::new(), schema: candidates[0].schema.clone(), candidates },
            arguments: Map::from_iter([("q".to_owned(), json!("a"))]),
            message: "".into(),
            recent: Vec::new(),
            dry_run: false,
            was_corrected: false,
            deadline: Instant::now() + PATIENCE,
            progress: progress.clone(),
        };
        match toolbox.choose(proposal).await {
            Ok(chosen) => Ok((chosen.selection.definition.server.to_string(), chosen.selection.others.len())),
            Err(outcome) => Err(outcome.content),
        }
    };
    assert_eq!(choose("wipe", &[]).await, Ok(("fs".to_owned(), 1)));
    assert_eq!(choose("wipe", &["web.*"]).await, Ok(("web".to_owned(), 0)), "the other is no substitute either");
    assert_eq!(choose("wipe", &["@read_only"]).await, Err("\"Not called: wipe may not be used here.\"".to_owned()));
}

/// The request that brings `results` of what `message` called.
fn follow(request: &Value, message: &Value, results: &[&str]) -> Value {
    let mut next = request.clone();
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(message.clone());
    for (call, content) in message["tool_calls"].as_array().unwrap().iter().zip(results) {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": content}));
    }
    next
}

#[tokio::test]
async fn an_approval_is_good_for_the_key_that_was_asked() {
    let asking = |config: &mut Config| config.tools.approvals = vec![Approval { pattern: "*".to_owned(), policy: Policy::Ask }];
    let (proxy, _upstream) = bench([Reply::call("look", r#"{"q":"a"}"#), done()], asking).await;
    let message = post(&proxy, ASK, FULL, &chat()).await.message();
    assert_eq!(message["tool_calls"][0]["function"]["name"], "fs__look");
    let approved = follow(&chat(), &message, &["approve"]);
    let explained = async |secret: &str| {
        let headers = [("x-api-key", secret), ("x-toolgate-explain", "1")];
        proxy.client.send("POST", ASK, &headers, approved.to_string()).await
    };
    let others = explained(NARROW).await;
    assert_eq!(others.header("x-toolgate-continuation"), "lost");
    assert!(!others.text().contains(r#""executed":true"#), "{}", others.text());
    let own = explained(FULL).await.json();
    assert_eq!((&own["toolgate"]["calls"][0]["tool"], &own["toolgate"]["calls"][0]["executed"]), (&json!("look"), &json!(true)), "{own}");
}

#[tokio::test]
async fn what_a_client_does_not_see_of_its_conversation_nobody_else_gets_to_see() {
    let calls = [("look", r#"{"q":"a secret"}"#), ("get_weather", r#"{"city":"Paris"}"#)];
    let (proxy, upstream) = bench([Reply::calls(&calls), done()], |_| {}).await;
    let message = post(&proxy, ASK, FULL, &question()).await.message();
    let next = follow(&question(), &message, &["sunny"]);
    let read = || upstream.requests().last().unwrap().json()["messages"].to_string();
    assert_eq!(post(&proxy, ASK, NARROW, &next).await.header("x-toolgate-continuation"), "lost");
    assert!(!read().contains("a secret"), "{}", read());
    assert_eq!(post(&proxy, ASK, FULL, &next).await.header("x-toolgate-continuation"), "");
    assert!(read().contains("a secret"), "{}", read());
}

#[tokio::test]
async fn what_nobody_may_use_no_key_gives() {
    let narrowed = |config: &mut Config| config.budget.policy.access.deny = vec![Pattern::Name("fs.look".to_owned())];
    let (proxy, _upstream) = bench([Reply::call("look", r#"{"q":"a"}"#), done()], narrowed).await;
    let listed = async |secret: &str| {
        let listed = get(&proxy, "/tools", secret).await.json();
        let servers = |tool: &Value| tool["servers"].as_array().unwrap().iter().map(|it| it["server"].clone()).collect::<Vec<_>>();
        let tools = listed["tools"].as_array().unwrap().iter();
        tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), servers(tool))).collect::<Vec<_>>()
    };
    let all = [("look".to_owned(), vec![json!("web")]), ("wipe".to_owned(), vec![json!("fs"), json!("web")])];
    assert_eq!(listed(FULL).await, all);
    assert_eq!(listed(NARROW).await, [], "its own rules leave it no tool but fs.look");
    let headers = [("x-api-key", FULL), ("x-toolgate-explain", "1")];
    let answer = proxy.client.send("POST", ASK, &headers, chat().to_string()).await.json();
    let call = &answer["toolgate"]["calls"][0];
    assert_eq!((&call["server"], &call["executed"]), (&json!("web"), &json!(true)), "{answer}");
}
