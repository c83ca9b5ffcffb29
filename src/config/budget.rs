//! `[budget]`, `[[price]]` and `[[limit]]`: what may be spent.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use toml::Value;

use super::{backends, keys::Keys, units};
use crate::{
    budget::{
        Amount, Policy, Subject, Unit,
        access::{Access, Pattern},
        amount::{USD, dollars},
        cycles,
        ledger::Overage,
        policy::{Ceilings, Limit, Who, Window},
        price::{ModelPrice, Prices, ToolPrice},
    },
    redis, store,
};

/// What may be spent, and where the books are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What the operator allows.
    pub policy: Policy,
    /// Where the books are kept.
    pub books: Books,
    /// The folder in which costs are kept until whoever keeps the books elsewhere has them.
    pub journal: PathBuf,
    /// The server that is asked beside the books, if one is.
    pub cycles: Option<cycles::Config>,
}

/// Where the books are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Books {
    /// There are none.
    Off,
    /// In the process, as long as it lives.
    Memory,
    /// In a file.
    File {
        /// Which.
        path: PathBuf,
        /// How long what was written may be lost when the machine dies; none where nothing may.
        sync_every: Option<Duration>,
    },
    /// In the Redis of `[store]`.
    Redis(redis::Config),
}

/// What is typed for `budget.store`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Auto,
    Off,
    Memory,
    File,
    Redis,
}

/// What may be spent, where the Redis of `store` may keep the books, by keys that have these `names`.
pub(super) fn resolve(keys: &mut Keys<'_>, store: &store::Config, names: &[String]) -> Config {
    let prices = prices(keys);
    let limits: Vec<Limit> = keys.tables("limit").iter().filter_map(|table| limit(keys, table, names)).collect();
    let kinds = [("auto", Kind::Auto), ("off", Kind::Off), ("memory", Kind::Memory), ("file", Kind::File), ("redis", Kind::Redis)];
    let kind = keys.take("budget.store", Kind::Auto, |value| units::word(value, &kinds));
    let path = keys.take("budget.file", PathBuf::from("data/budget.redb"), |value| units::text(value).map(PathBuf::from));
    // A death of the process loses nothing; this is what a power cut may cost.
    let sync_every = keys.take("budget.sync_every", Some(Duration::from_millis(100)), units::duration_or_off);
    let asks_cycles = keys.is_set("budget.cycles");
    let has_use = asks_cycles || limits.iter().any(|limit| limit.window != Window::Request) || prices != Prices::default();
    let books = match kind {
        Kind::Off => Books::Off,
        // Whoever has no use for books gets no file.
        Kind::Auto if !has_use => Books::Off,
        Kind::Memory => Books::Memory,
        Kind::File | Kind::Auto => Books::File { path, sync_every },
        Kind::Redis => match &store.redis {
            Some(redis) => Books::Redis(redis.clone()),
            None => {
                keys.fault("budget.store", "is \"redis\", but store.redis does not say which");
                Books::Memory
            }
        },
    };
    // Beside the file.
    let journal = keys.take("budget.journal", PathBuf::from("data/budget-journal"), |value| units::text(value).map(PathBuf::from));
    if books == Books::Off && has_use {
        keys.fault("budget.store", "is off, but there are prices or limits: without books nobody knows what was spent");
    }
    let policy = Policy {
        ceilings: ceilings(keys),
        access: Access {
            allow: keys.take("budget.allow_tools", Vec::new(), patterns),
            deny: keys.take("budget.deny_tools", Vec::new(), patterns),
            within: None,
        },
        overage: keys.take("budget.overage", Overage::AllowIfAvailable, |value| {
            let words = [
                ("reject", Overage::Reject),
                ("allow_if_available", Overage::AllowIfAvailable),
                ("allow_with_overdraft", Overage::AllowWithOverdraft),
            ];
            units::word(value, &words)
        }),
        // What nobody can count is not let through, unless somebody decides otherwise.
        fails_open: keys.take("budget.on_failure", false, |value| units::word(value, &[("closed", false), ("open", true)])),
        prices,
        limits,
    };
    let cycles = cycles(keys, &journal, policy.overage);
    if cycles.is_some() && books == Books::Off {
        keys.fault("budget.store", "is off, but a Cycles server is asked: costs are counted here before it is told of them");
    }
    Config { policy, books, journal, cycles }
}

