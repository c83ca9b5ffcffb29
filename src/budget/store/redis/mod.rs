//! The ledger of several processes: a Redis, which does each operation as one script, all of it or nothing, one at a time.
//!
//! The rules of `budget::ledger` are those scripts' too, written once more in the only language that the server runs; the tests hold both to
//! the same answers. The time is the server's, so that replicas whose clocks differ agree.
//!
//! What is there:
//!
//! ```text
//! <prefix>{ledger}:balances           hash    "UNIT scope" → the sums, as JSON
//! <prefix>{ledger}:caps               hash    "UNIT scope" → what whoever uses the budget is asked to keep to, as JSON
//! <prefix>{ledger}:ending             zset    "UNIT scope" by when the budget may be forgotten
//! <prefix>{ledger}:reservation:<id>   hash    all of it while it stands; what became of it for 7 days after that
//! <prefix>{ledger}:due                zset    ids of what is not settled, by when it must be
//! <prefix>{ledger}:answer:<place>     string  a hash of what was asked, until when the answer is kept (of a commit or an event 30 days,
//!                                             else a day), and the answer, as JSON
//! <prefix>{ledger}:entries            zset    the books: a number and the line, as JSON, by time
//! ```
//!
//! All keys have one hash tag: in a cluster they are in one slot, on one server, which a script needs.
//!
//! # What lasts
//!
//! As much as the Redis keeps. With `appendonly yes` and `appendfsync always` an operation that was answered outlives a kill of the server;
//! with `appendfsync everysec`, Redis's own default for that file, the last second may be lost when the machine goes down, and with
//! snapshots alone all since the last one. A script is in the file whole or not at all. A replica that takes over may lack what its master
//! answered last. What was lost was never booked: a caller that tries again with the same key books it. A Redis that forgets values when
//! its memory is full (`maxmemory-policy` other than `noeviction`) forgets budgets, and what was used of them.

mod scripts;

use std::{collections::HashMap, sync::Arc, time::Duration};

use ::redis::{Cmd, Script, pipe};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::clock;
use crate::{
    budget::{
        Amount, Subject, Unit,
        amount::AMOUNT_MAX,
        ledger::{
            Applied, Balance, Caps, Committed, Entry, Error, Event, Extended, Quota, Refusal, Released, Request, Reserved, Status,
            StoreError, Terms, hash, place, reservation_id,
        },
    },
    redis::{Config, Connection, Failure, Repeat},
};

/// The ledger in a Redis. An operation that fails for the Redis may have been done, where only its answer was lost: asked for again with
/// the same key it is done once.
#[derive(Debug)]
pub struct Redis {
    /// What all keys begin with.
    base: String,
    connection: Connection,
}

/// How long a Redis that failed is left alone: as long as nobody notices that it is back.
const PAUSE: Duration = Duration::from_millis(200);
/// How many lines of the books are read at a time.
const PAGE: usize = 1000;

impl Redis {
    /// The ledger in the Redis of `config`, whose time-out is that of one operation. Nothing is asked yet.
    pub fn new(config: Config) -> Self {
        Self { base: format!("{}{{ledger}}:", config.prefix()), connection: Connection::new(config, PAUSE) }
    }

    /// Whether it did not answer a moment ago: an operation now fails, and is not asked for.
    pub fn is_left_alone(&self) -> bool {
        self.connection.is_left_alone()
    }

    /// See [`super::super::Ledger::reserve`].
    pub async fn reserve(&self, request: &Request) -> Result<Reserved, Error> {
        let place = place("reserve", &request.subject, &request.idempotency_key);
        let more = json!({
            "id": reservation_id(&place),
            "ttl_ms": bounded(request.ttl_ms),
            "grace_ms": bounded(request.grace_period_ms),
            "subject": text(&request.subject)?,
            "action": text(&request.action)?,
        });
        let asked = with(wanted(request)?, more);
        self.run(&scripts::RESERVE, Repeat::Once, &keyed(asked, &place, request)).await
    }

    /// See [`super::super::Ledger::decide`].
    pub async fn decide(&self, request: &Request) -> Result<Option<Caps>, Error> {
        self.run(&scripts::DECIDE, Repeat::Once, &wanted(request)?).await
    }

    /// See [`super::super::Ledger::commit`].
    pub async fn commit(&self, id: &str, key: &str, actuals: &[Amount]) -> Result<Committed, Error> {
        let asked = json!({ "id": id, "actuals": bounded_all(actuals) });
        self.run(&scripts::COMMIT, Repeat::Once, &keyed(asked, &format!("commit/{id}/{key}"), &actuals)).await
    }

