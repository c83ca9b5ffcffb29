//! What one operation sees: the database, what it does not have yet, and the operation's own writes on top.

use std::{
    collections::BTreeMap,
    ops::{Bound, Range},
};

use super::{
    database::Reader,
    rows::{Rows, Table, budget_key, budget_of, from_value, number, time_of, timed, to_value},
};
use crate::budget::{
    Unit,
    ledger::{Answer, Balance, Book, Entry, KEPT_MS, Reservation, State, StoreError},
};

/// Rows over rows: the first layer that has a row tells what it is, the database if none has it.
#[derive(Clone, Copy)]
pub(super) struct Layers<'a> {
    pub(super) reader: &'a Reader,
    /// The newest first.
    pub(super) rows: [&'a Rows; 2],
}

impl Layers<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let place = (table, key.to_vec());
        match self.rows.iter().find_map(|rows| rows.get(&place)) {
            Some(value) => Ok(value.clone()),
            None => self.reader.get(table, key),
        }
    }
}

/// What `read` makes of the rows whose keys are in the range, in their order and at most so many; it makes nothing of those that do not
/// count. The newest layer comes first.
pub(super) fn scan<T>(
    (reader, layers): (&Reader, &[&Rows]),
    table: Table,
    keys: &Range<Vec<u8>>,
    count_max: usize,
    mut read: impl FnMut(&[u8], &[u8]) -> Result<Option<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    let mut over = changed(layers, table, keys).into_iter().peekable();
    let mut stored = reader.range(table, keys)?;
    let mut next = stored.next().transpose()?;
    while found.len() < count_max {
        // The lower key of both; where they are the same, what was changed.
        let is_changed = match (over.peek(), &next) {
            (None, None) => break,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((changed, _)), Some((key, _))) => *changed <= &key[..],
        };
        if is_changed {
            let Some((key, value)) = over.next() else { break };
            if next.as_ref().is_some_and(|(stored, _)| stored == key) {
                next = stored.next().transpose()?;
            }
            if let Some(value) = value {
                found.extend(read(key, value)?);
            }
        } else if let Some((key, value)) = std::mem::replace(&mut next, stored.next().transpose()?) {
            found.extend(read(&key, &value)?);
        }
    }
    Ok(found)
}

/// The rows of the range as the layers have them.
fn changed<'a>(layers: &[&'a Rows], table: Table, keys: &Range<Vec<u8>>) -> BTreeMap<&'a [u8], Option<&'a [u8]>> {
    let mut changed = BTreeMap::new();
    if keys.start < keys.end {
        let bounds = (Bound::Included((table, keys.start.clone())), Bound::Excluded((table, keys.end.clone())));
        for rows in layers.iter().rev() {
            changed.extend(rows.range(bounds.clone()).map(|((_, key), value)| (&key[..], value.as_deref())));
        }
    }
    changed
}

/// One operation.
pub struct Changes<'a> {
    pub(super) below: Layers<'a>,
    pub(super) written: Rows,
    pub(super) now_ms: u64,
}

impl Changes<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.written.get(&(table, key.to_vec())) {
            Some(value) => Ok(value.clone()),
            None => self.below.get(table, key),
        }
    }

    fn put(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.written.insert((table, key), value);
    }

    fn scan<T>(
        &self,
        table: Table,
        before_ms: u64,
        count_max: usize,
        read: impl FnMut(&[u8], &[u8]) -> Result<Option<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let [newest, oldest] = self.below.rows;
        let layers = [&self.written, newest, oldest];
        scan((self.below.reader, &layers), table, &(Vec::new()..timed(before_ms, &[])), count_max, read)
    }

    /// Puts `balance` in the place of what is there, or removes that.
    fn change(&mut self, scope: &str, unit: Unit, balance: Option<&Balance>) -> Result<(), StoreError> {
        let key = budget_key(scope, unit);
        let known = self.get(Table::Balances, &key)?.map(|known| from_value::<Balance>(&known)).transpose()?;
        let (before_ms, after_ms) = (known.and_then(|known| known.until_ms), balance.and_then(|balance| balance.until_ms));
        if before_ms != after_ms {
            before_ms.into_iter().for_each(|ms| self.put(Table::Ending, timed(ms, &key), None));
            after_ms.into_iter().for_each(|ms| self.put(Table::Ending, timed(ms, &key), Some(Vec::new())));
        }
        let value = balance.map(to_value).transpose()?;
        self.put(Table::Balances, key, value);
        Ok(())
    }

    /// Notes until when what is called `name` there must be kept.
    fn keep(&mut self, until_ms: u64, table: Table, name: &str) {
        let key = timed(until_ms, &[&[table as u8], name.as_bytes()].concat());
        self.put(Table::Kept, key, Some(Vec::new()));
    }
}