/// The Cycles server.
fn cycles(keys: &mut Keys<'_>, journal: &Path, overage: Overage) -> Option<cycles::Config> {
    let url = keys.take("budget.cycles", None, |value| backends::url(value).map(Some));
    let api_key = super::store::filled(keys, "budget.cycles_api_key");
    // A call waits for it, twice at most.
    let timeout = keys.take("budget.cycles_timeout", Duration::from_secs(2), units::duration);
    let units =
        [("USD_MICROCENTS", Unit::UsdMicrocents), ("TOKENS", Unit::Tokens), ("CREDITS", Unit::Credits), ("RISK_POINTS", Unit::RiskPoints)];
    let unit = keys.take("budget.cycles_unit", Unit::UsdMicrocents, |value| units::word(value, &units));
    Some(cycles::Config {
        url: url?,
        api_key,
        timeout,
        // The protocol's own: it is extended while a call runs.
        ttl: Duration::from_secs(60),
        grace: Duration::from_secs(5),
        journal: journal.join("cycles"),
        unit,
        overage,
    })
}

fn ceilings(keys: &mut Keys<'_>) -> Ceilings {
    let count = |value: &Value| units::count(value, 0, u32::MAX).map(|count| Some(u64::from(count)).filter(|count| *count > 0));
    Ceilings {
        // More than an answer of a small model ever costs, little enough to be lost to a loop.
        usd: keys.take("budget.request_ceiling_usd", Some(USD / 10), |value| money(value).map(|usd| Some(usd).filter(|usd| *usd > 0))),
        tokens: keys.take("budget.request_ceiling_tokens", None, count),
        calls: keys.take("budget.request_max_calls", None, count),
        deadline: keys.take("budget.request_deadline", None, units::duration_or_off),
    }
}

fn prices(keys: &mut Keys<'_>) -> Prices {
    let mut prices = Prices::default();
    for table in keys.tables("price") {
        let at = |key: &str| format!("{table}.{key}");
        let model = keys.take(&at("model"), None, |value| units::text(value).map(Some));
        let tool = keys.take(&at("tool"), None, |value| units::text(value).map(Some));
        match (model, tool) {
            (Some(pattern), None) => {
                let input = keys.take(&at("input"), 0, money);
                prices.models.push(ModelPrice {
                    pattern,
                    input,
                    // Without a discount it is read as anything else is.
                    cached_input: keys.take(&at("cached_input"), input, money),
                    cache_write: keys.take(&at("cache_write"), input, money),
                    output: keys.take(&at("output"), 0, money),
                });
            }
            (None, Some(pattern)) => {
                let risk = |value: &Value| units::count(value, 0, u32::MAX).map(u64::from);
                prices.tools.push(ToolPrice { pattern, call: keys.take(&at("call"), 0, money), risk: keys.take(&at("risk"), 0, risk) });
            }
            _ => keys.fault(table, "is of a model or of a tool: it needs one of the two keys `model` and `tool`"),
        }
    }
    prices
}

fn limit(keys: &mut Keys<'_>, table: &str, names: &[String]) -> Option<Limit> {
    let at = |key: &str| format!("{table}.{key}");
    let pattern = |value: &Value| units::text(value).map(Some);
    let windows = [
        ("request", Window::Request),
        ("minute", Window::Minute),
        ("hour", Window::Hour),
        ("day", Window::Day),
        ("month", Window::Month),
        ("ever", Window::Ever),
    ];
    let who = keys.take(&at("subject"), Who::Everyone, |value| match who(value)? {
        // It would hold for nobody.
        Who::Key(name) if !names.contains(&name) => Err(format!("there is no key that is called `{name}`")),
        known => Ok(known),
    });
    let tool = keys.take(&at("tool"), None, pattern);
    let kind = keys.take(&at("kind"), None, pattern);
    let window = keys.take(&at("window"), Window::Day, |value| units::word(value, &windows));
    let amount = keys.require(&at("amount"), "it is such as \"5 USD\", \"100000 tokens\", \"20 calls\" or \"10 risk\"", amount)?;
    Some(Limit { who, tool, kind, window, amount })
}

fn who(value: &Value) -> Result<Who, String> {
    let text = units::text(value)?;
    let expected = || "must be \"everyone\", \"key\", \"key:NAME\", \"session\" or a scope such as \"tenant:acme/app:chat\"".to_owned();
    match text.as_str() {
        "everyone" | "*" => Ok(Who::Everyone),
        "key" => Ok(Who::EachKey),
        "session" => Ok(Who::EachSession),
        other => match other.strip_prefix("key:") {
            Some(name) if !name.is_empty() => Ok(Who::Key(name.to_owned())),
            Some(_) => Err(expected()),
            None => {
                let subject = Subject::of_scope(other).ok_or_else(expected)?;
                subject.scopes().pop().map(Who::Scope).ok_or_else(expected)
            }
        },
    }
}

/// Dollars, as microcents.
fn money(value: &Value) -> Result<u64, String> {
    let expected = || "must be a number of dollars, not below zero, with eight digits behind the point at most".to_owned();
    let typed = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Integer(whole) => whole.to_string(),
        Value::Float(number) => number.to_string(),
        _ => return Err(expected()),
    };
    dollars(&typed).ok_or_else(expected)
}

