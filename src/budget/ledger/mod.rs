//! The rules of the ledger, as pure functions over a book of balances and reservations.
//!
//! What a book is kept in, memory, a file or a server, is the store's business: it gives each operation a book that nobody else changes
//! meanwhile, and keeps all of the changes or none. The order of the checks is that of the Cycles reference server.

mod administration;
mod balance;
mod error;
mod operations;
mod overage;
mod request;
mod reservation;

pub use self::administration::Terms;
pub use self::balance::{Balance, Status};
pub use self::error::{Code, Error, Refusal, StoreError};
pub use self::operations::Ledger;
pub(in crate::budget) use self::operations::{EXTENSIONS_MAX, KEPT_MS, SWEEP_MAX, hash, place, reservation_id};
pub use self::overage::Overage;
pub use self::request::{Action, Applied, Caps, Committed, Entry, Event, Extended, Quota, Released, Request, Reserved};
pub use self::reservation::{Hold, Reservation, State};

use super::Unit;

/// What the ledger reads and writes in one operation. Reads see the operation's own writes.
pub trait Book {
    /// What is in the budget of `scope` in `unit`; `None` when there is no such budget.
    fn balance(&self, scope: &str, unit: Unit) -> Result<Option<Balance>, StoreError>;

    /// Puts it there.
    fn put_balance(&mut self, scope: &str, unit: Unit, balance: Balance) -> Result<(), StoreError>;

    /// Forgets it.
    fn remove_balance(&mut self, scope: &str, unit: Unit) -> Result<(), StoreError>;

    /// Budgets in which nothing is put aside and whose time was over a day before `now_ms`, at most so many: what was begun within it is
    /// settled by then.
    fn ended(&self, now_ms: u64, limit: usize) -> Result<Vec<(String, Unit)>, StoreError>;

    /// The reservation called `id`.
    fn reservation(&self, id: &str) -> Result<Option<Reservation>, StoreError>;

    /// Keeps it, in the place of one of the same id.
    fn put_reservation(&mut self, reservation: Reservation) -> Result<(), StoreError>;

    /// Writes a line into the books.
    fn put_entry(&mut self, entry: Entry) -> Result<(), StoreError>;

    /// What an operation answered that had this key.
    fn answer(&self, key: &str) -> Result<Option<Answer>, StoreError>;

    /// Keeps it, at least until `answer.until_ms`.
    fn put_answer(&mut self, key: &str, answer: Answer) -> Result<(), StoreError>;

    /// Active reservations whose time and grace are over at `now_ms`, at most so many.
    fn overdue(&self, now_ms: u64, limit: usize) -> Result<Vec<Reservation>, StoreError>;
}

/// The answer to an operation, kept so that it can be given again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Answer {
    /// A hash of what was asked.
    pub asked: String,
    /// The answer, as JSON.
    pub json: String,
    /// Until when it is kept, in milliseconds since 1970.
    pub until_ms: u64,
}
