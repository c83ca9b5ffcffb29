//! What the operator allows: prices, limits, ceilings.

use std::time::Duration;

use chrono::{DateTime, Datelike, TimeDelta, Utc};

use super::{
    Account, Amount,
    amount::AMOUNT_MAX,
    ledger::{Action, Overage, Quota},
    price::Prices,
};
use crate::{budget::access::Access, glob};

/// What the operator allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// What things cost.
    pub prices: Prices,
    /// How much of what, for whom, in which time.
    pub limits: Vec<Limit>,
    /// How much one request may use.
    pub ceilings: Ceilings,
    /// Which tools anybody may use.
    pub access: Access,
    /// What becomes of a cost that is higher than what was put aside for it.
    pub overage: Overage,
    /// Whether calls are made when the ledger cannot be asked.
    pub fails_open: bool,
}

/// How much one request may use; nothing in a field is no ceiling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Microcents.
    pub usd: Option<u64>,
    /// Tokens read and written.
    pub tokens: Option<u64>,
    /// Calls of models and tools.
    pub calls: Option<u64>,
    /// From its beginning on.
    pub deadline: Option<Duration>,
}

/// So much in such a time, counted apart from the budgets of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Who shares it.
    pub who: Who,
    /// Calls of these tools only, as `server.tool` with `*` for any characters.
    pub tool: Option<String>,
    /// What is of this kind only: `model`, `tool.read`, `tool.write`, `tool.destructive`, with `*` for any characters.
    pub kind: Option<String>,
    /// In which time.
    pub window: Window,
    /// How much.
    pub amount: Amount,
}

/// Who shares a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// All together.
    Everyone,
    /// Each API key for itself.
    EachKey,
    /// This API key.
    Key(String),
    /// Each conversation for itself.
    EachSession,
    /// All whose account is this scope or below it, in lower case.
    Scope(String),
}

/// In which time a limit counts. Windows begin with their unit of time, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// One request.
    Request,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A month.
    Month,
    /// For ever; of a conversation, as long as it is used.
    Ever,
}

/// A conversation that was not used for so long begins anew.
const SESSION_KEPT: TimeDelta = TimeDelta::days(30);

impl Limit {
    /// Whether it counts `action` of `account`.
    pub fn counts(&self, account: &Account, action: &Action) -> bool {
        let is_tool = |pattern: &String| action.kind != MODEL && glob::matches(pattern, &action.name);
        self.tool.as_ref().is_none_or(is_tool)
            && self.kind.as_ref().is_none_or(|pattern| glob::matches(pattern, &action.kind))
            && self.is_for(account)
    }

    /// Whether it counts anything of `account`.
    pub fn is_for(&self, account: &Account) -> bool {
        match &self.who {
            Who::Everyone | Who::EachKey | Who::EachSession => true,
            Who::Key(name) => *name == account.key,
            Who::Scope(path) => account.subject.scopes().contains(path),
        }
    }

    /// The budget in which it counts `action` of `account` at `now`. Limits that differ in their amount only share one.
    pub fn quota(&self, account: &Account, action: &Action, now: DateTime<Utc>) -> Quota {
        let who = match &self.who {
            Who::Everyone => "everyone".to_owned(),
            Who::EachKey => format!("key:{}", account.key),
            Who::Key(name) => format!("key:{name}"),
            Who::EachSession => format!("session:{}/{}", account.key, action.session_id),
            Who::Scope(path) => path.clone(),
        };
        let what = [&self.kind, &self.tool].into_iter().flatten().map(|pattern| format!(" {pattern}")).collect::<String>();
        let (window, until) = self.window.at(now);
        let until = if self.who == Who::EachSession && self.window == Window::Ever { Some(now + SESSION_KEPT) } else { until };
        let until_ms = until.and_then(|until| u64::try_from(until.timestamp_millis()).ok()).unwrap_or(AMOUNT_MAX);
        Quota { scope: format!("limit {who}{what}{window}"), unit: self.amount.unit, allocated: self.amount.amount, until_ms }
    }
}

