//! Where the ledger is kept. Each place keeps all of an operation or none of it, and does one at a time.

mod clock;
pub mod file;
pub mod memory;
pub mod redis;

#[cfg(test)]
mod tests;

pub(in crate::budget) use self::clock::now_ms;
use self::{
    file::{File, Reading},
    memory::Memory,
    redis::Redis,
};
use super::{
    Amount, Unit,
    ledger::{Applied, Balance, Caps, Committed, Entry, Error, Event, Extended, Released, Request, Reserved, Status, Terms},
};

/// A ledger, wherever it is kept. All of its operations fail when the place fails, with nothing changed as far as is known.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(Memory),
    /// In a file of this process.
    File(File),
    /// In a Redis, for several processes.
    Redis(Box<Redis>),
}

/// Does the operation in whichever place it is.
macro_rules! place {
    ($store:expr, $operation:ident($($argument:expr),*)) => {
        match $store {
            Store::Memory(memory) => memory.with(now_ms(), |mut ledger| ledger.$operation($($argument),*)),
            Store::File(file) => file.with(now_ms(), |mut ledger| ledger.$operation($($argument),*)),
            Store::Redis(redis) => redis.$operation($($argument),*).await,
        }
    };
}

impl Store {
    /// Whether its operations are done at once, without waiting for others.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Memory(_) | Self::File(_) => true,
            Self::Redis(_) => false,
        }
    }

    /// Whether it did not answer a moment ago: an operation now fails, and is not asked for.
    pub fn is_left_alone(&self) -> bool {
        match self {
            Self::Memory(_) | Self::File(_) => false,
            Self::Redis(redis) => redis.is_left_alone(),
        }
    }

    /// See [`super::Ledger::reserve`].
    pub async fn reserve(&self, request: &Request) -> Result<Reserved, Error> {
        place!(self, reserve(request))
    }

    /// See [`super::Ledger::decide`].
    pub async fn decide(&self, request: &Request) -> Result<Option<Caps>, Error> {
        match self {
            Self::Memory(memory) => memory.with(now_ms(), |ledger| ledger.decide(request)),
            Self::File(file) => file.with(now_ms(), |ledger| ledger.decide(request)),
            Self::Redis(redis) => redis.decide(request).await,
        }
    }

    /// See [`super::Ledger::commit`].
    pub async fn commit(&self, id: &str, key: &str, actuals: &[Amount]) -> Result<Committed, Error> {
        place!(self, commit(id, key, actuals))
    }

    /// See [`super::Ledger::release`].
    pub async fn release(&self, id: &str, key: &str) -> Result<Released, Error> {
        place!(self, release(id, key))
    }

    /// See [`super::Ledger::extend`].
    pub async fn extend(&self, id: &str, key: &str, by_ms: u64) -> Result<Extended, Error> {
        place!(self, extend(id, key, by_ms))
    }

    /// See [`super::Ledger::event`].
    pub async fn event(&self, event: &Event) -> Result<Applied, Error> {
        place!(self, event(event))
    }

    /// See [`super::Ledger::expire`].
    pub async fn expire(&self) -> Result<usize, Error> {
        place!(self, expire())
    }

    /// See [`super::Ledger::allocate`].
    pub async fn allocate(&self, scope: &str, unit: Unit, terms: &Terms) -> Result<Balance, Error> {
        place!(self, allocate(scope, unit, terms))
    }

    /// See [`super::Ledger::fund`].
    pub async fn fund(&self, scope: &str, amount: Amount, key: &str) -> Result<Balance, Error> {
        place!(self, fund(scope, amount, key))
    }

    /// See [`super::Ledger::set_status`].
    pub async fn set_status(&self, scope: &str, unit: Unit, status: Status) -> Result<Balance, Error> {
        place!(self, set_status(scope, unit, status))
    }

    /// Every budget, by scope and unit, in that order.
    pub async fn balances(&self) -> Result<Vec<(String, Unit, Balance)>, Error> {
        match self {
            Self::Memory(memory) => Ok(memory.balances()),
            Self::File(file) => Ok(file.aside(Reading::balances).await?),
            Self::Redis(redis) => redis.balances().await,
        }
    }

    /// What is in each of `budgets`, in their order; `None` for one that there is not.
    pub async fn balances_of(&self, budgets: &[(String, Unit)]) -> Result<Vec<Option<Balance>>, Error> {
        match self {
            Self::Memory(memory) => Ok(budgets.iter().map(|(scope, unit)| memory.balance(scope, *unit)).collect()),
            Self::File(file) => {
                let reading = file.reading();
                Ok(budgets.iter().map(|(scope, unit)| reading.balance(scope, *unit)).collect::<Result<_, _>>()?)
            }
            Self::Redis(redis) => redis.balances_of(budgets).await,
        }
    }

    /// The lines of the books from `since_ms` until before `until_ms`, milliseconds since 1970, the oldest first.
    pub async fn entries(&self, since_ms: u64, until_ms: u64) -> Result<Vec<Entry>, Error> {
        self.first_entries(since_ms, until_ms, usize::MAX).await
    }

    /// The first `limit` of them, in a time that the others do not add to.
    pub async fn first_entries(&self, since_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Entry>, Error> {
        match self {
            Self::Memory(memory) => Ok(memory.entries(since_ms, until_ms, limit)),
            Self::File(file) => Ok(file.aside(move |reading| reading.entries(since_ms, until_ms, limit)).await?),
            Self::Redis(redis) => redis.entries(since_ms, until_ms, limit).await,
        }
    }
}
