//! `toolgate report cost`: what the traces and the ledger of a real proxy come to.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolgate::{
    budget::keys::Digest,
    config::{Config, budget::Books},
    trace::Sink,
};

use crate::harness::{
    Proxy, Reply, Upstream, chat,
    mcp::{self, eventually},
    paris, question, question_with,
};

/// Where the books and the trace of one test are, and what costs what in it.
struct Kept {
    folder: PathBuf,
}

const ADMIN: &str = "tg_of_the_administrator";
const CHAT: &str = "tg_chat";

/// A thousandth of a dollar is 100,000 microcents.
const PRICES: &str = r#"
    [[price]]
    model = "tiny"
    input = 3.0
    output = 15.0

    [[price]]
    tool = "fs.*"
    call = 0.001
"#;

impl Kept {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("toolgate-reported-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let kept = Self { folder };
        let (trace, ledger) = (kept.trace(), kept.folder.join("budget.redb"));
        let file = format!("listen = \"127.0.0.1:1\"\n[trace]\nsink = {trace:?}\n[budget]\nfile = {ledger:?}\n{PRICES}");
        fs::write(kept.config(), file).unwrap();
        kept
    }

    fn trace(&self) -> PathBuf {
        self.folder.join("traces.jsonl")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("toolgate.toml")
    }

    /// A proxy that keeps books and a trace here, before `upstream`, with a server that has `tools`.
    async fn proxy(&self, upstream: &Upstream, tools: Value, change: impl FnOnce(&mut Config)) -> Proxy {
        self.proxy_from(PRICES, upstream, tools, change).await
    }

    /// The same with the settings of a TOML `file`.
    async fn proxy_from(&self, file: &str, upstream: &Upstream, tools: Value, change: impl FnOnce(&mut Config)) -> Proxy {
        let with_servers = mcp::with_servers([mcp::server("fs", tools)]);
        Proxy::start_from(file, |config| {
            config.backends.backends[0].target.url = format!("http://{}", upstream.address).parse().unwrap();
            with_servers(config);
            config.trace.sink = Sink::File(self.trace());
            config.budget.books = Books::File { path: self.folder.join("budget.redb"), sync_every: Some(Duration::from_millis(10)) };
            change(config);
        })
        .await
    }

    /// How many lines the trace has.
    fn lines(&self) -> usize {
        fs::read_to_string(self.trace()).unwrap_or_default().lines().count()
    }

    /// Ends `proxy` once there are `lines`, so that its books are closed.
    async fn close(&self, mut proxy: Proxy, lines: usize) {
        eventually("the trace is not written", || self.lines() >= lines).await;
        proxy.begin_stop();
        proxy.stopped().await;
        assert_eq!(proxy.end_tasks().await, 0);
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(["report", "cost", "--config"]).arg(self.config()).args(arguments).output().unwrap()
    }

    /// The report as JSON, and what it exits with.
    fn report(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let output = self.run(&[&["--json"], arguments].concat());
        let report = serde_json::from_slice(&output.stdout);
        (report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))), output.status.code())
    }

    /// Replaces `from` in the trace once.
    fn tamper(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.trace()).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(self.trace(), text.replacen(from, to, 1)).unwrap();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn read() -> Reply {
    Reply::call("read_file", r#"{"path":"README.md"}"#)
}

fn done() -> Reply {
    Reply::call("respond", r#"{"message":"Done."}"#)
}

fn reading(script: Value) -> Value {
    let mut tool = mcp::tool("read_file", "path");
    tool["annotations"] = json!({"readOnlyHint": true});
    tool.as_object_mut().unwrap().extend(script.as_object().unwrap().clone());
    json!([tool])
}

/// Asks, and leaves as soon as the backend was asked for the `nth` time.
async fn leave(proxy: &Proxy, upstream: &Upstream, nth: usize) {
    let client = proxy.client.clone();
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.open("POST", "/v1/chat/completions", &[("x-request-id", "left")], question().to_string()).await });
    upstream.arrived(nth).await;
    asking.shutdown().await;
    upstream.cancelled().await;
}