    /// See [`super::super::Ledger::release`].
    pub async fn release(&self, id: &str, key: &str) -> Result<Released, Error> {
        self.run(&scripts::RELEASE, Repeat::Once, &keyed(json!({ "id": id }), &format!("release/{id}/{key}"), &id)).await
    }

    /// See [`super::super::Ledger::extend`].
    pub async fn extend(&self, id: &str, key: &str, by_ms: u64) -> Result<Extended, Error> {
        let asked = json!({ "id": id, "by_ms": bounded(by_ms) });
        self.run(&scripts::EXTEND, Repeat::Once, &keyed(asked, &format!("extend/{id}/{key}"), &by_ms)).await
    }

    /// See [`super::super::Ledger::event`].
    pub async fn event(&self, event: &Event) -> Result<Applied, Error> {
        event.subject.check()?;
        let place = place("event", &event.subject, &event.idempotency_key);
        let asked = json!({
            "scopes": event.subject.scopes(),
            "amounts": bounded_all(&event.actuals),
            "quotas": bounded_quotas(&event.quotas),
            "opens": event.opens,
            "overage": event.overage_policy,
            "subject": text(&event.subject)?,
            "action": text(&event.action)?,
        });
        self.run(&scripts::EVENT, Repeat::Once, &keyed(asked, &place, event)).await
    }

    /// See [`super::super::Ledger::expire`].
    pub async fn expire(&self) -> Result<usize, Error> {
        self.run(&scripts::EXPIRE, Repeat::Never, &json!({})).await
    }

    /// See [`super::super::Ledger::allocate`].
    pub async fn allocate(&self, scope: &str, unit: Unit, terms: &Terms) -> Result<Balance, Error> {
        // No caps are those that ask for nothing.
        let caps = |caps: &Caps| if *caps == Caps::default() { Ok(String::new()) } else { text(caps) };
        let terms = json!({
            "allocated": terms.allocated.map(bounded),
            "overdraft_limit": terms.overdraft_limit.map(bounded),
            "caps": terms.caps.as_ref().map(caps).transpose()?,
        });
        let asked = with(json!({ "operation": "allocate", "scope": scope, "unit": unit }), terms);
        self.run(&scripts::ADMINISTER, Repeat::Never, &asked).await
    }

    /// See [`super::super::Ledger::fund`].
    pub async fn fund(&self, scope: &str, amount: Amount, key: &str) -> Result<Balance, Error> {
        let place = place("fund", &Subject::of_scope(scope).unwrap_or_default(), key);
        let asked = json!({ "operation": "fund", "scope": scope, "unit": amount.unit, "amount": bounded(amount.amount) });
        self.run(&scripts::ADMINISTER, Repeat::Once, &keyed(asked, &place, &(scope, amount))).await
    }

    /// See [`super::super::Ledger::set_status`].
    pub async fn set_status(&self, scope: &str, unit: Unit, status: Status) -> Result<Balance, Error> {
        let asked = json!({ "operation": "set_status", "scope": scope, "unit": unit, "status": status });
        self.run(&scripts::ADMINISTER, Repeat::Never, &asked).await
    }

    /// Every budget, by scope and unit, in that order.
    pub async fn balances(&self) -> Result<Vec<(String, Unit, Balance)>, Error> {
        let mut both = pipe();
        both.atomic().cmd("HGETALL").arg(self.key("balances")).cmd("HGETALL").arg(self.key("caps"));
        let both = &both;
        let answer = self.connection.ask(Repeat::Once, |mut manager| async move { both.query_async(&mut manager).await });
        let (balances, caps): (HashMap<String, String>, HashMap<String, String>) = answer.await.map_err(failed)?;
        let read_one = |(field, json): (&String, &String)| {
            let (unit, scope) = field.split_once(' ').unwrap_or_default();
            let unit = Unit::ALL.into_iter().find(|known| known.as_str() == unit);
            let unit = unit.ok_or_else(|| StoreError(format!("there is a balance of no unit, {field}")))?;
            let caps = caps.get(field).map(|caps| read(caps)).transpose()?.map(Arc::new);
            Ok((scope.to_owned(), unit, Balance { caps, ..read(json)? }))
        };
        let mut balances = balances.iter().map(read_one).collect::<Result<Vec<_>, Error>>()?;
        balances.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        Ok(balances)
    }

