//! `/budget`: who sees what of budgets, and who changes them.

use serde_json::{Value, json};
use toolgate::{budget::keys::Digest, config::budget::Books};

use crate::harness::{Answer, Proxy, Reply, Upstream, chat};

/// An administrator's key.
const ADMIN: &str = "tg_admin";
/// One that spends what `tenant:acme/app:chat` has.
const CHAT: &str = "tg_chat";
/// One that spends what another tenant has.
const OTHER: &str = "tg_other";

const FILE: &str = r#"
[[price]]
model = "*"
input = 1
output = 2

[[limit]]
subject = "key"
window = "ever"
amount = "50 calls"

[[limit]]
subject = "session"
window = "day"
amount = "2000000 tokens"

[[limit]]
subject = "key:other"
window = "ever"
amount = "1 USD"
"#;

fn file() -> String {
    let key = |name: &str, secret: &str, more: &str| format!("[[key]]\nname = \"{name}\"\nhash = \"{}\"\n{more}\n", Digest::of(secret));
    let chat = key("chat", CHAT, "subject = \"tenant:Acme/app:chat\"");
    [FILE.to_owned(), key("admin", ADMIN, "admin = true"), chat, key("other", OTHER, "")].concat()
}

async fn start(file: &str) -> (Proxy, Upstream) {
    let upstream = Upstream::saying([Reply::text("Hello.")]).await;
    let proxy = Proxy::start_from(file, |config| {
        config.backends.backends[0].target.url = format!("http://{}", upstream.address).parse().unwrap();
        if config.budget.books != Books::Off {
            config.budget.books = Books::Memory;
        }
    })
    .await;
    (proxy, upstream)
}

async fn get(proxy: &Proxy, path: &str, secret: &str) -> Answer {
    proxy.client.send("GET", path, &[("x-api-key", secret)], "").await
}

async fn post(proxy: &Proxy, operation: &str, secret: &str, body: Value) -> Answer {
    proxy.client.send("POST", &format!("/budget/{operation}"), &[("x-api-key", secret)], body.to_string()).await
}

/// Scope, unit and what is left of each.
fn left(answer: &Answer) -> Vec<(String, String, Value)> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let balances = answer.json()["balances"].clone();
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    balances.as_array().unwrap().iter().map(|line| (text(line, "scope"), text(line, "unit"), line["remaining"].clone())).collect()
}

#[tokio::test]
async fn a_key_sees_its_own_budgets_and_limits_and_no_others() {
    let (proxy, _upstream) = start(&file()).await;
    for (scope, amount) in [("tenant:acme", "5 USD"), ("tenant:acme/app:chat", "1000000 tokens"), ("tenant:other", "7 USD")] {
        let body = json!({"scope": scope, "amount": amount, "idempotency_key": scope});
        assert_eq!(post(&proxy, "fund", ADMIN, body).await.status, 200);
    }
    let own = |scope: &str, unit: &str, left: u64| (scope.to_owned(), unit.to_owned(), json!(left));
    let expected = [
        own("limit key:chat", "CREDITS", 50),
        own("tenant:acme", "USD_MICROCENTS", 500_000_000),
        own("tenant:acme/app:chat", "TOKENS", 1_000_000),
    ];
    let sorted = |answer: &Answer| {
        let mut left = left(answer);
        left.sort_by_key(|line| line.0.clone());
        left
    };
    assert_eq!(sorted(&get(&proxy, "/budget", CHAT).await), expected);
    let others = sorted(&get(&proxy, "/budget", OTHER).await);
    assert_eq!(others.iter().map(|line| line.0.as_str()).collect::<Vec<_>>(), ["limit key:other", "limit key:other", "tenant:other"]);

    // A chat on it is seen in all of them, and in that of its conversation for who names it.
    let headers = [("x-api-key", CHAT), ("x-session-id", "s 1")];
    let answer = proxy.client.send("POST", "/v1/chat/completions", &headers, chat().to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = get(&proxy, "/budget?session=s%201", CHAT).await;
    let line = |told: &Answer, scope: &str, unit: &str| {
        let balances = told.json()["balances"].clone();
        let is_it = |line: &&Value| line["scope"].as_str().unwrap().starts_with(scope) && line["unit"] == unit;
        balances.as_array().unwrap().iter().find(is_it).cloned().unwrap_or_else(|| panic!("no {scope} in {balances}"))
    };
    assert_eq!(line(&told, "limit key:chat", "CREDITS")["remaining"], 49);
    let session = line(&told, "limit session:chat/s 1", "TOKENS");
    assert!(session["spent"].as_u64().unwrap() > 0 && session["until"].is_string(), "{session}");
    let money = line(&told, "tenant:acme", "USD_MICROCENTS");
    let spent = money["spent"].as_u64().unwrap();
    assert!(spent > 0, "{money}");
    let digits = format!("\"spent\":0.{}", format!("{spent:08}").trim_end_matches('0'));
    assert!(told.text().contains(&digits), "{} is not in {}", digits, told.text());
    let others = get(&proxy, "/budget?session=s%201", OTHER).await;
    assert_eq!(line(&others, "limit session:other/s 1", "TOKENS")["spent"], 0, "the conversation of the same name is another");
}

#[tokio::test]
async fn only_an_administrator_sees_all_and_changes_any() {
    let (proxy, _upstream) = start(&file()).await;
    for path in ["/budget?all=true", "/budget?scope=tenant:acme/app:chat", "/budget/entries"] {
        let answer = get(&proxy, path, CHAT).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (403, Some("admin_required")), "{path}");
        assert_eq!(get(&proxy, path, ADMIN).await.status, 200, "{path}");
    }
    let body = json!({"scope": "tenant:acme", "allocated": "5 USD", "amount": "5 USD", "idempotency_key": "a"});
    for operation in ["allocate", "fund", "freeze", "unfreeze", "close"] {
        let answer = post(&proxy, operation, CHAT, body.clone()).await;
        assert_eq!((answer.status, answer.error()["code"].as_str()), (403, Some("admin_required")), "{operation}");
        assert_eq!(proxy.client.send("POST", &format!("/budget/{operation}"), &[], body.to_string()).await.status, 401);
        let wrong = proxy.client.send("GET", &format!("/budget/{operation}"), &[("x-api-key", ADMIN)], "").await;
        assert_eq!((wrong.status, wrong.header("allow")), (405, "POST"));
    }
    assert_eq!(left(&get(&proxy, "/budget?all=true", ADMIN).await), []);
    assert_eq!(get(&proxy, "/budget/nothing", ADMIN).await.error()["code"], "unknown_url");
    assert_eq!(proxy.client.send("POST", "/budget", &[("x-api-key", ADMIN)], "{}").await.status, 405);

    // Pages of the web have nothing done, whoever's key they got hold of.
    let headers = [("x-api-key", ADMIN), ("origin", "https://evil.example.com")];
    let answer = proxy.client.send("POST", "/budget/fund", &headers, body.to_string()).await;
    assert_eq!(answer.error()["code"], "origin_not_allowed");
    let rebound = proxy.client.send("GET", "/budget", &[("x-api-key", ADMIN), ("host", "evil.example.com")], "").await;
    assert_eq!(rebound.error()["code"], "host_not_allowed");
}

