//! What was put aside for one call.

use serde::{Deserialize, Serialize};

use super::{overage::Overage, request::Action};
use crate::budget::{Amount, Subject};

/// A reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its id.
    pub id: String,
    /// On whose account.
    pub subject: Subject,
    /// What is done.
    pub action: Action,
    /// How much was put aside, unit by unit.
    pub holds: Vec<Hold>,
    /// What becomes of a higher cost.
    pub overage: Overage,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: u64,
    /// How long after its end it may still be settled.
    pub grace_ms: u64,
    /// How often it was extended.
    pub extensions: u32,
    /// What became of it.
    pub state: State,
}

/// What was put aside in one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// How much, in each of the scopes.
    pub estimate: Amount,
    /// The scopes that had a budget when it was made. Those made later are not touched by it.
    pub scopes: Vec<String>,
}

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    /// It stands.
    Active,
    /// The cost was charged.
    Committed,
    /// It was given back.
    Released,
    /// Its time was over, and it was given back.
    Expired,
}

impl Reservation {
    /// Until when it may be settled.
    pub fn settle_by_ms(&self) -> u64 {
        self.expires_ms.saturating_add(self.grace_ms)
    }
}
