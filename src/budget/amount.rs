//! What is counted, and how much of it.

use serde::{Deserialize, Serialize};

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
}
