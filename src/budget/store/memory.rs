//! A ledger that ends with the process.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use crate::budget::{
    Unit,
    ledger::{Answer, Balance, Book, Error, Ledger, Reservation, State, StoreError},
};

/// The ledger of one process.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    balances: HashMap<(String, Unit), Balance>,
    reservations: HashMap<String, Reservation>,
    /// Active reservations by when they must be settled.
    due: BTreeSet<(u64, String)>,
    answers: HashMap<String, Answer>,
    /// Answers by when they may be forgotten.
    forgotten: BTreeSet<(u64, String)>,
}

impl Memory {
    /// Does one operation at `now_ms`. An operation that fails leaves no trace: the ledger writes only once it has said yes.
    pub fn with<T>(&self, now_ms: u64, operation: impl FnOnce(Ledger<'_, Changes<'_>>) -> Result<T, Error>) -> Result<T, Error> {
        // Whole after any panic: what an operation writes is taken over at its end.
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.forget(now_ms);
        let mut changes = Changes { pages: &pages, written: Written::default() };
        let outcome = operation(Ledger { book: &mut changes, now_ms })?;
        let written = changes.written;
        pages.take_over(written);
        Ok(outcome)
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
    balances: HashMap<(String, Unit), Balance>,
    reservations: HashMap<String, Reservation>,
    answers: HashMap<String, Answer>,
}

impl Book for Changes<'_> {
    fn balance(&self, scope: &str, unit: Unit) -> Result<Option<Balance>, StoreError> {
        let key = (scope.to_owned(), unit);
        Ok(self.written.balances.get(&key).or_else(|| self.pages.balances.get(&key)).copied())
    }

    fn put_balance(&mut self, scope: &str, unit: Unit, balance: Balance) -> Result<(), StoreError> {
        self.written.balances.insert((scope.to_owned(), unit), balance);
        Ok(())
    }

    fn reservation(&self, id: &str) -> Result<Option<Reservation>, StoreError> {
        Ok(self.written.reservations.get(id).or_else(|| self.pages.reservations.get(id)).cloned())
    }

    fn put_reservation(&mut self, reservation: Reservation) -> Result<(), StoreError> {
        self.written.reservations.insert(reservation.id.clone(), reservation);
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
    fn take_over(&mut self, written: Written) {
        self.balances.extend(written.balances);
        for (id, reservation) in written.reservations {
            if let Some(known) = self.reservations.get(&id) {
                self.due.remove(&(known.settle_by_ms(), id.clone()));
            }
            if reservation.state == State::Active {
                self.due.insert((reservation.settle_by_ms(), id.clone()));
            }
            self.reservations.insert(id, reservation);
        }
        for (key, answer) in written.answers {
            self.forgotten.insert((answer.until_ms, key.clone()));
            self.answers.insert(key, answer);
        }
    }

    /// Forgets the answers whose time is over.
    fn forget(&mut self, now_ms: u64) {
        while let Some((until, key)) = self.forgotten.first().filter(|(until, _)| *until < now_ms).cloned() {
            self.forgotten.remove(&(until, key.clone()));
            if self.answers.get(&key).is_some_and(|answer| answer.until_ms == until) {
                self.answers.remove(&key);
            }
        }
    }
}