impl Book for Changes<'_> {
    fn balance(&self, scope: &str, unit: Unit) -> Result<Option<Balance>, StoreError> {
        self.get(Table::Balances, &budget_key(scope, unit))?.map(|value| from_value(&value)).transpose()
    }

    fn put_balance(&mut self, scope: &str, unit: Unit, balance: Balance) -> Result<(), StoreError> {
        self.change(scope, unit, Some(&balance))
    }

    fn remove_balance(&mut self, scope: &str, unit: Unit) -> Result<(), StoreError> {
        self.change(scope, unit, None)
    }

    fn ended(&self, now_ms: u64, limit: usize) -> Result<Vec<(String, Unit)>, StoreError> {
        self.scan(Table::Ending, now_ms.saturating_sub(KEPT_MS), limit, |key, _| {
            let Some((scope, unit)) = time_of(key).and_then(|(_, budget)| budget_of(budget)) else { return Ok(None) };
            let is_idle = self.balance(&scope, unit)?.is_some_and(|balance| balance.reserved == 0);
            Ok(is_idle.then_some((scope, unit)))
        })
    }

    fn reservation(&self, id: &str) -> Result<Option<Reservation>, StoreError> {
        self.get(Table::Reservations, id.as_bytes())?.map(|value| from_value(&value)).transpose()
    }

    fn put_reservation(&mut self, reservation: Reservation) -> Result<(), StoreError> {
        let id = reservation.id.as_str();
        if let Some(known) = self.reservation(id)? {
            self.put(Table::Due, timed(known.settle_by_ms(), id.as_bytes()), None);
        }
        if reservation.state == State::Active {
            self.put(Table::Due, timed(reservation.settle_by_ms(), id.as_bytes()), Some(Vec::new()));
        } else {
            self.keep(self.now_ms.saturating_add(KEPT_MS), Table::Reservations, id);
        }
        let value = to_value(&reservation)?;
        self.put(Table::Reservations, reservation.id.into_bytes(), Some(value));
        Ok(())
    }

    fn put_entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        const COUNT: &[u8] = b"entries";
        let count = number(self.get(Table::Numbers, COUNT)?.as_deref()).saturating_add(1);
        self.put(Table::Numbers, COUNT.to_vec(), Some(count.to_be_bytes().to_vec()));
        let value = to_value(&entry)?;
        self.put(Table::Entries, timed(entry.at_ms, &count.to_be_bytes()), Some(value));
        Ok(())
    }

    fn answer(&self, key: &str) -> Result<Option<Answer>, StoreError> {
        self.get(Table::Answers, key.as_bytes())?.map(|value| from_value(&value)).transpose()
    }

    fn put_answer(&mut self, key: &str, answer: Answer) -> Result<(), StoreError> {
        self.keep(answer.until_ms, Table::Answers, key);
        let value = to_value(&answer)?;
        self.put(Table::Answers, key.as_bytes().to_vec(), Some(value));
        Ok(())
    }

    fn overdue(&self, now_ms: u64, limit: usize) -> Result<Vec<Reservation>, StoreError> {
        self.scan(Table::Due, now_ms, limit, |key, _| {
            let id = time_of(key).and_then(|(_, id)| str::from_utf8(id).ok());
            id.map_or(Ok(None), |id| self.reservation(id))
        })
    }
}