    /// What is in each of `budgets`, in their order; `None` for one that there is not.
    pub async fn balances_of(&self, budgets: &[(String, Unit)]) -> Result<Vec<Option<Balance>>, Error> {
        if budgets.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Vec<String> = budgets.iter().map(|(scope, unit)| format!("{} {scope}", unit.as_str())).collect();
        let mut both = pipe();
        both.atomic().cmd("HMGET").arg(self.key("balances")).arg(&fields).cmd("HMGET").arg(self.key("caps")).arg(&fields);
        let both = &both;
        let answer = self.connection.ask(Repeat::Once, |mut manager| async move { both.query_async(&mut manager).await });
        let (balances, caps): (Vec<Option<String>>, Vec<Option<String>>) = answer.await.map_err(failed)?;
        let read_one = |(balance, caps): (Option<String>, Option<String>)| {
            let Some(balance) = balance else { return Ok(None) };
            let caps = caps.map(|caps| read(&caps)).transpose()?.map(Arc::new);
            Ok(Some(Balance { caps, ..read(&balance)? }))
        };
        balances.into_iter().zip(caps).map(read_one).collect()
    }

    /// The first `limit` lines of the books from `since_ms` until before `until_ms`, the oldest first.
    pub async fn entries(&self, since_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Entry>, Error> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut from_ms = since_ms;
        loop {
            // The next page begins at the time of the last line, after those of it that are known.
            let known = entries.iter().rev().take_while(|entry| entry.at_ms == from_ms).count();
            let wanted = PAGE.min(limit - entries.len());
            let page = self.page(from_ms, until_ms, known, wanted).await?;
            let is_last = page.len() < wanted || entries.len() + page.len() >= limit;
            entries.extend(page);
            from_ms = entries.last().map_or(from_ms, |entry| entry.at_ms);
            if is_last {
                return Ok(entries);
            }
        }
    }

    async fn page(&self, from_ms: u64, until_ms: u64, skipped: usize, wanted: usize) -> Result<Vec<Entry>, Error> {
        let mut command = Cmd::new();
        command.arg("ZRANGEBYSCORE").arg(self.key("entries")).arg(from_ms).arg(format!("({until_ms}"));
        command.arg("LIMIT").arg(skipped).arg(wanted);
        let command = &command;
        let answer = self.connection.ask(Repeat::Once, |mut manager| async move { command.query_async(&mut manager).await });
        let lines: Vec<String> = answer.await.map_err(failed)?;
        // Before each line is its number.
        lines.iter().map(|line| read(line.split_once(' ').unwrap_or_default().1)).collect()
    }

    async fn run<A: DeserializeOwned>(&self, script: &Script, repeat: Repeat, asked: &Value) -> Result<A, Error> {
        let mut invocation = script.key(&self.base);
        invocation.arg(asked.to_string()).arg(clock::given_ms().map(|ms| ms.to_string()).unwrap_or_default());
        let invocation = &invocation;
        let answer = self.connection.ask(repeat, |mut manager| async move { invocation.invoke_async(&mut manager).await });
        let (word, json): (String, String) = answer.await.map_err(failed)?;
        if word == "yes" { read(&json) } else { Err(read::<Refusal>(&json)?.into()) }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }
}

/// What a request is taken from.
fn wanted(request: &Request) -> Result<Value, Error> {
    request.subject.check()?;
    Ok(json!({
        "scopes": request.subject.scopes(),
        "amounts": bounded_all(&request.estimates),
        "quotas": bounded_quotas(&request.quotas),
        "opens": request.opens,
        "overage": request.overage_policy,
    }))
}

/// `asked`, to be done once at `place`, where the hash of `whole` tells it from all else.
fn keyed(asked: Value, place: &str, whole: &impl Serialize) -> Value {
    with(asked, json!({ "place": place, "hash": hash(whole) }))
}

/// `asked` and those of `more` that are there: for a script what is null is something.
fn with(mut asked: Value, more: Value) -> Value {
    if let (Value::Object(asked), Value::Object(more)) = (&mut asked, more) {
        asked.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
    asked
}

fn bounded_all(amounts: &[Amount]) -> Vec<Amount> {
    amounts.iter().map(|amount| Amount::new(amount.unit, bounded(amount.amount))).collect()
}

fn bounded_quotas(quotas: &[Quota]) -> Vec<Quota> {
    let exact = |quota: &Quota| Quota { allocated: bounded(quota.allocated), until_ms: bounded(quota.until_ms), ..quota.clone() };
    quotas.iter().map(exact).collect()
}

/// A number that a script keeps exactly: one too large stays larger than any amount that there is.
fn bounded(number: u64) -> u64 {
    number.min(AMOUNT_MAX + 1)
}

fn text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| StoreError(error.to_string()).into())
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| StoreError(format!("the Redis holds something else: {error}")).into())
}

fn failed(failure: Failure) -> Error {
    StoreError(failure.to_string()).into()
}
