//! Who asks: one credential goes to the backend, and nothing else that names the caller.

use serde_json::json;
use toolgate::secret::Secret;

use crate::harness::{Proxy, Reply, Upstream, chat, proxy_before, question};

const KEY: &str = "sk-caller-0123456789";

/// A chat, a guarded chat, and a path that is passed on.
fn ways() -> [(&'static str, String); 3] {
    [("/v1/chat/completions", chat().to_string()), ("/v1/chat/completions", question().to_string()), ("/v1/embeddings", "{}".to_owned())]
}

#[tokio::test]
async fn the_callers_authorization_reaches_the_backend() {
    for (path, body) in ways() {
        let (proxy, upstream) = proxy_before([Reply::call("get_weather", r#"{"city":"Paris"}"#)]).await;
        proxy.client.send("POST", path, &[("authorization", &format!("Bearer {KEY}"))], body).await;
        assert_eq!(upstream.only_request().headers["authorization"], format!("Bearer {KEY}"));
    }
}

#[tokio::test]
async fn it_does_so_on_every_attempt() {
    let (proxy, upstream) = proxy_before([Reply::text("words"), Reply::call("get_weather", r#"{"city":"Paris"}"#)]).await;
    proxy.ask_with(&question(), &[("authorization", "Basic dTpw")]).await;
    let sent: Vec<_> = upstream.requests().iter().map(|request| request.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["Basic dTpw", "Basic dTpw"]);
}

#[tokio::test]
async fn without_one_none_is_sent() {
    for (path, body) in ways() {
        let (proxy, upstream) = proxy_before([Reply::call("get_weather", r#"{"city":"Paris"}"#)]).await;
        proxy.post(path, body).await;
        assert!(!upstream.only_request().headers.contains_key("authorization"));
    }
}

#[tokio::test]
async fn a_configured_key_replaces_it() {
    for (path, body) in ways() {
        let upstream = Upstream::saying([Reply::call("get_weather", r#"{"city":"Paris"}"#)]).await;
        let proxy =
            Proxy::start_with(&upstream, |config| config.backends.backends[0].target.api_key = Some(Secret::new("Bearer sk-static"))).await;
        proxy.client.send("POST", path, &[("authorization", &format!("Bearer {KEY}"))], body).await;
        let sent: Vec<_> = upstream.only_request().headers.get_all("authorization").iter().cloned().collect();
        assert_eq!(sent, ["Bearer sk-static"]);
    }
}

#[tokio::test]
async fn nothing_else_names_the_caller() {
    let names = [
        "cookie",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-real-ip",
        "forwarded",
        "via",
        "user-agent",
        "origin",
        "referer",
        "x-api-key",
        "api-key",
        "proxy-authorization",
        "openai-organization",
        "openai-project",
        "x-stainless-os",
        "x-request-id",
        "x-toolgate-explain",
    ];
    let headers: Vec<_> = names.iter().map(|name| (*name, "names-the-caller")).collect();
    for (path, body) in ways() {
        let (proxy, upstream) = proxy_before([Reply::call("get_weather", r#"{"city":"Paris"}"#)]).await;
        proxy.client.send("POST", path, &headers, body).await;
        let sent = upstream.only_request().headers;
        for name in names {
            assert!(!sent.contains_key(name), "{name} was forwarded to {path}");
        }
        assert_eq!(sent["host"], upstream.address.to_string());
    }
}

/// Answers an error that quotes `quoted` in each of its fields, and asks with `authorization`.
async fn quoting(authorization: &str, quoted: &str, in_stream: bool) -> Vec<String> {
    let error = json!({"message": format!("wrong key {quoted}!"), "type": quoted, "param": quoted, "code": quoted});
    let reply = if in_stream { Reply::text("").failing_with(error) } else { Reply::json(401, &json!({"error": error}).to_string()) };
    let mut answers = Vec::new();
    let requests = if in_stream { vec![question()] } else { vec![chat(), question()] };
    for request in requests {
        let (proxy, _upstream) = proxy_before([reply.clone()]).await;
        let answer = proxy.ask_with(&request, &[("authorization", authorization)]).await;
        answer.error();
        answers.push(answer.text().to_owned());
    }
    answers
}

/// The messages of errors that quote [`KEY`] to a caller with `authorization`.
async fn check_messages(authorization: &str) {
    for in_stream in [false, true] {
        for answer in quoting(authorization, KEY, in_stream).await {
            let message = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["error"]["message"].clone();
            assert_eq!(message, "wrong key [secret]!", "{authorization}");
        }
    }
}

#[tokio::test]
async fn no_error_message_holds_the_credential() {
    check_messages(&format!("Bearer {KEY}")).await;
}

#[tokio::test]
async fn a_scheme_may_be_written_in_any_case() {
    check_messages(&format!("bearer {KEY}")).await;
    check_messages(&format!("BEARER  {KEY}")).await;
}

#[tokio::test]
async fn a_credential_of_another_scheme_is_one_too() {
    check_messages(&format!("Token {KEY}")).await;
}

#[tokio::test]
async fn no_other_field_of_an_error_holds_the_credential() {
    for in_stream in [false, true] {
        for answer in quoting(&format!("Bearer {KEY}"), KEY, in_stream).await {
            assert!(!answer.contains(KEY), "{answer}");
        }
    }
}

#[tokio::test]
async fn no_error_message_holds_the_configured_key() {
    let upstream = Upstream::saying([Reply::error(401, "wrong key sk-static-0123456789")]).await;
    let key = Secret::new("Bearer sk-static-0123456789");
    let proxy = Proxy::start_with(&upstream, |config| config.backends.backends[0].target.api_key = Some(key)).await;
    for request in [chat(), question()] {
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status, answer.error()["message"].as_str()), (401, Some("wrong key [secret]")));
    }
}
