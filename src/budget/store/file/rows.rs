//! What the ledger keeps, as rows: a key and a value in one of a few tables. The database, the journal and what is not yet in the database
//! all hold the same rows.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};

use crate::budget::{Unit, ledger::StoreError};

/// The tables. The numbers are those of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Table {
    /// Scope and unit: a balance.
    Balances = 0,
    /// End, scope and unit of each budget that ends: nothing.
    Ending = 1,
    /// Id: a reservation.
    Reservations = 2,
    /// When it must be settled and id of each active reservation: nothing.
    Due = 3,
    /// Place: an answer.
    Answers = 4,
    /// When it may be forgotten, and the key of the answer or of the settled reservation: nothing.
    Kept = 5,
    /// When and which: a line of the books.
    Entries = 6,
    /// Name: a number.
    Numbers = 7,
}

impl Table {
    pub(super) const ALL: [Self; 8] =
        [Self::Balances, Self::Ending, Self::Reservations, Self::Due, Self::Answers, Self::Kept, Self::Entries, Self::Numbers];

    /// Its name in the database.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Balances => "balances",
            Self::Ending => "ending",
            Self::Reservations => "reservations",
            Self::Due => "due",
            Self::Answers => "answers",
            Self::Kept => "kept",
            Self::Entries => "entries",
            Self::Numbers => "numbers",
        }
    }
}

/// Rows by table and key; `None` for one that is removed.
pub(super) type Rows = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// The key of a budget. Scopes have no characters as low as a unit, so that the keys are in the order of scope and unit.
pub(super) fn budget_key(scope: &str, unit: Unit) -> Vec<u8> {
    let unit = Unit::ALL.iter().position(|known| *known == unit).and_then(|at| u8::try_from(at).ok()).unwrap_or_default();
    [scope.as_bytes(), &[unit]].concat()
}

/// The scope and the unit of a budget's key.
pub(super) fn budget_of(key: &[u8]) -> Option<(String, Unit)> {
    let (unit, scope) = key.split_last()?;
    Some((String::from_utf8(scope.to_vec()).ok()?, *Unit::ALL.get(usize::from(*unit))?))
}

/// A key that is in the order of time.
pub(super) fn timed(ms: u64, rest: &[u8]) -> Vec<u8> {
    [&ms.to_be_bytes(), rest].concat()
}

/// The time and the rest of such a key.
pub(super) fn time_of(key: &[u8]) -> Option<(u64, &[u8])> {
    let (ms, rest) = key.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*ms), rest))
}

pub(super) fn to_value(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError(format!("a row cannot be written: {error}")))
}

pub(super) fn from_value<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError(format!("a row cannot be read: {error}")))
}

/// A number in [`Table::Numbers`].
pub(super) fn number(bytes: Option<&[u8]>) -> u64 {
    bytes.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?))).unwrap_or_default()
}

/// Appends the rows to `bytes`: of each the table, then the key and the value, both after their length.
pub(super) fn encode(rows: &Rows, bytes: &mut Vec<u8>) {
    for ((table, key), value) in rows {
        bytes.push(*table as u8);
        encode_part(Some(key), bytes);
        encode_part(value.as_deref(), bytes);
    }
}

/// The length of what is not there.
const NONE: u32 = u32::MAX;

fn encode_part(part: Option<&[u8]>, bytes: &mut Vec<u8>) {
    let length = part.and_then(|part| u32::try_from(part.len()).ok()).unwrap_or(NONE);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(part.unwrap_or_default());
}

/// Reads them back; `None` for what was never encoded.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Rows> {
    let mut rows = Rows::new();
    while let Some((table, rest)) = bytes.split_first() {
        let table = *Table::ALL.get(usize::from(*table))?;
        let (key, rest) = decode_part(rest)?;
        let (value, rest) = decode_part(rest)?;
        rows.insert((table, key?.to_vec()), value.map(<[u8]>::to_vec));
        bytes = rest;
    }
    Some(rows)
}

/// A part, if it is there, and what comes after it.
fn decode_part(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    match u32::from_le_bytes(*length) {
        NONE => Some((None, rest)),
        length => {
            let (part, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(part), rest))
        }
    }
}
