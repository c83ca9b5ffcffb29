//! Servers over streamable HTTP.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolgate::{
    config::Config,
    tools::{
        Health,
        config::{Server, Transport, Variables},
        server::State,
    },
};

use crate::harness::{
    Answer, PATIENCE, Proxy, Reply, Upstream, chat,
    mcp::{self, with_servers},
    mcp_http::{Act, McpServer},
};

/// The tools of most tests. One that only reads may be called again.
fn tools() -> Value {
    let mut look = mcp::tool("look", "at");
    look["annotations"] = json!({"readOnlyHint": true});
    json!([mcp::tool("write", "text"), look])
}

/// A model that calls `tool` once and then answers.
async fn model_calling(tool: &str, argument: &str) -> Upstream {
    Upstream::saying([Reply::call(tool, &json!({argument: "x"}).to_string()), Reply::call("respond", r#"{"message":"Done."}"#)]).await
}

/// A proxy with `server`, known as "notes", and what its model read of the call.
struct Scene {
    upstream: Upstream,
    proxy: Proxy,
}

impl Scene {
    async fn writing(server: &McpServer) -> Self {
        Self::with(server, model_calling("write", "text").await, |_| {}).await
    }

    async fn looking(server: &McpServer) -> Self {
        Self::with(server, model_calling("look", "at").await, |_| {}).await
    }

    async fn with(server: &McpServer, upstream: Upstream, change: impl FnOnce(&mut Config)) -> Self {
        let servers = with_servers([server.config("notes", &[])]);
        let proxy = Proxy::start_with(&upstream, |config| {
            servers(config);
            change(config);
        })
        .await;
        Self { upstream, proxy }
    }

    /// Asks, and says what the model read as the tool's result.
    async fn ask(&self) -> String {
        let before = self.upstream.calls();
        let answer = self.proxy.ask(&chat()).await;
        assert_eq!(answer.content(), "Done.");
        let second = self.upstream.requests()[before + 1].json();
        second["messages"][2]["content"].as_str().unwrap().to_owned()
    }
}

/// The names of the tools that the model was last offered.
fn offered(upstream: &Upstream) -> Vec<String> {
    let request = upstream.requests().last().unwrap().json();
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Asks until the model is offered the tool `name`, or is not.
async fn until_offered(proxy: &Proxy, upstream: &Upstream, name: &str, expected: bool) {
    let asking = async {
        loop {
            let _: Answer = proxy.ask(&chat()).await;
            if offered(upstream).iter().any(|tool| tool == name) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, asking).await.is_ok(), "{name} offered: {:?}", offered(upstream));
}

#[tokio::test]
async fn a_result_comes_as_json() {
    let server = McpServer::with(tools()).await;
    assert_eq!(Scene::writing(&server).await.ask().await, r#"write {"text":"x"}"#);
    assert_eq!(server.run(), 1);
}

#[tokio::test]
async fn a_result_comes_in_a_stream_behind_something_else() {
    let server = McpServer::with(tools()).await.script([Act::Events]);
    assert_eq!(Scene::writing(&server).await.ask().await, r#"write {"text":"x"}"#);
}

#[tokio::test]
async fn the_session_goes_with_every_request_and_is_ended_at_the_end() {
    let server = McpServer::with(tools()).await;
    let scene = Scene::writing(&server).await;
    scene.ask().await;
    assert_eq!(server.sessions(), 1);
    let call = &server.asked_for("tools/call")[0];
    assert!(call.headers.contains_key("mcp-session-id"));
    assert_eq!(call.headers["mcp-protocol-version"], "2025-11-25");
    assert_eq!(call.headers["accept"], "application/json, text/event-stream");
    assert_eq!(call.headers["content-type"], "application/json");
    assert_eq!(call.path, "/mcp?team=a");
    scene.proxy.end_tasks().await;
    assert_eq!(server.asked().last().unwrap().verb, "DELETE");
    assert_eq!(server.sessions(), 0);
}

#[tokio::test]
async fn an_old_server_is_asked_once_more_and_then_spoken_to_the_old_way() {
    let server = McpServer::with(tools()).await;
    Scene::writing(&server).await.ask().await;
    let methods: Vec<Value> = server.asked().into_iter().map(|asked| asked.body["method"].clone()).filter(|name| !name.is_null()).collect();
    assert_eq!(methods, ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"]);
}

#[tokio::test]
async fn a_new_server_is_spoken_to_without_a_session() {
    let server = McpServer::new(tools()).await;
    assert_eq!(Scene::writing(&server).await.ask().await, r#"write {"text":"x"}"#);
    let methods: Vec<Value> = server.asked().into_iter().map(|asked| asked.body["method"].clone()).collect();
    assert_eq!(methods.iter().filter(|method| **method == "server/discover").count(), 1, "{methods:?}");
    assert!(!methods.iter().any(|method| method == "initialize"), "{methods:?}");
    let call = &server.asked_for("tools/call")[0];
    assert_eq!(call.headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!((&call.headers["mcp-method"], &call.headers["mcp-name"]), (&"tools/call".parse().unwrap(), &"write".parse().unwrap()));
    assert_eq!(call.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert!(!call.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn a_new_server_tells_a_changed_list_to_who_subscribed() {
    let server = McpServer::new(tools()).await;
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, with_servers([server.config("notes", &[])])).await;
    until_offered(&proxy, &upstream, "write", true).await;
    server.until(|server| !server.asked_for("subscriptions/listen").is_empty()).await;
    server.change(json!([mcp::tool("erase", "text")]));
    until_offered(&proxy, &upstream, "erase", true).await;
}

#[tokio::test]
async fn a_call_in_a_session_that_has_ended_is_not_made_twice() {
    let server = McpServer::with(tools()).await;
    let scene = Scene::with(
        &server,
        Upstream::saying([
            Reply::call("write", r#"{"text":"a"}"#),
            Reply::call("respond", r#"{"message":"Done."}"#),
            Reply::call("write", r#"{"text":"b"}"#),
            Reply::call("respond", r#"{"message":"Done."}"#),
            Reply::call("write", r#"{"text":"c"}"#),
            Reply::call("respond", r#"{"message":"Done."}"#),
        ])
        .await,
        |_| {},
    )
    .await;
    assert_eq!(scene.ask().await, r#"write {"text":"a"}"#);
    server.forget();
    let told = scene.ask().await;
    assert!(told.contains("Nothing was done") && told.contains("can be made again"), "{told}");
    assert_eq!((server.asked_for("tools/call").len(), server.run()), (2, 1), "it was refused once and not sent again");
    server.until(|server| server.asked_for("tools/list").len() == 2).await;
    assert_eq!(scene.ask().await, r#"write {"text":"c"}"#);
    assert_eq!((server.asked_for("tools/call").len(), server.run()), (3, 2));
    assert_eq!(server.asked_for("initialize").len(), 2);
}

#[tokio::test]
async fn a_tool_that_only_reads_is_asked_again_in_the_new_session() {
    let server = McpServer::with(tools()).await;
    let scene = Scene::looking(&server).await;
    server.until(|server| !server.asked_for("tools/list").is_empty()).await;
    server.forget();
    assert_eq!(scene.ask().await, r#"look {"at":"x"}"#);
    assert_eq!(server.run(), 1);
}

#[tokio::test]
async fn a_server_without_a_stream_of_its_own_serves() {
    let server = McpServer::deaf(tools()).await;
    let scene = Scene::writing(&server).await;
    assert_eq!(scene.ask().await, r#"write {"text":"x"}"#);
    server.until(|server| server.asked().iter().any(|asked| asked.verb == "GET")).await;
}

#[tokio::test]
async fn a_changed_list_is_told_over_the_servers_stream() {
    let server = McpServer::with(tools()).await;
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, with_servers([server.config("notes", &[])])).await;
    until_offered(&proxy, &upstream, "write", true).await;
    server.until(|server| server.asked().iter().any(|asked| asked.verb == "GET")).await;
    server.change(json!([mcp::tool("erase", "text")]));
    until_offered(&proxy, &upstream, "erase", true).await;
    until_offered(&proxy, &upstream, "write", false).await;
}

#[tokio::test]
async fn a_server_that_wants_a_credential_says_so() {
    let server = McpServer::locked(tools(), ("authorization", "Bearer right")).await;
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers([server.config("notes", &[("Authorization", "Bearer wrong-one")])])(config);
        config.tools.start_timeout = Duration::from_millis(500);
    })
    .await;
    proxy.ask(&chat()).await;
    assert!(!offered(&upstream).contains(&"write".to_owned()));
    assert_eq!(proxy.health()[0].state, State::AuthNeeded);
    let reason = proxy.health()[0].reason.clone().unwrap();
    assert!(reason.contains("credential") && reason.contains("401") && !reason.contains("wrong-one"), "{reason}");
}

#[tokio::test]
async fn configured_headers_go_with_every_request_and_the_callers_with_none() {
    let server = McpServer::locked(tools(), ("x-key", "k-123456789")).await;
    let upstream = model_calling("write", "text").await;
    let headers = [("X-Key", "${NOTES_KEY}"), ("X-Team", "a")];
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers([server.config("notes", &headers)])(config);
        config.tools.variables = Variables(Arc::new(|name| (name == "NOTES_KEY").then(|| "k-123456789".to_owned())));
    })
    .await;
    let caller = [("authorization", "Bearer of-the-caller"), ("x-forwarded-for", "1.2.3.4"), ("cookie", "a=b"), ("x-team", "b")];
    assert_eq!(proxy.ask_with(&chat(), &caller).await.content(), "Done.");
    proxy.end_tasks().await;
    assert_eq!(server.run(), 1);
    let verbs: HashSet<String> = server.asked().iter().map(|asked| asked.verb.to_string()).collect();
    assert_eq!(verbs, HashSet::from(["POST", "GET", "DELETE"].map(ToOwned::to_owned)));
    for asked in server.asked() {
        assert_eq!((&asked.headers["x-key"], &asked.headers["x-team"]), (&"k-123456789".parse().unwrap(), &"a".parse().unwrap()));
        for name in ["authorization", "cookie", "x-forwarded-for"] {
            assert!(!asked.headers.contains_key(name), "{name} in {asked:?}");
        }
    }
}

#[tokio::test]
async fn a_variable_that_is_not_set_is_named() {
    let server = McpServer::with(tools()).await;
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, |config| {
        with_servers([server.config("notes", &[("X-Key", "${NO_SUCH_VARIABLE_HERE}")])])(config);
        config.tools.start_timeout = Duration::from_millis(300);
    })
    .await;
    proxy.ask(&chat()).await;
    assert!(proxy.health()[0].reason.clone().unwrap().contains("NO_SUCH_VARIABLE_HERE"));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_header_of_the_protocol_cannot_be_configured() {
    for name in ["Mcp-Session-Id", "Host", "content-length", "no name"] {
        let server = McpServer::with(tools()).await;
        let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
        let proxy = Proxy::start_with(&upstream, |config| {
            with_servers([server.config("notes", &[(name, "x")])])(config);
            config.tools.start_timeout = Duration::from_millis(300);
        })
        .await;
        proxy.ask(&chat()).await;
        assert!(proxy.health()[0].reason.clone().unwrap().contains(name));
        assert!(server.asked().is_empty());
    }
}

#[tokio::test]
async fn a_failing_server_is_asked_once_for_what_changes_something_and_again_for_what_reads() {
    let failing = || Act::Refuse(500, &[("content-type", "text/plain")], "out of paper");
    let server = McpServer::with(tools()).await.script([failing()]);
    let told = Scene::writing(&server).await.ask().await;
    assert!(told.contains("HTTP 500: out of paper"), "{told}");
    assert_eq!(server.asked_for("tools/call").len(), 1);

    let server = McpServer::with(tools()).await.script([failing()]);
    assert_eq!(Scene::looking(&server).await.ask().await, r#"look {"at":"x"}"#);
    assert_eq!(server.asked_for("tools/call").len(), 2);
}

#[tokio::test]
async fn a_server_that_has_no_time_is_asked_again_when_it_says() {
    let server = McpServer::with(tools()).await.script([Act::Refuse(429, &[("retry-after", "1")], "")]);
    let begun = Instant::now();
    assert_eq!(Scene::writing(&server).await.ask().await, r#"write {"text":"x"}"#);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!((server.asked_for("tools/call").len(), server.run()), (2, 1));
}

#[tokio::test]
async fn the_servers_own_words_reach_the_model_without_the_key() {
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such shelf"}}"#;
    let server = McpServer::with(tools()).await.script([Act::Refuse(400, &[("content-type", "application/json")], refusal)]);
    let told = Scene::writing(&server).await.ask().await;
    assert!(told.contains("no such shelf"), "{told}");

    let server = McpServer::with(tools()).await.script([Act::Refuse(500, &[], "wrong key k-123456789, sorry")]);
    let upstream = model_calling("write", "text").await;
    let scene = Scene::with(&server, upstream, |config| {
        with_servers([server.config("notes", &[("X-Key", "k-123456789")])])(config);
    })
    .await;
    let told = scene.ask().await;
    assert!(told.contains("wrong key [secret], sorry"), "{told}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = McpServer::with(tools()).await;
    let server = McpServer::with(tools()).await.script([Act::Refuse(307, &[("location", "http://127.0.0.1:1/mcp")], "")]);
    let told = Scene::writing(&server).await.ask().await;
    assert!(told.contains("HTTP 307") && told.contains("not followed"), "{told}");
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn a_call_on_a_kept_connection_that_is_closed_is_not_sent_again() {
    let server = McpServer::with(tools()).await.script([Act::HangUp]);
    let told = Scene::writing(&server).await.ask().await;
    assert!(told.contains("broke"), "{told}");
    assert_eq!((server.asked_for("tools/call").len(), server.run()), (1, 1));
}

#[tokio::test]
async fn a_stream_that_breaks_leaves_the_outcome_open() {
    let server = McpServer::with(tools()).await.script([Act::Cut(None)]);
    let told = Scene::writing(&server).await.ask().await;
    assert!(told.contains("broke"), "{told}");
    assert_eq!((server.asked_for("tools/call").len(), server.run()), (1, 1));
}

#[tokio::test]
async fn a_stream_with_an_id_is_taken_up_where_it_broke() {
    let server = McpServer::with(tools()).await.script([Act::Cut(Some("e-7"))]);
    server.resume_with("late");
    assert_eq!(Scene::writing(&server).await.ask().await, "late");
    let resumed: Vec<_> = server.asked().into_iter().filter(|asked| asked.headers.contains_key("last-event-id")).collect();
    assert_eq!(resumed.len(), 1);
    assert_eq!(resumed[0].verb, "GET");
    assert_eq!(resumed[0].headers["last-event-id"], "e-7");
    assert_eq!(server.run(), 1);
}

#[tokio::test]
async fn an_endless_answer_is_read_up_to_the_limit() {
    for kind in ["text/event-stream", "application/json"] {
        let server = McpServer::with(tools()).await.script([Act::Endless(kind)]);
        let upstream = model_calling("write", "text").await;
        let scene = Scene::with(&server, upstream, |config| config.tools.message_bytes_max = 100_000).await;
        let told = scene.ask().await;
        assert!(told.contains("longer than") && told.contains("100000 bytes"), "{told}");
        assert_eq!(server.run(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_silent_call_lives_as_long_as_its_server_may_take() {
    let server = McpServer::with(tools()).await.script([Act::Silent(Duration::from_millis(1500))]);
    let upstream = model_calling("write", "text").await;
    let scene = Scene::with(&server, upstream, |config| {
        config.upstream.first_byte_timeout = Duration::from_secs(1);
        config.upstream.idle_timeout = Duration::from_secs(1);
    })
    .await;
    assert_eq!(scene.ask().await, r#"write {"text":"x"}"#);

    let server = McpServer::with(tools()).await.script([Act::Silent(Duration::from_secs(60))]);
    let upstream = model_calling("write", "text").await;
    let scene = Scene::with(&server, upstream, |config| config.tools.servers[0].timeout = Duration::from_millis(500)).await;
    let told = scene.ask().await;
    assert!(told.contains("no answer within"), "{told}");
    server.until(|server| server.asked_for("notifications/cancelled").len() == 1).await;
}

#[tokio::test]
async fn a_dead_server_is_stale_and_comes_back() {
    let server = McpServer::with(tools()).await;
    let address = server.address;
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let proxy = Proxy::start_with(&upstream, with_servers([server.config("notes", &[])])).await;
    until_offered(&proxy, &upstream, "write", true).await;
    server.until(|server| server.asked().iter().any(|asked| asked.verb == "GET")).await;
    drop(server);
    let is = async |state: State, reason: &str| {
        let waiting = async {
            let has = |health: &Health| health.state == state && health.reason.as_deref().unwrap_or_default().contains(reason);
            while !has(&proxy.health()[0]) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{:?}", proxy.health());
    };
    // Nobody asked it anything: its own stream broke.
    is(State::Stale, "onnection refused").await;
    let _server = McpServer::at(address, json!([mcp::tool("write", "text"), mcp::tool("erase", "text")])).await;
    is(State::Ready, "").await;
    until_offered(&proxy, &upstream, "erase", true).await;
}

#[tokio::test]
async fn a_refused_address_is_not_connected_to() {
    for url in ["http://169.254.169.254/mcp", "http://[fe80::1]/mcp", "http://[::ffff:169.254.169.254]/mcp", "http://100.100.100.200/mcp"] {
        let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
        let server = Server {
            id: "cloud".to_owned(),
            transport: Transport::http(&url.parse().unwrap()),
            tags: Vec::new(),
            concurrent_max: 1,
            timeout: Duration::from_secs(2),
        };
        let proxy = Proxy::start_with(&upstream, with_servers([server])).await;
        proxy.ask(&chat()).await;
        let reason = proxy.health()[0].reason.clone().unwrap();
        assert!(reason.contains("is refused"), "{url}: {reason}");
    }
}

#[tokio::test]
async fn a_name_is_refused_for_the_address_that_it_resolves_to() {
    // The only names that resolve without a network are spellings of addresses: this one is 169.254.169.254 as one number.
    let upstream = Upstream::saying([Reply::call("respond", r#"{"message":"Done."}"#)]).await;
    let server = Server {
        id: "cloud".to_owned(),
        transport: Transport::http(&"http://2852039166/mcp".parse().unwrap()),
        tags: Vec::new(),
        concurrent_max: 1,
        timeout: Duration::from_secs(2),
    };
    let proxy = Proxy::start_with(&upstream, with_servers([server])).await;
    proxy.ask(&chat()).await;
    let reason = proxy.health()[0].reason.clone().unwrap();
    assert!(reason.contains("169.254.169.254 is refused: link-local"), "{reason}");
}
