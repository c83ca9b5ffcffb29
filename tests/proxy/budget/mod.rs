//! What may be spent: asked before each call, settled after it.

mod ends;
mod halts;
mod refusals;
mod tools;

use std::collections::HashMap;

use serde_json::{Value, json};
use toolgate::{
    budget::{Unit, ledger::Entry},
    config::{self, Config},
};

use crate::harness::{Answer, PATIENCE, Proxy};

/// 100 microcents for a token that `tiny` reads, 1000 for one that it writes; 50,000 for a call of a tool of `fs`.
const PRICES: &str = "[[price]]\nmodel = \"tiny\"\ninput = 1\noutput = 10\n[[price]]\ntool = \"fs.*\"\ncall = 0.0005\n";
/// What a scripted reply costs that says nothing else of it: 10 tokens read, 5 written.
const REPLY: u64 = 10 * 100 + 5 * 1000;
/// What a call of a tool of `fs` costs.
const CALL: u64 = 50_000;

/// A file with these keys of `[budget]`, and `more` behind the prices.
fn file(keys: &str, more: &str) -> String {
    format!("[budget]\nstore = \"memory\"\n{keys}\n{PRICES}{more}")
}

/// The same as a change of other settings.
fn budget(keys: &str, more: &str) -> impl FnOnce(&mut Config) + use<> {
    let (read, problems) = config::from_text(&file(keys, more), &HashMap::new());
    assert_eq!(problems, []);
    move |config| config.budget = read.budget
}

/// `[[limit]]` of everyone in a day.
fn daily(amount: &str) -> String {
    format!("[[limit]]\nwindow = \"day\"\namount = \"{amount}\"\n")
}

/// What is reserved, in all budgets and units.
async fn reserved(proxy: &Proxy) -> u64 {
    proxy.gate.store().unwrap().balances().await.unwrap().iter().map(|(_, _, balance)| balance.reserved).sum()
}

/// What was spent of `unit`.
async fn spent(proxy: &Proxy, unit: Unit) -> u64 {
    let balances = proxy.gate.store().unwrap().balances().await.unwrap();
    balances.iter().find(|(scope, of, _)| scope == "tenant:local" && *of == unit).map_or(0, |(.., balance)| balance.spent)
}

/// What the books say, once nothing is under way any more.
async fn settled(proxy: &Proxy) -> Vec<Entry> {
    let wait = async {
        while reserved(proxy).await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("something stays reserved");
    proxy.gate.store().unwrap().entries(0, u64::MAX).await.unwrap()
}

/// The money of an entry, in microcents.
fn money(entry: &Entry) -> u64 {
    entry.cost.iter().find(|amount| amount.unit == Unit::UsdMicrocents).map_or(0, |amount| amount.amount)
}

/// The same question in each dialect.
fn dialects() -> [(&'static str, Value); 4] {
    let messages = json!([{"role": "user", "content": "Hello"}]);
    [
        ("/v1/chat/completions", json!({"model": "tiny", "messages": messages})),
        ("/v1/messages", json!({"model": "tiny", "max_tokens": 4096, "messages": messages})),
        ("/v1/responses", json!({"model": "tiny", "input": "Hello"})),
        ("/chat", json!({"model": "tiny", "message": "Hello"})),
    ]
}

async fn post(proxy: &Proxy, path: &str, body: &Value) -> Answer {
    proxy.post(path, body.to_string()).await
}
