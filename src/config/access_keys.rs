//! `[[key]]` and `api_key`: the keys that clients show, and what each may use.

use std::{
    collections::HashSet,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use toml::Value;

use super::{
    backends,
    budget::patterns,
    keys::{Keys, Problem},
    units,
};
use crate::{
    budget::{
        Account, Subject,
        access::Access,
        keys::{Digest, Keys as AccountKeys},
    },
    secret::Template,
};

/// The key that `api_key` is.
pub const ONLY: &str = "default";

/// The longest name of a key.
const NAME_MAX: usize = 128;

/// The key of the listener's address.
const LISTEN: &str = "listen";

/// What is said of a listener that the network reaches and that asks nobody for a key.
const IS_OPEN: &str = "is reachable from the network, and nobody is asked for a key: make one with `toolgate key new NAME` and put what it \
                       prints into the configuration, or set TOOLGATE_API_KEY to a secret that clients send";

/// Whether `problem` is that of a listener that the network reaches and that asks nobody for a key. It matters to whoever listens: the key
/// of a service may stand in the environment of the service alone.
pub fn is_of_open_listener(problem: &Problem) -> bool {
    problem.path == LISTEN && problem.message == IS_OPEN
}

/// Every key. Where the network reaches `listen`, there must be one.
pub(super) fn resolve(keys: &mut Keys<'_>, listen: SocketAddr) -> AccountKeys {
    let tables = keys.tables("key");
    let mut known: Vec<(String, (Digest, Account))> = Vec::new();
    let typed = keys.take("api_key", None, |value| units::text(value).map(|text| Some(Template::new(&text))));
    if typed.is_none() && tables.is_empty() && !listen.ip().to_canonical().is_loopback() {
        keys.fault(LISTEN, IS_OPEN);
    }
    known.extend(typed.and_then(|typed| only(keys, &typed)).map(|key| ("api_key".to_owned(), key)));
    for path in tables {
        known.extend(key(keys, &path).map(|key| (path, key)));
    }
    check_unique(keys, &known);
    AccountKeys::new(known.into_iter().map(|(_, key)| key).collect())
}

/// The names of all keys, and that of `api_key`, which may be set where the service runs alone. To be asked for before [`resolve`].
pub(super) fn names(keys: &Keys<'_>) -> Vec<String> {
    let typed = keys.tables("key").into_iter().filter_map(|path| keys.peek(&format!("{path}.name")));
    std::iter::once(ONLY.to_owned()).chain(typed).collect()
}

/// One secret for everybody, for a quick start: it may do all but administer.
fn only(keys: &mut Keys<'_>, typed: &Template) -> Option<(Digest, Account)> {
    let secret = typed.fill(&|name| keys.variable(name)).map_err(|unset| unset.to_string());
    match secret.and_then(|secret| digest(secret.expose())) {
        Ok(digest) => Some((digest, Account { key: ONLY.to_owned(), ..Account::anonymous() })),
        Err(fault) => {
            keys.fault("api_key", fault);
            None
        }
    }
}

/// The digest of a secret as it was typed. Fails for one that cannot be sent in a header.
pub fn digest(secret: &str) -> Result<Digest, String> {
    let secret = secret.trim();
    let is_sendable = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if is_sendable { Ok(Digest::of(secret)) } else { Err("must be one or more visible ASCII characters".to_owned()) }
}

/// The key of one table; `None` where what is wrong with it leaves open whom it stands for.
fn key(keys: &mut Keys<'_>, path: &str) -> Option<(Digest, Account)> {
    let at = |key: &str| format!("{path}.{key}");
    let name = keys.require(&at("name"), "it is by this name that you will know the key", |value| units::text(value).and_then(name));
    let subject = keys.take(&at("subject"), None, |value| subject(value).map(Some));
    let hash = hash(keys, &at("hash"));
    let tools = Access {
        // All, unless somebody decides otherwise; the same goes for models.
        allow: keys.take(&at("allow_tools"), Vec::new(), patterns),
        deny: keys.take(&at("deny_tools"), Vec::new(), patterns),
        within: None,
    };
    let models = keys.take(&at("models"), Vec::new(), units::texts);
    let expires = keys.take(&at("expires"), None, |value| moment(value).map(Some));
    // Budgets are changed by those who were told that they may.
    let is_admin = keys.take(&at("admin"), false, units::flag);
    let (key, digest) = (name?, hash?);
    // Who is not told whose budget it is has one of its own.
    let subject = subject.unwrap_or_else(|| Subject { tenant: Some(key.clone()), ..Subject::default() });
    Some((digest, Account { key, subject, models, tools, expires, is_admin }))
}

/// A name that can be that of a tenant too.
pub fn name(typed: String) -> Result<String, String> {
    backends::name(typed).and_then(|name| if name.len() <= NAME_MAX { Ok(name) } else { Err(format!("must be at most {NAME_MAX} long")) })
}

fn hash(keys: &mut Keys<'_>, path: &str) -> Option<Digest> {
    let missing = "`toolgate key new NAME` prints a key and its hash, `toolgate key hash` that of one you have";
    let template = keys.require(path, missing, |value| units::text(value).map(|text| Template::new(&text)))?;
    let read = match template.fill(&|name| keys.variable(name)) {
        Ok(text) => Digest::parse(text.expose().trim())
            .ok_or_else(|| "must be `sha256:` and 64 hexadecimal digits: the hash of the key, never the key itself".to_owned()),
        Err(unset) => Err(unset.to_string()),
    };
    read.map_err(|fault| keys.fault(path, fault)).ok()
}

fn subject(value: &Value) -> Result<Subject, String> {
    let path = units::text(value)?;
    Subject::of_scope(&path).ok_or_else(|| {
        "must be levels from the top, some of tenant, workspace, app, workflow, agent and toolset, such as \"tenant:acme/app:chat\""
            .to_owned()
    })
}

/// A date, which is the beginning of that day in UTC, or a date with a time and its offset.
fn moment(value: &Value) -> Result<SystemTime, String> {
    let text = match value {
        Value::Datetime(typed) => typed.to_string(),
        other => units::text(other)?,
    };
    let day = |text: &str| text.parse::<NaiveDate>().ok().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    let moment = DateTime::parse_from_rfc3339(&text).ok().map(|moment| moment.with_timezone(&Utc)).or_else(|| day(&text));
    let seconds = moment.and_then(|moment| u64::try_from(moment.timestamp()).ok());
    let moment = seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    moment.ok_or_else(|| "must be a date, or a date and time with an offset, such as 2027-01-31 or \"2027-01-31T18:00:00Z\"".to_owned())
}

/// No two keys may have one name, and no two one secret; nor may two spend one budget for the reason alone that scopes are in lower case.
fn check_unique(keys: &mut Keys<'_>, known: &[(String, (Digest, Account))]) {
    let (mut names, mut digests) = (HashSet::new(), HashSet::new());
    for (path, (digest, account)) in known {
        let alike = known.iter().map(|(_, (_, account))| account).take_while(|known| !std::ptr::eq(*known, account));
        let is_alike = |known: &&Account| known.key.to_lowercase() == account.key.to_lowercase();
        if !names.insert(&account.key) {
            keys.fault(format!("{path}.name"), format!("`{}` is the name of another key", account.key));
        } else if let Some(other) = alike.filter(|known| known.subject.scopes() == account.subject.scopes()).find(is_alike) {
            let message = format!(
                "`{}` and `{}` would spend the same budgets, those of {}, which is in lower case: call one of them otherwise, or give it a \
                 `subject` of its own",
                other.key,
                account.key,
                account.subject.scopes().pop().unwrap_or_default()
            );
            keys.fault(format!("{path}.name"), message);
        }
        if !digests.insert(digest) {
            keys.fault(format!("{path}.hash"), "is the hash of another key");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{budget::access::Pattern, config::from_text};

    fn resolved(file: &str, env: &[(&str, &str)]) -> Result<AccountKeys, Vec<String>> {
        let env: HashMap<String, String> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (config, problems) = from_text(file, &env);
        if problems.is_empty() { Ok(config.keys) } else { Err(problems.iter().map(ToString::to_string).collect()) }
    }

    fn at(text: &str) -> SystemTime {
        DateTime::parse_from_rfc3339(text).unwrap().into()
    }

    #[test]
    fn a_key_says_who_may_use_what() {
        let file = format!(
            r#"
            [[key]]
            name = "chat"
            hash = "{}"
            subject = "tenant:acme/app:chat"
            models = ["gpt-*"]
            allow_tools = ["files.*", "@read_only"]
            deny_tools = ["@destructive"]
            expires = 2027-01-31
            [[key]]
            name = "ops"
            hash = "${{OPS_HASH}}"
            admin = true
            "#,
            Digest::of("tg_chat")
        );
        let hash = Digest::of("tg_ops").to_string();
        let keys = resolved(&file, &[("OPS_HASH", &hash)]).unwrap();
        let now = at("2027-01-30T23:59:59Z");
        let chat = keys.find("tg_chat", now).unwrap();
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect::<Vec<_>>();
        let expected = Account {
            key: "chat".to_owned(),
            subject: Subject::of_scope("tenant:acme/app:chat").unwrap(),
            models: vec!["gpt-*".to_owned()],
            tools: Access { allow: patterns(&["files.*", "@read_only"]), deny: patterns(&["@destructive"]), within: None },
            expires: Some(at("2027-01-31T00:00:00Z")),
            is_admin: false,
        };
        assert_eq!(*chat, expected);
        let ops = keys.find("tg_ops", now).unwrap();
        assert_eq!((ops.subject.scopes(), ops.is_admin, &ops.tools), (vec!["tenant:ops".to_owned()], true, &Access::default()));
        assert!(keys.find("tg_chat", at("2027-01-31T00:00:00Z")).is_err());
    }

    #[test]
    fn one_secret_is_enough_to_begin_with() {
        let now = SystemTime::now();
        let found = |file: &str, env: &[(&str, &str)]| {
            let account = resolved(file, env).unwrap().find("s3cret", now).unwrap();
            (account.key.clone(), account.subject.scopes().concat(), account.is_admin)
        };
        let expected = (ONLY.to_owned(), "tenant:local".to_owned(), false);
        assert_eq!(found("", &[("TOOLGATE_API_KEY", "s3cret\n")]), expected);
        assert_eq!(found("api_key = \"${MY_KEY}\"", &[("MY_KEY", "s3cret")]), expected);
    }

    #[test]
    fn who_is_reachable_asks_for_a_key() {
        let open = |listen: &str, env: &[(&str, &str)]| match resolved(&format!("listen = \"{listen}\""), env) {
            Ok(_) => false,
            Err(problems) => {
                assert!(problems[0].starts_with("listen: ") && problems[0].contains("toolgate key new"), "{problems:?}");
                true
            }
        };
        for listen in ["127.0.0.1:1", "127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(!open(listen, &[]), "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "10.0.0.7:1", "[::ffff:10.0.0.7]:1"] {
            assert!(open(listen, &[]), "{listen}");
            assert!(!open(listen, &[("TOOLGATE_API_KEY", "s3cret")]), "{listen}");
        }
    }

    #[test]
    fn names_that_differ_in_case_alone_spend_different_budgets_or_none() {
        let check = |subject: &str, is_fine: bool| {
            let table = |name: &str, more: &str| format!("[[key]]\nname = \"{name}\"\nhash = \"{}\"\n{more}\n", Digest::of(name));
            let told = resolved(&[table("Acme", ""), table("acme", subject)].concat(), &[]);
            assert_eq!(told.is_ok(), is_fine, "{told:?}");
            assert!(is_fine || told.unwrap_err()[0].starts_with("key[1].name: `Acme` and `acme` would spend"));
        };
        check("", false);
        check("subject = \"tenant:other\"", true);
    }

    #[test]
    fn expiry_is_a_date_or_a_moment() {
        let check = |typed: Value, expected: Option<&str>| assert_eq!(moment(&typed).ok(), expected.map(at), "{typed:?}");
        let datetime = |text: &str| Value::Datetime(text.parse().unwrap());
        check(datetime("2027-01-31"), Some("2027-01-31T00:00:00Z"));
        check(datetime("2027-01-31T18:00:00+02:00"), Some("2027-01-31T16:00:00Z"));
        check(datetime("2027-01-31 18:00:00Z"), Some("2027-01-31T18:00:00Z"));
        check(Value::from("2027-01-31"), Some("2027-01-31T00:00:00Z"));
        check(Value::from("2027-01-31T18:00:00Z"), Some("2027-01-31T18:00:00Z"));
        check(datetime("2027-01-31T18:00:00"), None);
        check(datetime("18:00:00"), None);
        check(Value::from("soon"), None);
        check(Value::from(2027), None);
    }

    #[test]
    fn every_mistake_is_told_and_no_secret_with_it() {
        let hash = Digest::of("tg_a");
        let file = format!(
            r#"
            api_key = "${{NO_SUCH_KEY}}"
            [[key]]
            [[key]]
            name = "a b"
            hash = "tg_secret"
            subject = "acme"
            allow_tools = ["@harmless"]
            expires = "soon"
            [[key]]
            name = "c"
            hash = "{hash}"
            [[key]]
            name = "c"
            hash = "{hash}"
            "#
        );
        let problems = resolved(&file, &[]).unwrap_err();
        let expected = [
            "api_key: the variable NO_SUCH_KEY",
            "key[0].name: is missing",
            "key[0].hash: is missing",
            "key[1].name: must be",
            "key[1].hash: must be",
            "key[1].subject: must be",
            "key[1].allow_tools: `@harmless`",
            "key[1].expires: must be",
            "key[3].name: `c`",
            "key[3].hash: is the hash",
        ];
        for start in expected {
            assert!(problems.iter().any(|problem| problem.starts_with(start)), "{start}: {problems:#?}");
        }
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        assert!(!problems.concat().contains("tg_secret"));
        assert_eq!(resolved("", &[("TOOLGATE_API_KEY", "")]).unwrap_err().len(), 1);
        assert_eq!(resolved("api_key = \"two words\"", &[]).unwrap_err().len(), 1);
    }
}
