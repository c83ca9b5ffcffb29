//! What is read of the ledger outside of its operations, for statements and reports. Operations go on meanwhile.

use std::{ops::Range, sync::Arc};

use tokio::runtime::Handle;

use super::{
    File, Shared,
    book::scan,
    rows::{Rows, Table, budget_key, budget_of, from_value, timed},
};
use crate::budget::{
    Unit,
    ledger::{Balance, Entry, StoreError},
};

/// What is read of a ledger.
#[derive(Clone)]
pub struct Reading(Arc<Shared>);

impl File {
    /// What is read of it.
    pub fn reading(&self) -> Reading {
        Reading(Arc::clone(&self.shared))
    }

    /// What `read` reads, on a thread on which it holds nobody up: there may be millions of rows. Where there is no runtime it is read here.
    pub async fn aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reading) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reading = self.reading();
        let Ok(runtime) = Handle::try_current() else { return read(&reading) };
        let done = runtime.spawn_blocking(move || read(&reading)).await;
        done.map_err(|error| StoreError(format!("its reading was given up: {error}")))?
    }
}

impl Reading {
    /// Every budget, by scope and unit. Fails when the file cannot be read.
    pub fn balances(&self) -> Result<Vec<(String, Unit, Balance)>, StoreError> {
        self.scan(Table::Balances, &(Vec::new()..vec![u8::MAX]), usize::MAX, |key, value| {
            let Some((scope, unit)) = budget_of(key) else { return Ok(None) };
            Ok(Some((scope, unit, from_value(value)?)))
        })
    }

    /// What is in one budget, if there is such a one. Fails when the file cannot be read.
    pub fn balance(&self, scope: &str, unit: Unit) -> Result<Option<Balance>, StoreError> {
        let key = budget_key(scope, unit);
        let behind = [&key[..], &[0]].concat();
        Ok(self.scan(Table::Balances, &(key..behind), 1, |_, value| from_value(value).map(Some))?.pop())
    }

    /// The first `limit` lines of the books from `since_ms` until before `until_ms`, the oldest first. Those older than 400 days are
    /// forgotten. Fails when the file cannot be read.
    pub fn entries(&self, since_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        if since_ms >= until_ms {
            return Ok(Vec::new());
        }
        self.scan(Table::Entries, &(timed(since_ms, &[])..timed(until_ms, &[])), limit, |_, value| from_value(value).map(Some))
    }

    fn scan<T>(
        &self,
        table: Table,
        keys: &Range<Vec<u8>>,
        limit: usize,
        read: impl FnMut(&[u8], &[u8]) -> Result<Option<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let (reader, dirty, frozen) = {
            let state = self.0.lock();
            let dirty: Rows =
                state.dirty.range((table, keys.start.clone())..(table, keys.end.clone())).map(|(k, v)| (k.clone(), v.clone())).collect();
            (state.reader()?, dirty, state.frozen.clone())
        };
        scan((&reader, &[&dirty, &frozen]), table, keys, limit, read)
    }
}