#[tokio::test]
async fn without_keys_nobody_administers() {
    let (proxy, _upstream) = start(&FILE.replace("key:other", "key:default")).await;
    assert_eq!(left(&proxy.get("/budget").await).len(), 1);
    let body = json!({"scope": "tenant:local", "amount": "5 USD", "idempotency_key": "a"});
    assert_eq!(proxy.post("/budget/fund", body.to_string()).await.error()["code"], "admin_required");
    assert_eq!(proxy.get("/budget?all=true").await.status, 403);

    let (proxy, _upstream) = start("").await;
    let answer = proxy.get("/budget").await;
    assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("no_budget")));
}

#[tokio::test]
async fn a_budget_is_made_filled_frozen_and_closed() {
    let (proxy, _upstream) = start(&file()).await;
    let made =
        post(&proxy, "allocate", ADMIN, json!({"scope": "tenant:Acme", "allocated": "0.1 USD", "overdraft_limit": "0.05 USD"})).await;
    assert_eq!(left(&made), [("tenant:acme".to_owned(), "USD_MICROCENTS".to_owned(), json!(10_000_000))]);
    assert_eq!(made.json()["balances"][0]["usd"]["overdraft_limit"], 0.05);
    let fund = async |amount: Value, key: &str| {
        let body = json!({"scope": "tenant:acme", "amount": amount, "idempotency_key": key});
        post(&proxy, "fund", ADMIN, body).await
    };
    for (amount, key, cents) in
        [(json!("1 USD"), "a", 110), (json!("1 USD"), "a", 110), (json!({"unit": "USD_MICROCENTS", "amount": 1_000_000}), "b", 111)]
    {
        assert_eq!(left(&fund(amount, key).await)[0].2, json!(cents * 1_000_000_u64));
    }
    let again = fund(json!("2 USD"), "a").await;
    assert_eq!((again.status, again.error()["code"].as_str()), (409, Some("idempotency_mismatch")));
    let unlimited = json!({"scope": "tenant:acme", "unit": "TOKENS", "allocated": "unlimited", "caps": {"max_tokens": 5}});
    let tokens = post(&proxy, "allocate", ADMIN, unlimited).await.json()["balances"][0].clone();
    assert_eq!((&tokens["allocated"], &tokens["remaining"], &tokens["caps"]["max_tokens"]), (&json!(null), &json!(null), &json!(5)));

    let ask = async || proxy.client.send("POST", "/v1/chat/completions", &[("x-api-key", CHAT)], chat().to_string()).await;
    assert_eq!(ask().await.status, 200);
    let frozen = post(&proxy, "freeze", ADMIN, json!({"scope": "tenant:acme"})).await.json();
    let states = |told: &Value| told["balances"].as_array().unwrap().iter().map(|line| line["status"].clone()).collect::<Vec<_>>();
    assert!(states(&frozen).len() >= 2 && states(&frozen).iter().all(|status| status == "FROZEN"), "{frozen}");
    assert_ne!(ask().await.status, 200);
    assert_eq!(post(&proxy, "unfreeze", ADMIN, json!({"scope": "tenant:acme"})).await.status, 200);
    assert_eq!(ask().await.status, 200);
    assert_eq!(post(&proxy, "close", ADMIN, json!({"scope": "tenant:acme", "unit": "TOKENS"})).await.status, 200);
    let closed = post(&proxy, "unfreeze", ADMIN, json!({"scope": "tenant:acme", "unit": "TOKENS"})).await;
    assert_eq!((closed.status, closed.error()["code"].as_str()), (409, Some("budget_closed")));
    let nobody = post(&proxy, "freeze", ADMIN, json!({"scope": "tenant:nobody"})).await;
    assert_eq!((nobody.status, nobody.error()["code"].as_str()), (404, Some("not_found")));
    let below = left(&get(&proxy, "/budget?scope=tenant:acme/app:chat", ADMIN).await);
    assert!(!below.is_empty() && below.iter().all(|line| line.0 == "tenant:acme/app:chat"), "{below:?}");
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let (proxy, _upstream) = start(&file()).await;
    let cases = [
        ("allocate", json!({"scope": "acme", "allocated": "5 USD"}), Some("scope")),
        ("allocate", json!({"scope": "tenant:acme", "unit": "EUR", "allocated": 5}), Some("unit")),
        ("allocate", json!({"scope": "tenant:acme", "unit": "TOKENS", "allocated": 1_u64 << 53}), Some("allocated")),
        ("allocate", json!({"scope": "tenant:acme", "allocated": "5 USD", "caps": {"max": 1}}), Some("caps")),
        ("fund", json!({"scope": "tenant:acme", "amount": "5 EUR", "idempotency_key": "a"}), Some("amount")),
        ("fund", json!({"scope": "tenant:acme", "amount": "5 USD"}), None),
        ("freeze", json!({"scope": "tenant:acme", "units": "TOKENS"}), None),
    ];
    for (operation, body, param) in cases {
        let answer = post(&proxy, operation, ADMIN, body.clone()).await;
        let error = answer.error();
        assert_eq!((answer.status, error["param"].as_str()), (400, param), "{body}: {error}");
    }
    let fill = async |key: &str| {
        let body = json!({"scope": "tenant:acme", "amount": {"unit": "TOKENS", "amount": (1_u64 << 53) - 2}, "idempotency_key": key});
        post(&proxy, "fund", ADMIN, body).await
    };
    assert_eq!(fill("a").await.status, 200);
    assert_eq!(fill("b").await.error()["param"], "amount");
    for (path, param) in [
        ("/budget?scope=acme", "scope"),
        ("/budget?all=yes", "all"),
        ("/budget/entries?since=yesterday", "since"),
        ("/budget/entries?limit=0", "limit"),
        ("/budget/entries?after=x", "after"),
    ] {
        let answer = get(&proxy, path, ADMIN).await;
        assert_eq!((answer.status, answer.error()["param"].as_str()), (400, Some(param)), "{path}");
    }
}

