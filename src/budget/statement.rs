//! What is in budgets, as it is told to people and programs.

use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    Account, Policy, Store, Unit,
    amount::AMOUNT_MAX,
    ledger::{Action, Balance, Caps, Error, Quota, Status},
    policy::{Who, Window},
};
use crate::chat::cost;

/// One budget, in its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Whose it is: a path such as `tenant:acme/app:chat`, or `limit …` for one that a limit makes.
    pub scope: String,
    /// What it counts.
    pub unit: Unit,
    /// What was put in; nothing where there is no limit.
    pub allocated: Option<u64>,
    /// What was used.
    pub spent: u64,
    /// What may be used by what runs now.
    pub reserved: u64,
    /// What was used and not there.
    pub debt: u64,
    /// What is left, less than zero in debt; nothing where there is no limit.
    pub remaining: Option<i64>,
    /// How much debt may be made.
    pub overdraft_limit: u64,
    /// Whether something was used that it could not cover: nothing is let through before it is funded.
    pub is_over_limit: bool,
    /// Whether it may be used.
    pub status: Status,
    /// When it ends, if it does, as RFC 3339 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What whoever uses it is asked to keep to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<Arc<Caps>>,
    /// The sums of money, in dollars. For readers only.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Dollars>,
}

/// Sums of money: microcents here, dollars with all of their digits in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dollars {
    #[serde(serialize_with = "cost::serialize_some")]
    allocated: Option<u64>,
    #[serde(serialize_with = "cost::serialize")]
    spent: u64,
    #[serde(serialize_with = "cost::serialize")]
    reserved: u64,
    #[serde(serialize_with = "cost::serialize")]
    debt: u64,
    #[serde(serialize_with = "signed")]
    remaining: Option<i64>,
    #[serde(serialize_with = "cost::serialize")]
    overdraft_limit: u64,
}

impl Line {
    /// The budget of `scope` in `unit`, in which there is `balance`.
    pub fn new(scope: String, unit: Unit, balance: Balance) -> Self {
        let is_limited = balance.allocated < AMOUNT_MAX;
        let allocated = is_limited.then_some(balance.allocated);
        let remaining = is_limited.then(|| i64::try_from(balance.remaining()).unwrap_or(i64::MIN));
        let Balance { spent, reserved, debt, overdraft_limit, is_over_limit, status, until_ms, caps, .. } = balance;
        let until = until_ms.and_then(moment);
        Self { scope, unit, allocated, spent, reserved, debt, remaining, overdraft_limit, is_over_limit, status, until, caps, usd: None }
            .with_dollars()
    }

    /// The same with its sums of money in dollars, which are not read from JSON.
    #[must_use]
    pub fn with_dollars(self) -> Self {
        let Self { allocated, spent, reserved, debt, remaining, overdraft_limit, .. } = self;
        let dollars = Dollars { allocated, spent, reserved, debt, remaining, overdraft_limit };
        Self { usd: (self.unit == Unit::UsdMicrocents).then_some(dollars), ..self }
    }
}

