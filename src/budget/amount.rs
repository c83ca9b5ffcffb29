//! What is counted, and how much of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::cost;

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Unit {
    /// Money: 100,000,000 of them are a dollar.
    UsdMicrocents,
    /// Tokens that a model reads or writes.
    Tokens,
    /// Whatever the operator sells. toolgate's own gate takes one for each call of a model or a tool.
    Credits,
    /// How much harm could be done.
    RiskPoints,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::UsdMicrocents, Self::Tokens, Self::Credits, Self::RiskPoints];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UsdMicrocents => "USD_MICROCENTS",
            Self::Tokens => "TOKENS",
            Self::Credits => "CREDITS",
            Self::RiskPoints => "RISK_POINTS",
        }
    }

    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::UsdMicrocents => "USD",
            Self::Tokens => "tokens",
            Self::Credits => "calls",
            Self::RiskPoints => "risk",
        }
    }

    /// The unit that people call `word`.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "USD" | "usd" => Some(Self::UsdMicrocents),
            "tokens" | "token" => Some(Self::Tokens),
            "calls" | "call" => Some(Self::Credits),
            "risk" => Some(Self::RiskPoints),
            _ => None,
        }
    }

    /// The number `amount` as people read it: money in dollars, with all of its digits.
    pub fn number(self, amount: u64) -> String {
        match self {
            Self::UsdMicrocents => cost::usd(amount),
            Self::Tokens | Self::Credits | Self::RiskPoints => amount.to_string(),
        }
    }
}

/// So much of a unit, from 0 to [`AMOUNT_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Amount {
    /// What is counted.
    pub unit: Unit,
    /// How much.
    pub amount: u64,
}

/// The largest amount, 2^53 - 1: the largest that JSON and Lua keep exactly. In money it is 90 million dollars. A budget of it has no limit.
pub const AMOUNT_MAX: u64 = (1 << 53) - 1;

/// The microcents of a dollar.
pub const USD: u64 = 100_000_000;

impl Amount {
    /// So much of `unit`.
    pub fn new(unit: Unit, amount: u64) -> Self {
        Self { unit, amount }
    }

    /// The amount that `text` says: a number and what it counts, such as `5 USD`, `100000 tokens`, `20 calls` or `10 risk`; `unlimited` in
    /// the place of the number is [`AMOUNT_MAX`]. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, word) = text.trim().split_once(' ')?;
        let unit = Unit::of_word(word.trim())?;
        let amount = match (number, unit) {
            (UNLIMITED, _) => AMOUNT_MAX,
            (_, Unit::UsdMicrocents) => dollars(number)?,
            _ => number.parse().ok()?,
        };
        Self::checked(unit, amount)
    }

    /// The amount that `value` is: what [`Self::parse`] takes, `{"unit", "amount"}` with the unit's word on the wire, or where `unit` is
    /// known a number of it or `"unlimited"`. `None` for anything else, and for another unit than `unit`.
    pub fn from_json(value: &Value, unit: Option<Unit>) -> Option<Self> {
        let read = match value {
            Value::Number(number) => Self::checked(unit?, number.as_u64()?),
            Value::String(text) if text == UNLIMITED => Self::checked(unit?, AMOUNT_MAX),
            Value::String(text) => Self::parse(text),
            Value::Object(_) => serde_json::from_value(value.clone()).ok().and_then(|Self { unit, amount }| Self::checked(unit, amount)),
            _ => None,
        };
        read.filter(|read| unit.is_none_or(|unit| unit == read.unit))
    }

    fn checked(unit: Unit, amount: u64) -> Option<Self> {
        (amount <= AMOUNT_MAX).then_some(Self { unit, amount })
    }
}

/// The microcents of a number of dollars, as it is typed. `None` when it is none, or more than [`AMOUNT_MAX`].
pub fn dollars(typed: &str) -> Option<u64> {
    cost::microcents(&serde_json::from_str(typed).ok()?).filter(|amount| *amount <= AMOUNT_MAX)
}

/// What is said in the place of a number where there is no limit.
pub const UNLIMITED: &str = "unlimited";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_amount_is_read_in_either_form() {
        let check = |value: Value, unit: Option<Unit>, expected: Option<(Unit, u64)>| {
            let read = Amount::from_json(&value, unit).map(|Amount { unit, amount }| (unit, amount));
            assert_eq!(read, expected, "{value} {unit:?}");
        };
        let (money, tokens) = (Unit::UsdMicrocents, Unit::Tokens);
        check(json!("0.1 USD"), None, Some((money, USD / 10)));
        check(json!("1000 tokens"), Some(tokens), Some((tokens, 1000)));
        check(json!("1000 tokens"), Some(money), None);
        check(json!({"unit": "TOKENS", "amount": 5}), None, Some((tokens, 5)));
        check(json!(5), Some(tokens), Some((tokens, 5)));
        check(json!(5), None, None);
        check(json!("unlimited"), Some(money), Some((money, AMOUNT_MAX)));
        check(json!("unlimited calls"), None, Some((Unit::Credits, AMOUNT_MAX)));
        for wrong in [json!("5"), json!("5 EUR"), json!("-1 USD"), json!(-1), json!(1.5), json!(AMOUNT_MAX + 1), json!("99999999 USD")] {
            check(wrong, Some(money), None);
        }
    }
}
