//! Calls of models that end otherwise than with a reply.

use std::time::Duration;

use tokio::task::JoinSet;
use toolgate::budget::Unit;

use super::{REPLY, file, money, settled, spent};
use crate::{
    harness::{Client, Proxy, Reply, Upstream, chat, paris, question},
    mcp::bench::{eventually, streamed},
};

#[tokio::test]
async fn a_model_that_was_never_reached_or_refused_costs_nothing() {
    let nobody =
        Proxy::start_from(&file("", ""), |config| config.backends.backends[0].target.url = "http://127.0.0.1:1".parse().unwrap()).await;
    assert_eq!(nobody.ask(&chat()).await.status, 502);
    assert_eq!((settled(&nobody).await.len(), spent(&nobody, Unit::Credits).await), (0, 0));
    for status in [400, 429, 500] {
        let upstream = Upstream::saying([Reply::error(status, "no luck today")]).await;
        let proxy = Proxy::start_before(&upstream, &file("", "")).await;
        assert_eq!(proxy.ask(&chat()).await.status, status);
        assert_eq!((settled(&proxy).await.len(), spent(&proxy, Unit::Credits).await), (0, 0));
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_costs_what_came_of_it() {
    let reply = Reply::text("one two three four").in_tokens_of(4).cut_after(4);
    let upstream = Upstream::saying([reply]).await;
    let proxy = Proxy::start_before(&upstream, &file("", "")).await;
    proxy.ask(&chat()).await;
    let entries = settled(&proxy).await;
    assert!(entries.len() == 1 && money(&entries[0]) > 2000, "{entries:?}");
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_came() {
    let reply = Reply::text("alpha bravo gamma delta omega").in_tokens_of(6).dripping(Duration::from_millis(10)).stalling_after(5);
    let upstream = Upstream::saying([reply]).await;
    let proxy = Proxy::start_before(&upstream, &file("", "")).await;
    let mut asking = JoinSet::new();
    let (client, body) = (Client::new(proxy.address), streamed(chat()).to_string());
    let (told, heard) = tokio::sync::oneshot::channel();
    asking.spawn(async move {
        let mut answer = client.open("POST", "/v1/chat/completions", &[], body).await.unwrap();
        let mut seen = String::new();
        while !seen.contains("gamma") {
            seen.push_str(std::str::from_utf8(&answer.next().await.unwrap().0).unwrap());
        }
        told.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    heard.await.unwrap();
    asking.shutdown().await;
    upstream.cancelled().await;
    let entries = settled(&proxy).await;
    assert_eq!(entries.len(), 1);
    // The prompt, and the pieces that came.
    assert!((3000..10_000).contains(&money(&entries[0])), "{entries:?}");
}

#[tokio::test]
async fn each_attempt_is_charged_on_its_own() {
    let upstream = Upstream::saying([Reply::text("It rains."), paris()]).await;
    let proxy = Proxy::start_before(&upstream, &file("", "")).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.calls().len(), answer.header("x-toolgate-attempts")), (1, "2"));
    let costs: Vec<u64> = settled(&proxy).await.iter().map(money).collect();
    assert_eq!(costs, [REPLY, REPLY]);
}

#[tokio::test]
async fn where_a_second_attempt_may_not_be_made_the_first_is_the_answer() {
    let upstream = Upstream::saying([Reply::text("It rains."), paris()]).await;
    let proxy = Proxy::start_before(&upstream, &file("request_max_calls = 1", "")).await;
    let answer = proxy.ask(&question()).await;
    assert_eq!((answer.content().as_str(), answer.finish_reason().as_str()), ("It rains.", "length"));
    assert_eq!((answer.header("x-toolgate-halt"), upstream.calls()), ("call_quota", 1));
    eventually("something is reserved", || upstream.finished() == 1).await;
    assert_eq!(settled(&proxy).await.len(), 1);
}

#[tokio::test]
async fn a_reply_that_the_server_could_not_read_is_charged() {
    let upstream = Upstream::saying([Reply::error(500, "Failed to parse input at pos 0: the model said this and that")]).await;
    let proxy = Proxy::start_before(&upstream, &file("", "")).await;
    proxy.ask(&chat()).await;
    let entries = settled(&proxy).await;
    assert!(entries.len() == 1 && money(&entries[0]) > 2000, "{entries:?}");
}
