//! What an operator asks to have done to budgets: read from JSON, written as JSON, and done.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    Amount, Store, Subject, Unit,
    ledger::{Caps, Code, Error, Refusal, Status, Terms},
    statement::{self, Line},
};

/// What is done to a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is made as the terms say.
    Allocate {
        /// Whose it is.
        scope: String,
        /// What it counts.
        unit: Unit,
        /// What it is to be like.
        terms: Terms,
    },
    /// Something is put into it.
    Fund {
        /// Whose it is.
        scope: String,
        /// How much.
        amount: Amount,
        /// The same for each try of the same payment, another for each other.
        key: String,
    },
    /// It is frozen, unfrozen or closed.
    Status {
        /// Whose it is.
        scope: String,
        /// What it counts; all that there are of the scope where it is absent.
        unit: Option<Unit>,
        /// What becomes of it.
        status: Status,
    },
}

/// A request that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Wrong {
    /// The field at fault, where one is.
    pub param: Option<&'static str>,
    /// What was expected.
    pub message: String,
}

/// The words that a change goes by, in paths and on the command line.
pub const OPERATIONS: [&str; 5] = ["allocate", "fund", "freeze", "unfreeze", "close"];

/// How the scope of a limit begins.
const LIMIT: &str = "limit ";
/// The longest key of a payment.
const KEY_CHARS_MAX: usize = 256;
/// What there is in [`Caps`]; what is written wrong would allow what it was to forbid.
const CAPS: [&str; 5] = ["max_tokens", "max_steps_remaining", "tool_allowlist", "tool_denylist", "cooldown_ms"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allocation {
    scope: String,
    unit: Option<String>,
    allocated: Option<Value>,
    overdraft_limit: Option<Value>,
    caps: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Funding {
    scope: String,
    unit: Option<String>,
    amount: Value,
    idempotency_key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switching {
    scope: String,
    unit: Option<String>,
}

impl Change {
    /// The change that `operation`, one of [`OPERATIONS`], makes of the JSON `body`. Fails for anything else.
    pub fn read(operation: &str, body: &[u8]) -> Result<Self, Wrong> {
        let status = match operation {
            "allocate" => return allocation(parse(body)?),
            "fund" => return funding(parse(body)?),
            "freeze" => Status::Frozen,
            "unfreeze" => Status::Active,
            "close" => Status::Closed,
            other => return Err(Wrong { param: None, message: format!("Nothing is done to budgets that is called `{other}`.") }),
        };
        let Switching { scope, unit } = parse(body)?;
        Ok(Self::Status { scope: read_scope(&scope)?, unit: read_unit(unit.as_deref())?, status })
    }

    /// The operation and the body from which [`Self::read`] reads it.
    pub fn written(&self) -> (&'static str, Value) {
        match self {
            Self::Allocate { scope, unit, terms } => {
                let place = Map::from_iter([("scope".to_owned(), json!(scope)), ("unit".to_owned(), json!(unit))]);
                let mut body = json!(terms);
                if let Some(fields) = body.as_object_mut() {
                    fields.extend(place);
                }
                ("allocate", body)
            }
            Self::Fund { scope, amount, key } => ("fund", json!({"scope": scope, "amount": amount, "idempotency_key": key})),
            Self::Status { scope, unit, status } => {
                let operation = match status {
                    Status::Active => "unfreeze",
                    Status::Frozen => "freeze",
                    Status::Closed => "close",
                };
                (operation, json!({"scope": scope, "unit": unit}))
            }
        }
    }

    /// Makes it in `store`. Returns the budgets that it was about, as they are then. Fails when the ledger refuses it or cannot be asked; of
    /// several budgets some may have been changed then, and it can be asked for again.
    pub async fn make(&self, store: &Store) -> Result<Vec<Line>, Error> {
        match self {
            Self::Allocate { scope, unit, terms } => {
                check_limit(store, scope, *unit).await?;
                let balance = store.allocate(scope, *unit, terms).await?;
                Ok(vec![Line::new(scope.clone(), *unit, balance)])
            }
            Self::Fund { scope, amount, key } => {
                check_limit(store, scope, amount.unit).await?;
                let balance = store.fund(scope, *amount, key).await?;
                Ok(vec![Line::new(scope.clone(), amount.unit, balance)])
            }
            Self::Status { scope, unit: Some(unit), status } => {
                let balance = store.set_status(scope, *unit, *status).await?;
                Ok(vec![Line::new(scope.clone(), *unit, balance)])
            }
            Self::Status { scope, unit: None, status } => switch_all(store, scope, *status).await,
        }
    }
}

async fn switch_all(store: &Store, scope: &str, status: Status) -> Result<Vec<Line>, Error> {
    let mut known = statement::all(store, Some(scope)).await?;
    known.retain(|line| line.scope == scope);
    // What is closed stays so, and is no reason to leave the rest as it is.
    let is_switched = |line: &&Line| line.status != Status::Closed || status == Status::Closed;
    let units: Vec<Unit> = known.iter().filter(is_switched).map(|line| line.unit).collect();
    if units.is_empty() {
        return Err(match known.first() {
            Some(line) => Refusal::at(scope, line.unit, Code::BudgetClosed).into(),
            None => Refusal::new(Code::NotFound, format!("There is no budget of {scope}.")).into(),
        });
    }
    let mut lines = Vec::with_capacity(units.len());
    for unit in units {
        lines.push(Line::new(scope.to_owned(), unit, store.set_status(scope, unit, status).await?));
    }
    Ok(lines)
}

/// Fails for the scope of a limit that is in no book: one made by hand would be nobody's.
async fn check_limit(store: &Store, scope: &str, unit: Unit) -> Result<(), Error> {
    if !scope.starts_with(LIMIT) || store.balances_of(&[(scope.to_owned(), unit)]).await? != [None] {
        return Ok(());
    }
    Err(Refusal::new(Code::NotFound, format!("There is no budget of {scope} in {}.", unit.as_str())).into())
}

/// The scope that `typed` says: a path such as `tenant:acme/app:chat`, in lower case, or that of a limit as it is told.
pub fn read_scope(typed: &str) -> Result<String, Wrong> {
    if typed.starts_with(LIMIT) {
        return Ok(typed.to_owned());
    }
    let expected = "must be levels from the top, some of tenant, workspace, app, workflow, agent and toolset, such as tenant:acme/app:chat, \
                    or the name of a limit as `GET /budget` tells it";
    let scope = Subject::of_scope(typed).and_then(|subject| subject.scopes().pop());
    scope.ok_or_else(|| wrong("scope", &format!("`{typed}` {expected}")))
}

fn allocation(asked: Allocation) -> Result<Change, Wrong> {
    let mut unit = read_unit(asked.unit.as_deref())?;
    let mut amount = |param: &'static str, value: Option<Value>| -> Result<Option<u64>, Wrong> {
        let Some(value) = value else { return Ok(None) };
        let read = read_amount(param, &value, unit)?;
        unit = Some(read.unit);
        Ok(Some(read.amount))
    };
    let (allocated, overdraft_limit) = (amount("allocated", asked.allocated)?, amount("overdraft_limit", asked.overdraft_limit)?);
    let caps = asked.caps.map(caps).transpose()?;
    let unit = unit.ok_or_else(|| wrong("unit", EXPECTED_UNIT))?;
    Ok(Change::Allocate { scope: read_scope(&asked.scope)?, unit, terms: Terms { allocated, overdraft_limit, caps } })
}

fn funding(asked: Funding) -> Result<Change, Wrong> {
    let key = asked.idempotency_key;
    if !(1..=KEY_CHARS_MAX).contains(&key.chars().count()) {
        return Err(wrong("idempotency_key", &format!("must have 1 to {KEY_CHARS_MAX} characters")));
    }
    let amount = read_amount("amount", &asked.amount, read_unit(asked.unit.as_deref())?)?;
    Ok(Change::Fund { scope: read_scope(&asked.scope)?, amount, key })
}

fn caps(typed: Map<String, Value>) -> Result<Caps, Wrong> {
    if let Some(unknown) = typed.keys().find(|name| !CAPS.contains(&name.as_str())) {
        return Err(wrong("caps", &format!("has nothing that is called `{unknown}`, only {}", CAPS.join(", "))));
    }
    serde_json::from_value(Value::Object(typed)).map_err(|error| wrong("caps", &format!("cannot be read: {error}")))
}

const EXPECTED_UNIT: &str = "must be USD_MICROCENTS, TOKENS, CREDITS or RISK_POINTS";

fn read_unit(typed: Option<&str>) -> Result<Option<Unit>, Wrong> {
    let Some(typed) = typed else { return Ok(None) };
    let known = Unit::ALL.into_iter().find(|unit| unit.as_str() == typed);
    known.map(Some).ok_or_else(|| wrong("unit", EXPECTED_UNIT))
}

fn read_amount(param: &'static str, value: &Value, unit: Option<Unit>) -> Result<Amount, Wrong> {
    let expected = "must be a number and what it counts such as \"5 USD\" or \"1000 tokens\", {\"unit\", \"amount\"}, or with `unit` a whole \
                    number of it, below 2^53";
    Amount::from_json(value, unit).ok_or_else(|| wrong(param, expected))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Wrong> {
    serde_json::from_slice(body).map_err(|error| Wrong { param: None, message: format!("The request cannot be read: {error}.") })
}

fn wrong(param: &'static str, expected: &str) -> Wrong {
    Wrong { param: Some(param), message: format!("{param} {expected}.") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::store::memory::Memory;

    fn read(operation: &str, body: Value) -> Result<Change, Option<&'static str>> {
        Change::read(operation, body.to_string().as_bytes()).map_err(|wrong| wrong.param)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let scope = || "tenant:acme".to_owned();
        let caps = Caps { max_tokens: Some(5), ..Caps::default() };
        let terms = Terms { allocated: Some(5), overdraft_limit: None, caps: Some(caps) };
        for change in [
            Change::Allocate { scope: scope(), unit: Unit::Tokens, terms },
            Change::Fund { scope: scope(), amount: Amount::new(Unit::UsdMicrocents, 7), key: "k".to_owned() },
            Change::Status { scope: scope(), unit: None, status: Status::Frozen },
            Change::Status { scope: "limit everyone 2026-11-22".to_owned(), unit: Some(Unit::Credits), status: Status::Closed },
        ] {
            let (operation, body) = change.written();
            assert!(OPERATIONS.contains(&operation));
            assert_eq!(read(operation, body), Ok(change));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |operation: &str, body: Value, param: Option<&'static str>| {
            assert_eq!(read(operation, body.clone()), Err(param), "{body}");
        };
        check("allocate", json!({"scope": "acme", "allocated": "5 USD"}), Some("scope"));
        check("allocate", json!({"scope": "tenant:a"}), Some("unit"));
        check("allocate", json!({"scope": "tenant:a", "unit": "EUR", "allocated": 5}), Some("unit"));
        check("allocate", json!({"scope": "tenant:a", "allocated": 5}), Some("allocated"));
        check("allocate", json!({"scope": "tenant:a", "allocated": "5 USD", "overdraft_limit": "1 tokens"}), Some("overdraft_limit"));
        check("allocate", json!({"scope": "tenant:a", "unit": "TOKENS", "allocated": 9_007_199_254_740_992_u64}), Some("allocated"));
        check("allocate", json!({"scope": "tenant:a", "allocated": "5 USD", "caps": {"tool_deny_list": ["x"]}}), Some("caps"));
        check("allocate", json!({"scope": "tenant:a", "alocated": "5 USD"}), None);
        check("fund", json!({"scope": "tenant:a", "amount": "5 USD"}), None);
        check("fund", json!({"scope": "tenant:a", "amount": "5 USD", "idempotency_key": ""}), Some("idempotency_key"));
        check("fund", json!({"scope": "tenant:a", "amount": "much", "idempotency_key": "k"}), Some("amount"));
        check("freeze", json!({"scope": "tenant:a", "unit": "tokens"}), Some("unit"));
    }

    #[tokio::test]
    async fn a_scope_is_switched_as_a_whole() {
        let store = Store::Memory(Memory::default());
        let fund = async |scope: &str, unit: Unit| {
            let change = Change::Fund { scope: scope.to_owned(), amount: Amount::new(unit, 5), key: format!("{scope}{unit:?}") };
            change.make(&store).await
        };
        for unit in [Unit::Tokens, Unit::Credits] {
            fund("tenant:a", unit).await.unwrap();
        }
        fund("tenant:a/app:b", Unit::Tokens).await.unwrap();
        let switch = async |unit: Option<Unit>, status: Status| {
            let lines = Change::Status { scope: "tenant:a".to_owned(), unit, status }.make(&store).await;
            lines.map(|lines| lines.iter().map(|line| (line.unit, line.status)).collect::<Vec<_>>())
        };
        let both = |status| Ok(vec![(Unit::Tokens, status), (Unit::Credits, status)]);
        assert_eq!(switch(None, Status::Frozen).await, both(Status::Frozen));
        assert_eq!(switch(Some(Unit::Credits), Status::Closed).await, Ok(vec![(Unit::Credits, Status::Closed)]));
        assert_eq!(switch(None, Status::Active).await, Ok(vec![(Unit::Tokens, Status::Active)]));
        assert_eq!(switch(None, Status::Closed).await, both(Status::Closed));
        let code = |refused: Error| match refused {
            Error::Refused(refusal) => refusal.code,
            Error::Store(error) => panic!("{error}"),
        };
        assert_eq!(switch(None, Status::Active).await.map_err(code), Err(Code::BudgetClosed));
        assert_eq!(fund("limit everyone", Unit::Tokens).await.map_err(code).map(drop), Err(Code::NotFound));
        let nobody = Change::Status { scope: "tenant:x".to_owned(), unit: None, status: Status::Frozen };
        assert_eq!(nobody.make(&store).await.map_err(code).map(drop), Err(Code::NotFound));
        assert_eq!(statement::all(&store, Some("tenant:a/app:b")).await.unwrap()[0].status, Status::Active);
    }
}
