//! What the ledger is asked for.

use serde::{Deserialize, Serialize};

use super::overage::Overage;
use crate::budget::{Amount, Subject, Unit};

/// What is put aside, and on whose account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The same for each try of the same operation, another for each other.
    pub idempotency_key: String,
    /// On whose account.
    pub subject: Subject,
    /// What is done.
    pub action: Action,
    /// How much at most, each unit once.
    pub estimates: Vec<Amount>,
    /// Budgets that it counts against beside those of the subject.
    pub quotas: Vec<Quota>,
    /// Whether a budget without a limit is made for each scope of the subject that has none, so that it is known what was used.
    pub opens: bool,
    /// How long it stands unless it is extended, in milliseconds.
    pub ttl_ms: u64,
    /// How long after that it may still be settled, in milliseconds.
    pub grace_period_ms: u64,
    /// What becomes of a higher cost.
    pub overage_policy: Overage,
}

/// What is done, and what it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// What kind of thing: `model`, or a kind of tool call such as `tool.read`.
    pub kind: String,
    /// The model, or the tool as `server.tool`.
    pub name: String,
    /// The name of the API key that asked; empty where none was needed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The request's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// The conversation's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session_id: String,
}

/// A budget that policy makes: so much, until then.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// Where it is kept. No scope of a subject begins like it.
    pub scope: String,
    /// What it counts. It takes what is estimated in this unit, nothing where nothing is.
    pub unit: Unit,
    /// How much there is. Where it was made with another amount, it has this one from now on.
    pub allocated: u64,
    /// When it may be forgotten, in milliseconds since 1970.
    pub until_ms: u64,
}

/// A cost without a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// As in [`Request`].
    pub idempotency_key: String,
    /// On whose account.
    pub subject: Subject,
    /// What was done.
    pub action: Action,
    /// What it cost, each unit once.
    pub actuals: Vec<Amount>,
    /// As in [`Request`].
    pub quotas: Vec<Quota>,
    /// As in [`Request`].
    pub opens: bool,
    /// What becomes of what is not there.
    pub overage_policy: Overage,
}

/// What was put aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The id of the reservation.
    pub reservation_id: String,
    /// How much.
    pub reserved: Vec<Amount>,
    /// The scopes that it is put aside in, each once.
    pub affected_scopes: Vec<String>,
    /// When it ends, in milliseconds since 1970.
    pub expires_at_ms: u64,
    /// What the deepest of the subject's scopes that says so asks to be kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<Caps>,
}

/// What was charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// So much, in each unit that was reserved.
    pub charged: Vec<Amount>,
    /// What was given back; units of which nothing was are left out.
    pub released: Vec<Amount>,
}

/// What was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// So much.
    pub released: Vec<Amount>,
}

/// When a reservation ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// In milliseconds since 1970.
    pub expires_at_ms: u64,
}

/// What was charged without a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// So much.
    pub charged: Vec<Amount>,
}

/// What whoever may go on is asked to keep to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    /// How many tokens a model may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How many more calls may be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps_remaining: Option<u64>,
    /// The only actions, by name, that may be done; where it is empty, all that are not denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_allowlist: Vec<String>,
    /// Actions that may not be done. Says nothing beside an allowlist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_denylist: Vec<String>,
    /// How long to wait before the action, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_ms: Option<u64>,
}

impl Caps {
    /// Whether the action called `name` may be done. Names are compared letter by letter.
    pub fn allows(&self, name: &str) -> bool {
        let is_among = |list: &[String]| list.iter().any(|known| known == name);
        if self.tool_allowlist.is_empty() { !is_among(&self.tool_denylist) } else { is_among(&self.tool_allowlist) }
    }
}

/// What was settled: a line of the books.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// On whose account.
    pub subject: Subject,
    /// What was done.
    pub action: Action,
    /// What it cost.
    pub cost: Vec<Amount>,
    /// What was charged of that: less where a budget had less.
    pub charged: Vec<Amount>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowlist_decides_alone() {
        let caps = |allowed: &[&str], denied: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Caps { tool_allowlist: list(allowed), tool_denylist: list(denied), ..Caps::default() }
        };
        assert!(caps(&[], &[]).allows("a"));
        assert!(caps(&["a"], &["a"]).allows("a") && !caps(&["a"], &[]).allows("b"));
        assert!(!caps(&[], &["a"]).allows("a") && caps(&[], &["a"]).allows("A"));
    }
}
