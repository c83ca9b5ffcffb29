//! A ledger that ends with the process.

#[cfg(test)]
use std::sync::atomic::{AtomicBool, Ordering};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::budget::{
    Unit,
    ledger::{Answer, Balance, Book, Entry, Error, KEPT_MS, Ledger, Reservation, State, StoreError},
};

/// The ledger of one process.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Box<Pages>>, #[cfg(test)] AtomicBool);

#[derive(Debug, Default)]
struct Pages {
    balances: HashMap<(String, Unit), Balance>,
    /// Budgets that end, by when.
    ending: BTreeSet<(u64, String, Unit)>,
    reservations: HashMap<String, Reservation>,
    /// Active reservations by when they must be settled.
    due: BTreeSet<(u64, String)>,
    answers: HashMap<String, Answer>,
    /// Answers and settled reservations, by when they may be forgotten.
    forgotten: BTreeSet<(u64, Kept)>,
    entries: VecDeque<Entry>,
}

/// What is kept for a while.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kept {
    Answer(String),
    Reservation(String),
}

/// More answers and settled reservations are not kept, whatever their time: some 100 MB.
const KEPT_MAX: usize = 200_000;
/// More lines of the books are not kept.
const ENTRIES_MAX: usize = 100_000;

impl Memory {
    /// Does one operation at `now_ms`. An operation that fails leaves no trace: the ledger writes only once it has said yes.
    pub fn with<T>(&self, now_ms: u64, operation: impl FnOnce(Ledger<'_, Changes<'_>>) -> Result<T, Error>) -> Result<T, Error> {
        #[cfg(test)]
        if self.1.load(Ordering::Relaxed) {
            return Err(StoreError("it is gone".to_owned()).into());
        }
        // Whole after any panic: what an operation writes is taken over at its end.
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.forget(now_ms);
        let mut changes = Changes { pages: &pages, written: Written::default() };
        let outcome = operation(Ledger { book: &mut changes, now_ms })?;
        let written = changes.written;
        pages.take_over(written, now_ms);
        Ok(outcome)
    }

    /// Whether it is as if it could not be read or written.
    #[cfg(test)]
    pub(in crate::budget) fn set_gone(&self, is_gone: bool) {
        self.1.store(is_gone, Ordering::Relaxed);
    }

    /// Every budget, by scope and unit.
    pub fn balances(&self) -> Vec<(String, Unit, Balance)> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut balances: Vec<_> = pages.balances.iter().map(|((scope, unit), balance)| (scope.clone(), *unit, balance.clone())).collect();
        balances.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        balances
    }

    /// What is in one budget, if there is such a one.
    pub fn balance(&self, scope: &str, unit: Unit) -> Option<Balance> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).balances.get(&(scope.to_owned(), unit)).cloned()
    }

    /// The first `limit` lines of the books from `since_ms` until before `until_ms`, the oldest first.
    pub fn entries(&self, since_ms: u64, until_ms: u64, limit: usize) -> Vec<Entry> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.entries.iter().filter(|entry| (since_ms..until_ms).contains(&entry.at_ms)).take(limit).cloned().collect()
    }
}

/// What one operation sees: the pages, with its own writes on top.
#[derive(Debug)]
pub struct Changes<'a> {
    pages: &'a Pages,
    written: Written,
}

#[derive(Debug, Default)]
struct Written {
    /// `None` for one that is removed.
    balances: HashMap<(String, Unit), Option<Balance>>,
    reservations: HashMap<String, Reservation>,
    answers: HashMap<String, Answer>,
    entries: Vec<Entry>,
}