fn amount(value: &Value) -> Result<Amount, String> {
    let expected = || "must be a number and what it counts, such as \"5 USD\", \"100000 tokens\", \"20 calls\" or \"10 risk\"".to_owned();
    Amount::parse(&units::text(value)?).ok_or_else(expected)
}

/// Patterns of tools.
pub(super) fn patterns(value: &Value) -> Result<Vec<Pattern>, String> {
    let read = |text: &String| {
        let expected = "is no annotation: there are @read_only, @destructive, @idempotent and @open_world";
        Pattern::parse(text).ok_or_else(|| format!("`{text}` {expected}"))
    };
    units::texts(value)?.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::from_text;

    fn resolved(file: &str) -> Result<Config, Vec<String>> {
        let (config, problems) = from_text(file, &HashMap::<String, String>::new());
        if problems.is_empty() { Ok(config.budget) } else { Err(problems.iter().map(ToString::to_string).collect()) }
    }

    #[test]
    fn without_prices_and_limits_there_are_no_books() {
        let config = resolved("").unwrap();
        assert_eq!((config.books, config.policy.ceilings.usd), (Books::Off, Some(10_000_000)));
        let config = resolved("[[price]]\nmodel = \"*\"\noutput = 0.4").unwrap();
        assert!(matches!(config.books, Books::File { .. }));
        assert!(resolved("[budget]\nstore = \"off\"\n[[limit]]\namount = \"5 calls\"").is_err());
    }

    #[test]
    fn money_keeps_its_digits() {
        let check = |typed: &str, expected: Option<u64>| assert_eq!(money(&typed.parse().unwrap()).ok(), expected, "{typed}");
        check("0.1", Some(10_000_000));
        check("\"0.00000001\"", Some(1));
        check("3", Some(3 * USD));
        check("\"15.00\"", Some(15 * USD));
        check("-1", None);
        check("\"much\"", None);
    }

    #[test]
    fn a_price_is_of_a_model_or_of_a_tool() {
        let file = "[[price]]\nmodel = \"a*\"\ninput = 3\noutput = 15\n[[price]]\ntool = \"web.*\"\ncall = 0.002\nrisk = 5";
        let prices = resolved(file).unwrap().policy.prices;
        assert_eq!(prices.model("a1").map(|price| (price.input, price.cached_input, price.output)), Some((3 * USD, 3 * USD, 15 * USD)));
        assert_eq!(prices.tool("web.get").map(|price| (price.call, price.risk)), Some((200_000, 5)));
        let both = "[[price]]\nmodel = \"a\"\ntool = \"b\"";
        assert!(resolved(both).unwrap_err()[0].starts_with("price: is of a model or of a tool"));
    }

    #[test]
    fn a_limit_says_who_what_and_how_much() {
        let file = "[[limit]]\nsubject = \"Tenant:acme\"\namount = \"5 USD\"";
        assert!(resolved(file).unwrap_err()[0].starts_with("limit.subject: must be \"everyone\""));
        let file = "[[limit]]\nsubject = \"tenant:Acme\"\nkind = \"tool.*\"\nwindow = \"hour\"\namount = \"20 calls\"";
        let limit = resolved(file).unwrap().policy.limits.remove(0);
        assert_eq!(
            (limit.who, limit.window, limit.amount),
            (Who::Scope("tenant:acme".to_owned()), Window::Hour, Amount::new(Unit::Credits, 20))
        );
        for wrong in
            ["amount = \"5\"", "amount = \"5 EUR\"", "amount = \"x calls\"", "window = \"day\"", "amount = \"5 calls\"\nwindow = \"week\""]
        {
            assert!(resolved(&format!("[[limit]]\n{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_of_a_key_names_one_that_there_is() {
        let file = |name: &str| {
            let hash = crate::budget::keys::Digest::of("tg_chat");
            format!("[[key]]\nname = \"chat\"\nhash = \"{hash}\"\n[[limit]]\nsubject = \"key:{name}\"\namount = \"5 calls\"")
        };
        assert_eq!(resolved(&file("chta")).unwrap_err(), ["limit.subject: there is no key that is called `chta`"]);
        for name in ["chat", crate::config::access_keys::ONLY] {
            assert_eq!(resolved(&file(name)).unwrap().policy.limits[0].who, Who::Key(name.to_owned()));
        }
    }

    #[test]
    fn tools_are_allowed_by_name_and_annotation() {
        let config = resolved("[budget]\ndeny_tools = [\"shell.*\", \"@destructive\"]").unwrap();
        assert_eq!(config.policy.access.deny, [Pattern::Name("shell.*".to_owned()), Pattern::Destructive]);
        assert!(resolved("[budget]\ndeny_tools = [\"@dangerous\"]").is_err());
    }
}
