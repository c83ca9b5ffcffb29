//! `toolgate budget`, before a toolgate that runs and before none.

use std::{path::PathBuf, process::Output};

use serde_json::Value;
use tokio::process::Command;
use toolgate::{budget::keys::Digest, config::budget::Books};

use crate::harness::{Proxy, Reply, Upstream};

const ADMIN: &str = "tg_of_the_administrator";
const CHAT: &str = "tg_chat";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = toolgate::chat::id::mint("toolgate-budget-");
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// A configuration whose books are in this folder.
    fn config(&self, listen: &str) -> String {
        let path = self.0.join("toolgate.toml");
        let file = self.0.join("budget.redb");
        std::fs::write(&path, format!("listen = \"{listen}\"\n[budget]\nstore = \"file\"\nfile = \"{}\"\n", file.display())).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn toolgate(arguments: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.arg("budget").args(arguments).env("TOOLGATE_MCP_SERVERS", "").env_remove("TOOLGATE_ADMIN_KEY");
    if let Some(key) = key {
        command.env("TOOLGATE_ADMIN_KEY", key);
    }
    command.output().await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Rows of a table without the space between their cells.
fn rows(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn where_none_listens_the_ledger_itself_is_changed() {
    let folder = Folder::new();
    let config = folder.config("127.0.0.1:1");
    let run = async |arguments: &[&str]| toolgate(&[arguments, &["--config", &config]].concat(), None).await;
    let made = run(&["allocate", "tenant:Acme", "5 USD", "--overdraft", "1 USD"]).await;
    assert_eq!(rows(&made), ["tenant:acme USD 5.0 0.0 0.0 0.0 5.0 active"]);
    assert!(text(&made.stderr).contains("no toolgate listens at 127.0.0.1:1"), "{}", text(&made.stderr));
    for _ in 0..2 {
        let funded = run(&["fund", "tenant:acme", "1000 tokens", "--idempotency-key", "once"]).await;
        assert_eq!(rows(&funded), ["tenant:acme tokens 1000 0 0 0 1000 active"]);
    }
    assert_eq!(rows(&run(&["fund", "tenant:acme", "0.5 USD"]).await), ["tenant:acme USD 5.5 0.0 0.0 0.0 5.5 active"]);
    assert_eq!(rows(&run(&["freeze", "tenant:acme"]).await).len(), 2);
    assert_eq!(rows(&run(&["unfreeze", "tenant:acme", "--unit", "USD"]).await), ["tenant:acme USD 5.5 0.0 0.0 0.0 5.5 active"]);
    let shown = run(&["show", "--json"]).await;
    let told: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        (&told["balances"][0]["overdraft_limit"], &told["balances"][1]["status"]),
        (&Value::from(100_000_000), &Value::from("FROZEN"))
    );
    assert!(text(&shown.stdout).contains(r#""usd":{"allocated":5.5,"spent":0.0,"#), "{}", text(&shown.stdout));

    for (arguments, said) in [
        (["allocate", "tenant:acme", "5 EUR"].as_slice(), "`5 EUR` is no amount"),
        (&["allocate", "acme", "5 USD"], "must be levels from the top"),
        (&["allocate", "tenant:acme", "5 USD", "--overdraft", "1 tokens"], "the same unit"),
        (&["freeze", "tenant:nobody"], "There is no budget of tenant:nobody"),
        (&["close", "tenant:acme", "--unit", "euro"], "--unit must be"),
    ] {
        let output = run(arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(said) && output.stdout.is_empty(), "{}", text(&output.stderr));
    }
}

#[tokio::test]
async fn a_toolgate_that_runs_is_asked() {
    let key = |name: &str, secret: &str, more: &str| format!("[[key]]\nname = \"{name}\"\nhash = \"{}\"\n{more}\n", Digest::of(secret));
    let file = ["[budget]\nstore = \"memory\"\n".to_owned(), key("admin", ADMIN, "admin = true"), key("chat", CHAT, "")].concat();
    let upstream = Upstream::saying([Reply::text("Hello.")]).await;
    let proxy = Proxy::start_from(&file, |config| config.budget.books = Books::Memory).await;
    drop(upstream);
    let folder = Folder::new();
    let config = folder.config(&proxy.address.to_string());
    let run = async |arguments: &[&str], key: Option<&str>| toolgate(&[arguments, &["--config", &config]].concat(), key).await;

    let funded = run(&["fund", "tenant:chat", "20 calls"], Some(ADMIN)).await;
    assert_eq!(rows(&funded), ["tenant:chat calls 20 0 0 0 20 active"]);
    assert!(!text(&funded.stderr).contains("no toolgate listens"));
    for arguments in [&["show"][..], &["show", "tenant:chat"]] {
        assert_eq!(rows(&run(arguments, Some(ADMIN)).await), ["tenant:chat calls 20 0 0 0 20 active"]);
    }
    assert_eq!(rows(&run(&["show", "--own"], Some(CHAT)).await), ["tenant:chat calls 20 0 0 0 20 active"]);
    assert_eq!(rows(&run(&["show", "--own", "--key", ADMIN], None).await), [] as [&str; 0]);
    assert_eq!(rows(&run(&["allocate", "tenant:chat", "0.00000001 USD"], Some(ADMIN)).await).len(), 1);
    let told = run(&["show", "--json"], Some(ADMIN)).await;
    let answer = proxy.client.send("GET", "/budget?all=true", &[("x-api-key", ADMIN)], "").await;
    assert_eq!(text(&told.stdout).trim_end(), answer.text(), "what HTTP answers, to the digit");
    assert!(answer.text().contains(r#""usd":{"allocated":0.00000001,"#), "{}", answer.text());
    for (key, said) in [(None, "No API key"), (Some("tg_wrong_one"), "not known"), (Some(CHAT), "admin = true")] {
        let output = run(&["show"], key).await;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(told.contains(said) && told.contains("TOOLGATE_ADMIN_KEY") && !told.contains("tg_"), "{told}");
    }
    assert!(!folder.0.join("budget.redb").exists(), "its own ledger is left alone");
}

#[tokio::test]
async fn where_nobody_can_be_an_administrator_it_is_told_how_somebody_is() {
    let proxy = Proxy::start_from("[budget]\nstore = \"memory\"\n", |_| {}).await;
    let folder = Folder::new();
    let output = toolgate(&["show", "--config", &folder.config(&proxy.address.to_string())], None).await;
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no key of this configuration") && told.contains("toolgate key new") && told.contains("stop toolgate"), "{told}");
}