#[tokio::test]
async fn the_books_are_read_page_by_page() {
    let (proxy, _upstream) = start(&file()).await;
    for _ in 0..5 {
        let answer = proxy.client.send("POST", "/v1/chat/completions", &[("x-api-key", CHAT)], chat().to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let (mut told, mut path) = (Vec::new(), "/budget/entries?limit=2".to_owned());
    loop {
        let page = get(&proxy, &path, ADMIN).await.json();
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= 2);
        told.extend(entries.iter().map(|entry| entry["action"]["request_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/budget/entries?limit=2&after={next}");
    }
    let all = get(&proxy, "/budget/entries?since=2020-01-01T00:00:00Z", ADMIN).await.json();
    let all: Vec<&str> = all["entries"].as_array().unwrap().iter().map(|entry| entry["action"]["request_id"].as_str().unwrap()).collect();
    assert_eq!((all.len(), &told), (5, &all.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()));
    assert_eq!(get(&proxy, "/budget/entries?until=1000", ADMIN).await.json()["entries"], json!([]));
    let lines = proxy.client.send("GET", "/budget/entries", &[("x-api-key", ADMIN), ("accept", "application/x-ndjson")], "").await;
    assert_eq!((lines.header("content-type"), lines.text().lines().count()), ("application/x-ndjson", 5));
    assert!(lines.text().lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["cost"].is_array()));
}