impl Window {
    /// The name of the window that `now` is in, and when it ends, if it does.
    fn at(self, now: DateTime<Utc>) -> (String, Option<DateTime<Utc>>) {
        let midnight = |date: chrono::NaiveDate| date.and_time(chrono::NaiveTime::MIN).and_utc();
        let day = midnight(now.date_naive());
        match self {
            Self::Request | Self::Ever => (String::new(), None),
            Self::Minute => (now.format(" %Y-%m-%dT%H:%M").to_string(), Some(now + TimeDelta::minutes(1))),
            Self::Hour => (now.format(" %Y-%m-%dT%H").to_string(), Some(now + TimeDelta::hours(1))),
            Self::Day => (now.format(" %Y-%m-%d").to_string(), Some(day + TimeDelta::days(1))),
            Self::Month => {
                let first = now.date_naive().with_day(1).map(midnight);
                (now.format(" %Y-%m").to_string(), first.map(|first| first + TimeDelta::days(31)))
            }
        }
    }
}

/// The kind of a call of a model.
pub const MODEL: &str = "model";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Subject, Unit};

    fn limit(who: Who, window: Window) -> Limit {
        Limit { who, tool: None, kind: None, window, amount: Amount::new(Unit::Credits, 5) }
    }

    fn account() -> Account {
        let subject = Subject { tenant: Some("Acme".to_owned()), app: Some("chat".to_owned()), ..Subject::default() };
        Account { key: "alice".to_owned(), subject, ..Account::anonymous() }
    }

    fn action(kind: &str, name: &str) -> Action {
        Action { kind: kind.to_owned(), name: name.to_owned(), session_id: "s1".to_owned(), ..Action::default() }
    }

    #[test]
    fn a_limit_counts_what_it_names() {
        let check = |limit: &Limit, kind: &str, name: &str, expected: bool| {
            assert_eq!(limit.counts(&account(), &action(kind, name)), expected, "{limit:?} {kind} {name}");
        };
        let all = limit(Who::Everyone, Window::Day);
        check(&all, MODEL, "m", true);
        let tools = Limit { tool: Some("fs.*".to_owned()), ..all.clone() };
        check(&tools, "tool.read", "fs.read", true);
        check(&tools, "tool.read", "web.get", false);
        check(&tools, MODEL, "fs.read", false);
        let writes = Limit { kind: Some("tool.*e".to_owned()), ..all };
        check(&writes, "tool.write", "fs.write", true);
        check(&writes, "tool.read", "fs.read", false);
        check(&limit(Who::Key("alice".to_owned()), Window::Day), MODEL, "m", true);
        check(&limit(Who::Key("bob".to_owned()), Window::Day), MODEL, "m", false);
        check(&limit(Who::Scope("tenant:acme".to_owned()), Window::Day), MODEL, "m", true);
        check(&limit(Who::Scope("tenant:other".to_owned()), Window::Day), MODEL, "m", false);
    }

    #[test]
    fn each_window_is_a_budget_of_its_own() {
        let now = DateTime::parse_from_rfc3339("2026-11-22T13:45:59Z").unwrap().to_utc();
        let check = |limit: Limit, scope: &str, until: Option<&str>| {
            let quota = limit.quota(&account(), &action("tool.read", "fs.read"), now);
            let until = until.map(|until| DateTime::parse_from_rfc3339(until).unwrap().timestamp_millis().try_into().unwrap());
            assert_eq!((quota.scope.as_str(), quota.until_ms), (scope, until.unwrap_or(AMOUNT_MAX)));
        };
        check(limit(Who::Everyone, Window::Day), "limit everyone 2026-11-22", Some("2026-11-23T00:00:00Z"));
        check(limit(Who::EachKey, Window::Hour), "limit key:alice 2026-11-22T13", Some("2026-11-22T14:45:59Z"));
        check(limit(Who::EachKey, Window::Month), "limit key:alice 2026-11", Some("2026-12-02T00:00:00Z"));
        let writes = Limit { kind: Some("tool.*".to_owned()), ..limit(Who::Scope("tenant:acme".to_owned()), Window::Ever) };
        check(writes, "limit tenant:acme tool.*", None);
        check(limit(Who::EachSession, Window::Ever), "limit session:alice/s1", Some("2026-12-22T13:45:59Z"));
    }
}
