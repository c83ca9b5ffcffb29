//! Calls of models whose bytes are passed on are counted as they pass: asked for before, charged after, whatever becomes of them.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolgate::{budget::Unit, config::Config, trace::Sink};

use crate::harness::{Answer, PATIENCE, Proxy, Reply, Upstream};

/// 10 dollars for a million tokens read, a tenth of that for those read before, 100 for those written: microcents 1000, 100 and 10,000.
const PRICE: &str = "[[price]]\nmodel = \"*\"\ninput = 10\ncached_input = 1\noutput = 100\n";

const READ: u64 = 1_000;
const WRITTEN: u64 = 10_000;

/// A proxy that keeps books, and where it traces.
struct Metered {
    proxy: Proxy,
    upstream: Upstream,
    trace: PathBuf,
}

async fn metered(name: &str, reply: Reply) -> Metered {
    with_policy(name, "", reply).await
}

/// `policy` is of `[budget]` and what follows it.
async fn with_policy(name: &str, policy: &str, reply: Reply) -> Metered {
    let upstream = Upstream::saying([reply]).await;
    let folder = std::env::temp_dir().join(format!("toolgate-metered-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let trace = folder.join("traces.jsonl");
    let change = |config: &mut Config| {
        config.backends.backends[0].target.url = format!("http://{}", upstream.address).parse().unwrap();
        config.trace.sink = Sink::File(trace.clone());
    };
    let proxy = Proxy::start_from(&format!("[budget]\nstore = \"memory\"\n{policy}\n{PRICE}"), change).await;
    Metered { proxy, upstream, trace }
}

impl Metered {
    /// The one line of the trace, once it is there.
    async fn line(&self) -> Value {
        let reading = async {
            loop {
                let text = std::fs::read_to_string(&self.trace).unwrap_or_default();
                if text.ends_with('\n') {
                    assert_eq!(text.lines().count(), 1, "{text}");
                    return serde_json::from_str(&text).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let line: Value = tokio::time::timeout(PATIENCE, reading).await.expect("nothing is traced");
        assert_eq!((&line["kind"], &line["turn"], &line["attempt"]), (&json!("model_attempt"), &json!(1), &json!(1)), "{line}");
        assert!(line.get("guardrail").is_none(), "{line}");
        line
    }

    /// What the one call cost by the trace, in microcents, which is what the books say, and all that they say.
    async fn cost(&self) -> Option<u64> {
        let told = self.line().await["cost_usd"].as_f64().map(|usd| (usd * 1e8).round() as u64);
        assert_eq!(self.booked().await, told);
        told
    }

    /// What the books say that was spent; nothing where nothing was. Fails where anything is still put aside.
    async fn booked(&self) -> Option<u64> {
        let store = self.proxy.gate.store().unwrap();
        let balances = store.balances().await.unwrap();
        assert!(balances.iter().all(|(_, _, balance)| balance.reserved == 0), "{balances:?}");
        let entries = store.entries(0, u64::MAX).await.unwrap();
        let charged = entries.iter().flat_map(|entry| &entry.charged).filter(|amount| amount.unit == Unit::UsdMicrocents);
        (!entries.is_empty()).then(|| charged.map(|amount| amount.amount).sum())
    }

    async fn post(&self, path: &str, body: &str) -> Answer {
        self.proxy.client.send("POST", path, &[("x-session-id", "s-1"), ("x-request-id", "r-1")], Bytes::from(body.to_owned())).await
    }
}

/// The tokens that `body` is taken for.
fn estimate(body: &str) -> u64 {
    u64::try_from(body.len().div_ceil(3)).unwrap()
}

const ASKED: &str = r#"{ "model":"m", "prompt":"Hello" ,"max_tokens":20}"#;
const USAGE: &str = r#""usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}"#;
const COST: u64 = 3 * READ + 4 * READ / 10 + 2 * WRITTEN;

#[tokio::test]
async fn what_an_answer_tells_is_charged_wherever_it_stands() {
    let check = async |name: &str, reply: Reply, cost: u64| {
        let expected = reply.bytes();
        let metered = metered(name, reply).await;
        let answer = metered.post("/v1/completions", ASKED).await;
        assert_eq!((answer.status, answer.body), (200, expected), "{name}");
        assert_eq!(metered.upstream.only_request().text(), ASKED, "{name}");
        assert_eq!(metered.cost().await, Some(cost), "{name}");
        let line = metered.line().await;
        assert_eq!((&line["request_id"], &line["session_id"], &line["model"]), (&json!("r-1"), &json!("s-1"), &json!("m")));
        assert_eq!((&line["success"], line["tokens_out"].as_u64()), (&json!(true), Some(2)), "{line}");
    };
    let long = "x".repeat(100_000);
    check("start", Reply::json(200, &format!("{{{USAGE},\"choices\":[{{\"text\":\"{long}\"}}]}}")).in_pieces_of(777), COST).await;
    check("end", Reply::json(200, &format!("{{\"choices\":[{{\"text\":\"{long}\"}}],{USAGE}}}")).in_pieces_of(1001), COST).await;
    let chunk = r#"{"choices":[{"index":0,"text":"a"}]}"#;
    let last = format!("{{\"choices\":[],{USAGE}}}");
    check("events", Reply::events(&[chunk, chunk, &last, "[DONE]"]).in_pieces_of(5), COST).await;
    let timed = r#"{"choices":[{"index":0,"text":""}],"timings":{"prompt_n":3,"cache_n":4,"predicted_n":2}}"#;
    check("timings", Reply::events(&[chunk, chunk, timed, "[DONE]"]), COST).await;
}

#[tokio::test]
async fn what_tells_nothing_is_charged_by_the_estimate() {
    let check = async |name: &str, reply: Reply, written: u64| {
        let metered = metered(name, reply).await;
        assert_eq!(metered.post("/v1/completions", ASKED).await.status, 200);
        assert_eq!(metered.cost().await, Some(estimate(ASKED) * READ + written * WRITTEN), "{name}");
    };
    let chunk = r#"{"choices":[{"index":0,"text":"a"}]}"#;
    check("silent-events", Reply::events(&[chunk, chunk, chunk, "[DONE]"]), 3).await;
    check("silent-json", Reply::json(200, r#"{"choices":[{"text":"12345678"}]}"#), 3).await;
    // No more than was put aside.
    check("silent-long", Reply::json(200, &format!(r#"{{"choices":[{{"text":"{}"}}]}}"#, "x".repeat(1000))), 20).await;
}

#[tokio::test]
async fn several_choices_are_counted_together() {
    let asked = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}], "n": 3, "max_tokens": 20}).to_string();
    let answer = r#"{"choices":[{},{},{}],"usage":{"prompt_tokens":7,"completion_tokens":10},"timings":{"prompt_n":7,"predicted_n":10}}"#;
    let metered = metered("choices", Reply::json(200, answer)).await;
    assert_eq!(metered.post("/v1/chat/completions", &asked).await.text(), answer);
    assert_eq!(metered.upstream.only_request().text(), asked);
    assert_eq!(metered.cost().await, Some(7 * READ + 30 * WRITTEN));
}

#[tokio::test]
async fn embeddings_cost_what_is_read() {
    let asked = r#"{"model":"m","input":["a","b"]}"#;
    let answer = r#"{"object":"list","data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    for path in ["/v1/embeddings", "/v1/rerank"] {
        let metered = metered(path.trim_start_matches("/v1/"), Reply::json(200, answer)).await;
        assert_eq!(metered.post(path, asked).await.text(), answer);
        assert_eq!(metered.cost().await, Some(5 * READ));
        assert_eq!(metered.upstream.only_request().text(), asked);
    }
}

#[tokio::test]
async fn a_refusal_costs_nothing() {
    let chat = r#"{"model":"m","messages":[],"n":2,"max_tokens":9}"#;
    for (name, path, body) in [("refused", "/v1/completions", ASKED), ("refused-chat", "/v1/chat/completions", chat)] {
        let metered = metered(name, Reply::error(400, "no")).await;
        assert_eq!(metered.post(path, body).await.status, 400);
        assert_eq!((metered.cost().await, &metered.line().await["success"]), (None, &json!(false)));
    }
}

#[tokio::test]
async fn a_backend_that_is_not_there_costs_nothing() {
    let metered = metered("absent", Reply::json(200, "{}")).await;
    drop(metered.upstream);
    let answer = metered.proxy.post("/v1/completions", ASKED).await;
    assert_eq!(answer.status, 502);
    let store = metered.proxy.gate.store().unwrap();
    assert!(store.entries(0, u64::MAX).await.unwrap().is_empty());
    assert!(store.balances().await.unwrap().iter().all(|(_, _, balance)| balance.reserved == 0));
}

#[tokio::test]
async fn a_stream_that_breaks_off_costs_what_came() {
    let chunk = r#"{"choices":[{"index":0,"text":"a"}]}"#;
    let metered = metered("broken", Reply::events(&[chunk, chunk, chunk]).cut_after(2)).await;
    let streaming = metered.proxy.client.open("POST", "/v1/completions", &[], ASKED).await.unwrap();
    assert!(streaming.whole().await.is_err());
    assert_eq!(metered.cost().await, Some(estimate(ASKED) * READ + 2 * WRITTEN));
    assert_eq!(metered.line().await["success"], false);
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_came() {
    let chunk = r#"{"choices":[{"index":0,"text":"a"}]}"#;
    let metered = metered("left", Reply::events(&[chunk, chunk, chunk]).stalling_after(2)).await;
    let mut streaming = metered.proxy.client.open("POST", "/v1/completions", &[], ASKED).await.unwrap();
    let mut seen = 0;
    while seen < 2 * (chunk.len() + "data: \n\n".len()) {
        seen += streaming.next().await.unwrap().0.len();
    }
    drop(streaming);
    metered.upstream.cancelled().await;
    assert_eq!(metered.line().await["error"], "cancelled");
    assert_eq!(metered.cost().await, Some(estimate(ASKED) * READ + 2 * WRITTEN));
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_pays_for_the_prompt() {
    let metered = metered("left-early", Reply::json(200, "{}").after(Duration::from_secs(60))).await;
    let client = metered.proxy.client.clone();
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.open("POST", "/v1/completions", &[], ASKED).await });
    metered.upstream.arrived(1).await;
    drop(asking);
    metered.upstream.cancelled().await;
    assert_eq!(metered.line().await["error"], "cancelled");
    assert_eq!(metered.cost().await, Some(estimate(ASKED) * READ));
}

#[tokio::test]
async fn nothing_is_sent_once_a_limit_is_reached() {
    let limit = "[[limit]]\nkind = \"model\"\nwindow = \"day\"\namount = \"1 calls\"";
    for (name, path, body) in [
        ("limit", "/v1/embeddings", r#"{"model":"m","input":"a"}"#),
        ("limit-chat", "/v1/chat/completions", r#"{"model":"m","messages":[],"n":2,"max_tokens":9}"#),
    ] {
        let metered = with_policy(name, limit, Reply::json(200, "{}")).await;
        assert_eq!(metered.post(path, body).await.status, 200);
        let refused = metered.post(path, body).await;
        assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (429, Some("insufficient_quota")));
        assert_eq!((refused.header("x-should-retry"), refused.header("x-toolgate-halt")), ("false", "call_quota"));
        assert_eq!(metered.upstream.calls(), 1);
        // What makes no model work is not counted.
        assert_eq!(metered.post("/v1/tokenize", "{}").await.status, 200);
        assert_eq!(metered.proxy.get("/v1/files").await.status, 200);
    }
}

#[tokio::test]
async fn a_reply_is_held_to_what_is_left() {
    let held = async |name: &str, path: &str, body: &str| {
        let metered = with_policy(name, "request_ceiling_usd = 0\nrequest_ceiling_tokens = 100", Reply::json(200, "{}")).await;
        assert_eq!(metered.post(path, body).await.status, 200);
        metered.upstream.only_request().text().to_owned()
    };
    let asked = r#"{"model":"m","prompt":"Hello","n":2,"max_tokens":1000}"#;
    let most = (100 - estimate(asked)) / 2;
    assert_eq!(held("held", "/v1/completions", asked).await, asked.replace("1000", &most.to_string()));
    let asked = r#"{"model":"m","messages":[],"n":2}"#;
    let most = (100 - estimate(asked)) / 2;
    let expected = format!(r#"{{"model":"m","messages":[],"n":2,"max_tokens":{most}}}"#);
    assert_eq!(held("held-chat", "/v1/chat/completions", asked).await, expected);
    let short = r#"{"model":"m", "prompt":"Hello","max_tokens":9}"#;
    assert_eq!(held("not-held", "/v1/completions", short).await, short);
}

#[tokio::test]
async fn a_long_body_is_read_before_it_is_sent() {
    let metered = metered("long", Reply::json(200, &format!("{{{USAGE}}}"))).await;
    let asked = format!(r#"{{"model":"m","input":"data:image/png;base64,{}"}}"#, "A".repeat(2 << 20));
    assert_eq!(metered.post("/v1/embeddings", &asked).await.status, 200);
    assert_eq!(metered.upstream.only_request().body, asked);
    assert_eq!(metered.cost().await, Some(COST));
}

#[tokio::test]
async fn no_way_of_writing_a_length_escapes() {
    for (index, open) in ["-1", "1e9", "1000000.0"].into_iter().enumerate() {
        let limit = "request_ceiling_usd = 0\nrequest_ceiling_tokens = 100";
        for (path, rest) in [("/v1/completions", r#""prompt":"a""#), ("/v1/chat/completions", r#""messages":[]"#)] {
            let name = format!("open-{index}-{}", path.len());
            let metered = with_policy(&name, limit, Reply::text("Hello.")).await;
            let body = format!(r#"{{"model":"m",{rest},"max_tokens":16,"n_predict":{open}}}"#);
            metered.post(path, &body).await;
            let sent: Value = serde_json::from_str(metered.upstream.only_request().text()).unwrap();
            assert_eq!(sent["max_tokens"], 16, "{sent}");
            assert!(sent["n_predict"].as_u64().is_some_and(|most| (1..100).contains(&most)), "{sent}");
        }
    }
}

#[tokio::test]
async fn what_is_counted_stands_once() {
    let metered = metered("twice", Reply::json(200, "{}")).await;
    for (path, name, rest) in [("/v1/embeddings", "model", r#""input":"a""#), ("/v1/completions", "n_predict", r#""prompt":"a""#)] {
        let answer = metered.post(path, &format!(r#"{{"{name}":1,{rest},"{name}":2}}"#)).await;
        assert_eq!((answer.status, answer.error()["param"].as_str()), (400, Some(name)));
    }
    assert_eq!(metered.upstream.calls(), 0);
}