impl Book for Changes<'_> {
    fn balance(&self, scope: &str, unit: Unit) -> Result<Option<Balance>, StoreError> {
        let key = (scope.to_owned(), unit);
        Ok(self.written.balances.get(&key).cloned().unwrap_or_else(|| self.pages.balances.get(&key).cloned()))
    }

    fn put_balance(&mut self, scope: &str, unit: Unit, balance: Balance) -> Result<(), StoreError> {
        self.written.balances.insert((scope.to_owned(), unit), Some(balance));
        Ok(())
    }

    fn remove_balance(&mut self, scope: &str, unit: Unit) -> Result<(), StoreError> {
        self.written.balances.insert((scope.to_owned(), unit), None);
        Ok(())
    }

    fn ended(&self, now_ms: u64, limit: usize) -> Result<Vec<(String, Unit)>, StoreError> {
        let over = self.pages.ending.iter().take_while(|(until, ..)| until.saturating_add(KEPT_MS) < now_ms);
        let is_idle = |(scope, unit): &(String, Unit)| {
            self.balance(scope, *unit).is_ok_and(|known| known.is_some_and(|balance| balance.reserved == 0))
        };
        Ok(over.map(|(_, scope, unit)| (scope.clone(), *unit)).filter(is_idle).take(limit).collect())
    }

    fn reservation(&self, id: &str) -> Result<Option<Reservation>, StoreError> {
        Ok(self.written.reservations.get(id).or_else(|| self.pages.reservations.get(id)).cloned())
    }

    fn put_reservation(&mut self, reservation: Reservation) -> Result<(), StoreError> {
        self.written.reservations.insert(reservation.id.clone(), reservation);
        Ok(())
    }

    fn put_entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.written.entries.push(entry);
        Ok(())
    }

    fn answer(&self, key: &str) -> Result<Option<Answer>, StoreError> {
        Ok(self.written.answers.get(key).or_else(|| self.pages.answers.get(key)).cloned())
    }

    fn put_answer(&mut self, key: &str, answer: Answer) -> Result<(), StoreError> {
        self.written.answers.insert(key.to_owned(), answer);
        Ok(())
    }

    fn overdue(&self, now_ms: u64, limit: usize) -> Result<Vec<Reservation>, StoreError> {
        let due = self.pages.due.iter().take_while(|(by, _)| *by < now_ms).take(limit);
        Ok(due.filter_map(|(_, id)| self.pages.reservations.get(id).cloned()).collect())
    }
}

impl Pages {
    fn take_over(&mut self, written: Written, now_ms: u64) {
        for ((scope, unit), balance) in written.balances {
            let key = (scope.clone(), unit);
            if let Some(until) = self.balances.get(&key).and_then(|known| known.until_ms) {
                self.ending.remove(&(until, scope.clone(), unit));
            }
            let Some(balance) = balance else {
                self.balances.remove(&key);
                continue;
            };
            if let Some(until) = balance.until_ms {
                self.ending.insert((until, scope, unit));
            }
            self.balances.insert(key, balance);
        }
        for (id, reservation) in written.reservations {
            if let Some(known) = self.reservations.get(&id) {
                self.due.remove(&(known.settle_by_ms(), id.clone()));
            }
            if reservation.state == State::Active {
                self.due.insert((reservation.settle_by_ms(), id.clone()));
            } else {
                self.forgotten.insert((now_ms.saturating_add(KEPT_MS), Kept::Reservation(id.clone())));
            }
            self.reservations.insert(id, reservation);
        }
        for (key, answer) in written.answers {
            self.forgotten.insert((answer.until_ms, Kept::Answer(key.clone())));
            self.answers.insert(key, answer);
        }
        self.entries.extend(written.entries);
        while self.entries.len() > ENTRIES_MAX {
            self.entries.pop_front();
        }
    }

    /// Forgets the answers and reservations whose time is over.
    fn forget(&mut self, now_ms: u64) {
        while let Some((until, _)) = self.forgotten.first()
            && (*until < now_ms || self.forgotten.len() > KEPT_MAX)
            && let Some((until, kept)) = self.forgotten.pop_first()
        {
            match kept {
                Kept::Answer(key) if self.answers.get(&key).is_some_and(|answer| answer.until_ms == until) => {
                    self.answers.remove(&key);
                }
                Kept::Reservation(id) if self.reservations.get(&id).is_some_and(|known| known.state != State::Active) => {
                    self.reservations.remove(&id);
                }
                Kept::Answer(_) | Kept::Reservation(_) => {}
            }
        }
    }
}