#[tokio::test]
async fn traces_and_ledger_agree_to_the_microcent() {
    let kept = Kept::new("agree");
    let wrong = Reply::call("get_weather", r#"{"town":"Paris"}"#).costing([40, 8, 0]);
    let replies = [
        // A run with a tool, a streamed one, one with a correction, a short one, a failed one, one that is left.
        read().costing([101, 21, 0]),
        done().costing([133, 7, 0]),
        paris().costing([77, 5, 0]),
        wrong,
        paris().costing([91, 6, 0]),
        done().costing([10, 3, 0]),
        Reply::error(500, "out of memory"),
        paris().after(Duration::from_secs(60)),
    ];
    let upstream = Upstream::saying(replies).await;
    let proxy = kept.proxy(&upstream, reading(json!({})), |_| {}).await;
    assert_eq!(proxy.ask_with(&chat(), &[("x-request-id", "run")]).await.status, 200);
    assert_eq!(proxy.ask_with(&question_with(json!({"stream": true})), &[("x-request-id", "streamed")]).await.status, 200);
    assert_eq!(proxy.ask(&question()).await.status, 200);
    assert_eq!(proxy.ask(&chat()).await.status, 200);
    assert_eq!(proxy.ask_with(&chat(), &[("x-request-id", "failed")]).await.status, 500);
    leave(&proxy, &upstream, 8).await;
    kept.close(proxy, 9).await;

    let (report, code) = kept.report(&[]);
    assert_eq!((&report["agrees"], code), (&json!(true), Some(0)), "{report:#}");
    let total = &report["total"];
    assert_eq!((&total["calls"], &total["ledger"]["calls"]), (&json!(9), &json!(8)), "the failed one is in no books: {report:#}");
    assert_eq!(total["cost_microcents"], total["ledger"]["cost_microcents"]);
    assert_eq!(total["ledger"]["difference_microcents"], 0);
    // 452 tokens were read and 50 written, at 300 and 1,500 microcents each, and a tool was called. What nobody counted costs too.
    let known = 452 * 300 + 50 * 1500 + 100_000;
    assert!(total["cost_microcents"].as_u64().unwrap() > known, "{report:#}");
    assert_eq!((&total["tokens_in"], &total["tokens_out"]), (&json!(452), &json!(50)));

    let (report, code) = kept.report(&["--by", "tool", "--executed-only", "--since", "1h"]);
    let calls: Vec<(&Value, &Value)> =
        report["groups"].as_array().unwrap().iter().map(|group| (&group["group"], &group["calls"])).collect();
    assert_eq!((calls, code), (vec![(&json!("(models)"), &json!(7)), (&json!("fs.read_file"), &json!(1))], Some(0)));
    assert_eq!(report["groups"][1]["cost_usd"], 0.001);
    assert_eq!(kept.report(&["--until", "2026-01-01"]).0["total"]["calls"], 0);

    let table = kept.run(&["--by", "model"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("tiny") && table.contains("traces and ledger agree"), "{table}");
}

#[tokio::test]
async fn what_was_tampered_with_is_found() {
    let kept = Kept::new("tampered");
    let upstream = Upstream::saying([read().costing([100, 20, 0]), done().costing([200, 10, 0])]).await;
    let proxy = kept.proxy(&upstream, reading(json!({})), |_| {}).await;
    proxy.ask_with(&chat(), &[("x-request-id", "r-1")]).await;
    kept.close(proxy, 3).await;
    assert_eq!(kept.report(&[]).1, Some(0));

    // 100 · 300 + 20 · 1,500 microcents; one of them more.
    kept.tamper(r#""cost_usd":0.0006"#, r#""cost_usd":0.00060001"#);
    let (report, code) = kept.report(&[]);
    let expected = json!({"request_id": "r-1", "kind": "model", "name": "tiny", "cost_usd": 0.00060001, "cost_microcents": 60_001,
        "ledger_cost_usd": 0.0006, "ledger_cost_microcents": 60_000});
    assert_eq!((&report["disagreements"]["shown"], code), (&json!([expected]), Some(1)));
    assert_eq!((&report["agrees"], &report["total"]["ledger"]["difference_microcents"]), (&json!(false), &json!(1)));

    // A line that is damaged costs nothing, and the ledger knows better.
    kept.tamper(r#""cost_usd":0.00060001"#, r#""cost_usd":"#);
    let (report, code) = kept.report(&[]);
    assert_eq!((&report["traces"]["malformed"], &report["total"]["ledger"]["difference_microcents"]), (&json!(1), &json!(-60_000)));
    assert_eq!(code, Some(1));
    let table = kept.run(&[]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("DISAGREE") && table.contains("r-1 model tiny: 0.0006 USD in the ledger only"), "{table}");
}

#[tokio::test]
async fn a_call_that_the_deadline_cuts_off_costs_the_same_in_both() {
    let kept = Kept::new("late");
    let upstream = Upstream::saying([read(), Reply::text("Enough.")]).await;
    let proxy = kept.proxy(&upstream, reading(json!({"delay": 30})), |config| config.agent.wall_clock = Duration::from_secs(1)).await;
    proxy.ask(&chat()).await;
    kept.close(proxy, 3).await;
    let (report, code) = kept.report(&["--by", "tool"]);
    assert_eq!((&report["groups"][1]["cost_microcents"], code), (&json!(100_000), Some(0)), "{report:#}");
}

#[tokio::test]
async fn traces_alone_are_reported_too() {
    let kept = Kept::new("alone");
    let named = kept.folder.join("named.jsonl");
    fs::write(
        &named,
        "{\"kind\":\"tool_call\",\"timestamp\":\"2026-11-22T10:00:00Z\",\"server\":\"a\",\"tool\":\"b\",\"cost_usd\":0.5}\nnot json\n",
    )
    .unwrap();
    let name = named.display().to_string();
    let (report, code) = kept.report(&["--trace", &name]);
    assert_eq!((&report["agrees"], &report["total"]["cost_microcents"], code), (&Value::Null, &json!(50_000_000), Some(0)), "{report:#}");
    assert_eq!(report["traces"]["malformed"], 1);
    assert!(report["ledger"]["absent"].as_str().unwrap().contains("there is none at"), "{report:#}");
    assert!(!Path::new(&kept.folder.join("budget.redb")).exists(), "a report makes no ledger");

    assert_eq!(kept.run(&["--trace", "/nowhere"]).status.code(), Some(2));
    // What can be opened, and not read.
    let (report, code) = kept.report(&["--trace", &name, "--trace", "/proc/self/mem"]);
    assert_eq!((&report["total"]["cost_microcents"], code), (&json!(50_000_000), Some(2)), "{report:#}");
    assert!(report["notes"][0].as_str().unwrap().contains("could not be read to its end"), "{report:#}");
    assert_eq!(kept.run(&["--since", "yesterday"]).status.code(), Some(2));
    assert_eq!(kept.report(&[]).0["notes"].as_array().unwrap().len(), 1, "there is no trace yet");
}

#[tokio::test]
async fn a_ledger_that_another_has_open_is_not_left_out_in_silence() {
    let kept = Kept::new("open");
    let upstream = Upstream::saying([done().costing([1, 1, 0])]).await;
    let proxy = kept.proxy(&upstream, reading(json!({})), |_| {}).await;
    proxy.ask(&chat()).await;
    eventually("the trace is not written", || kept.lines() == 1).await;
    let (report, code) = kept.report(&[]);
    assert_eq!((&report["agrees"], code), (&Value::Null, Some(2)));
    assert!(report["ledger"]["absent"].as_str().unwrap().contains("in use by another process"), "{report:#}");
    assert_eq!(report["total"]["cost_microcents"], 1800);
}

#[tokio::test]
async fn a_toolgate_that_runs_is_asked_for_its_ledger() {
    let kept = Kept::new("running");
    let key = |name: &str, secret: &str, more: &str| format!("[[key]]\nname = \"{name}\"\nhash = \"{}\"\n{more}\n", Digest::of(secret));
    let file = [PRICES, &key("admin", ADMIN, "admin = true"), &key("chat", CHAT, "")].concat();
    let upstream = Upstream::saying([read().costing([100, 20, 0]), done().costing([1, 1, 0])]).await;
    let proxy = kept.proxy_from(&file, &upstream, reading(json!({})), |_| {}).await;
    let bearer = format!("Bearer {CHAT}");
    assert_eq!(proxy.ask_with(&chat(), &[("authorization", &bearer)]).await.status, 200);
    eventually("the trace is not written", || kept.lines() == 3).await;

    let run = async |key: Option<&str>| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(["report", "cost", "--json", "--by", "key", "--config"]).arg(kept.config());
        command.args(["--listen", &proxy.address.to_string()]).env_remove("TOOLGATE_ADMIN_KEY");
        if let Some(key) = key {
            command.env("TOOLGATE_ADMIN_KEY", key);
        }
        let output = command.output().await.unwrap();
        (serde_json::from_slice::<Value>(&output.stdout).unwrap(), output.status.code())
    };
    let (report, code) = run(Some(ADMIN)).await;
    assert_eq!((&report["agrees"], code), (&json!(true), Some(0)), "{report:#}");
    assert_eq!((&report["groups"][0]["group"], &report["total"]["ledger"]["cost_microcents"]), (&json!("chat"), &json!(161_800)));
    let (report, code) = run(None).await;
    assert_eq!((&report["agrees"], code), (&Value::Null, Some(2)));
    assert!(report["ledger"]["absent"].as_str().unwrap().contains("TOOLGATE_ADMIN_KEY"), "{report:#}");
}

#[tokio::test]
async fn what_is_passed_on_is_in_both() {
    let kept = Kept::new("passed");
    let replies = [Reply::text("Hello.").costing([30, 4, 0]), Reply::text("Hello.").costing([30, 4, 0]), Reply::error(503, "busy")];
    let upstream = Upstream::saying(replies).await;
    let proxy = kept.proxy(&upstream, json!([]), |config| config.tools.servers.clear()).await;
    proxy.ask(&chat()).await;
    let mut streamed = chat();
    streamed["stream"] = json!(true);
    proxy.ask(&streamed).await;
    proxy.ask(&chat()).await;
    kept.close(proxy, 3).await;
    let (report, code) = kept.report(&["--executed-only"]);
    assert_eq!((&report["agrees"], &report["total"]["calls"], code), (&json!(true), &json!(2), Some(0)), "{report:#}");
    assert_eq!(report["total"]["cost_microcents"], 2 * (30 * 300 + 4 * 1500));
}