/// `lines` as they are told in JSON.
pub fn json(lines: &[Line]) -> String {
    // Not by way of a `Value`, in which a sum of money would lose its digits.
    format!(r#"{{"balances":{}}}"#, serde_json::to_string(lines).unwrap_or_default())
}

/// Every budget; with `scope`, that one and those below it. Fails when the store does.
pub async fn all(store: &Store, scope: Option<&str>) -> Result<Vec<Line>, Error> {
    let is_wanted = |known: &str| match scope.map(|scope| known.strip_prefix(scope)) {
        None => true,
        Some(rest) => rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let balances = store.balances().await?;
    let wanted = balances.into_iter().filter(|(known, ..)| is_wanted(known));
    Ok(wanted.map(|(scope, unit, balance)| Line::new(scope, unit, balance)).collect())
}

/// What `account` may know of: the budgets of its scopes, and the limits that count for it as they stand now, those of the conversation
/// `session` among them. Fails when the store does.
pub async fn own(store: &Store, policy: &Policy, account: &Account, session: Option<&str>) -> Result<Vec<Line>, Error> {
    let quotas = quotas(policy, account, session);
    // Looked up one by one: there may be many budgets, most of them of conversations.
    let mut asked: Vec<(String, Unit)> =
        account.subject.scopes().into_iter().flat_map(|scope| Unit::ALL.map(|unit| (scope.clone(), unit))).collect();
    let of_account = asked.len();
    asked.extend(quotas.iter().map(|quota| (quota.scope.clone(), quota.unit)));
    let balances = store.balances_of(&asked).await?;
    let mut found = asked.into_iter().zip(balances);
    let own = found.by_ref().take(of_account);
    let mut lines: Vec<Line> = own.filter_map(|((scope, unit), balance)| Some(Line::new(scope, unit, balance?))).collect();
    for (Quota { allocated, until_ms, .. }, ((scope, unit), balance)) in quotas.into_iter().zip(found) {
        let balance = balance.unwrap_or_default();
        // The same as the ledger makes of it when it is asked next.
        let until_ms = Some(balance.until_ms.unwrap_or_default().max(until_ms)).filter(|until| *until < AMOUNT_MAX);
        lines.push(Line::new(scope, unit, Balance { allocated, until_ms, ..balance }));
    }
    Ok(lines)
}

/// The limits that count for `account` now, each budget once, with the least that one of its limits allows.
fn quotas(policy: &Policy, account: &Account, session: Option<&str>) -> Vec<Quota> {
    let now = Utc::now();
    let action = Action { session_id: session.unwrap_or_default().to_owned(), ..Action::default() };
    let mut quotas: Vec<Quota> = Vec::new();
    for limit in &policy.limits {
        // What one request may use is in no book.
        if limit.window == Window::Request || !limit.is_for(account) || (limit.who == Who::EachSession && session.is_none()) {
            continue;
        }
        let quota = limit.quota(account, &action, now);
        match quotas.iter_mut().find(|known| (&known.scope, known.unit) == (&quota.scope, quota.unit)) {
            Some(known) => known.allocated = known.allocated.min(quota.allocated),
            None => quotas.push(quota),
        }
    }
    quotas
}

fn moment(ms: u64) -> Option<String> {
    let moment = DateTime::from_timestamp_millis(i64::try_from(ms).ok()?)?;
    // What is said to end in a hundred thousand years does not end.
    (ms < AMOUNT_MAX).then(|| moment.to_rfc3339_opts(SecondsFormat::Secs, true))
}

fn signed<S: Serializer>(microcents: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    let Some(microcents) = microcents else { return to.serialize_none() };
    let sign = if *microcents < 0 { "-" } else { "" };
    let number = format!("{sign}{}", cost::usd(microcents.unsigned_abs()));
    RawValue::from_string(number).map_err(serde::ser::Error::custom)?.serialize(to)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::budget::{Amount, Subject, policy::Limit, store::memory::Memory};

    fn limit(who: Who, window: Window, amount: u64) -> Limit {
        Limit { who, tool: None, kind: None, window, amount: Amount::new(Unit::Credits, amount) }
    }

    #[test]
    fn money_is_told_in_dollars_too() {
        let balance = Balance { allocated: 100, spent: 100, debt: 250_000_000, overdraft_limit: 300_000_000, ..Balance::default() };
        let line = Line::new("tenant:a".to_owned(), Unit::UsdMicrocents, balance);
        let told = serde_json::to_string(&line).unwrap();
        assert!(told.contains(r#""remaining":-250000000"#) && told.contains(r#""remaining":-2.5,"overdraft_limit":3.0"#), "{told}");
        let read: Line = serde_json::from_str(&told).unwrap();
        assert_eq!((&read.usd, json(&[read.clone().with_dollars()])), (&None, format!("{{\"balances\":[{told}]}}")));
        let unlimited = json!(Line::new("tenant:a".to_owned(), Unit::Tokens, Balance::unlimited()));
        assert_eq!((&unlimited["allocated"], &unlimited["remaining"], unlimited.get("usd")), (&json!(null), &json!(null), None));
    }

    #[tokio::test]
    async fn an_account_is_told_of_what_is_its_own() {
        let store = Store::Memory(Memory::default());
        for scope in ["tenant:acme", "tenant:acme/app:chat", "tenant:acme/app:other", "tenant:other", "limit key:bob", "limit everyone"] {
            store.fund(scope, Amount::new(Unit::Credits, 7), scope).await.unwrap();
        }
        let limits = vec![
            limit(Who::Everyone, Window::Ever, 9),
            limit(Who::Everyone, Window::Ever, 5),
            limit(Who::EachKey, Window::Ever, 4),
            limit(Who::Key("bob".to_owned()), Window::Ever, 3),
            limit(Who::EachSession, Window::Day, 2),
            limit(Who::Scope("tenant:other".to_owned()), Window::Ever, 2),
            limit(Who::EachKey, Window::Request, 1),
        ];
        let policy = Policy { limits, ..Policy::default() };
        let account =
            Account { key: "alice".to_owned(), subject: Subject::of_scope("tenant:Acme/app:chat").unwrap(), ..Account::anonymous() };
        let told = async |session: Option<&str>| {
            let lines = own(&store, &policy, &account, session).await.unwrap();
            lines.into_iter().map(|line| (line.scope, line.allocated.unwrap())).collect::<Vec<_>>()
        };
        let expected = [("tenant:acme", 7), ("tenant:acme/app:chat", 7), ("limit everyone", 5), ("limit key:alice", 4)];
        assert_eq!(told(None).await, expected.map(|(scope, amount)| (scope.to_owned(), amount)));
        let with_session = told(Some("s1")).await;
        assert!(with_session.len() == 5 && with_session[4].0.starts_with("limit session:alice/s1 "), "{with_session:?}");
        let below = all(&store, Some("tenant:acme")).await.unwrap();
        assert_eq!(below.len(), 3);
    }
}
