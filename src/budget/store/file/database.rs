//! The rows in a redb file. Every transaction that writes is durable: redb brings it to the disk whole or not at all.

use std::{fs, io, ops::Range, os::unix::fs::OpenOptionsExt, path::Path};

use redb::{ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::rows::{Rows, Table, from_value, number, time_of, timed};
use crate::budget::ledger::{Answer, Reservation, State, StoreError};

/// The file.
pub(super) struct Database(redb::Database);

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

/// A table as it was at one moment.
type Stored = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// What was in it at one moment.
pub(super) struct Reader(Vec<(Table, Stored)>);

/// What is removed on the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    /// Answers and settled reservations that need not be kept longer than until now, in milliseconds since 1970, are removed.
    pub(super) now_ms: u64,
    /// Not more rows than that, so that no write takes long.
    pub(super) rows_max: usize,
}

/// A line of the books is kept so long: 400 days, a year and what is needed to look back at it.
pub(super) const ENTRY_KEPT_MS: u64 = 400 * 24 * 3600 * 1000;
/// So much of the file is kept in memory. The rows that are in use are much less.
const CACHE_BYTES: usize = 64 << 20;
/// The number of the generation of the journal that was taken over last.
const TAKEN_OVER: &[u8] = b"generation";

impl Database {
    /// Opens the file, or makes it with no rights for others.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        make(path).map_err(|error| StoreError(format!("{} cannot be opened: {error}", path.display())))?;
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create(path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => StoreError(format!("{} is in use by another process", path.display())),
            error => StoreError(format!("{} cannot be opened: {error}", path.display())),
        })?;
        let database = Self(database);
        database.write_with(|_| Ok(()))?;
        Ok(database)
    }

    /// Writes the rows, and that the journal's `generation` was taken over; removes what is old.
    pub(super) fn take_over(&self, rows: &Rows, generation: u64, sweep: Sweep) -> Result<(), StoreError> {
        self.write_with(|transaction| {
            for table in Table::ALL {
                let mut opened = transaction.open_table(definition(table)).map_err(failed)?;
                for ((_, key), value) in rows.range((table, Vec::new())..).take_while(|((known, _), _)| *known == table) {
                    match value {
                        Some(value) => opened.insert(&key[..], &value[..]).map_err(failed)?,
                        None => opened.remove(&key[..]).map_err(failed)?,
                    };
                }
            }
            transaction
                .open_table(definition(Table::Numbers))
                .and_then(|mut numbers| Ok(numbers.insert(TAKEN_OVER, &generation.to_be_bytes()[..]).map(drop)?))
                .map_err(failed)?;
            sweep.forget(transaction)?;
            sweep.close_books(transaction)
        })
    }

    /// The generation of the journal that was taken over last.
    pub(super) fn taken_over(&self) -> Result<u64, StoreError> {
        Ok(number(self.reader()?.get(Table::Numbers, TAKEN_OVER)?.as_deref()))
    }

    /// What is in it now.
    pub(super) fn reader(&self) -> Result<Reader, StoreError> {
        let transaction = self.0.begin_read().map_err(failed)?;
        let open = |table| Ok((table, transaction.open_table(definition(table)).map_err(failed)?));
        Table::ALL.into_iter().map(open).collect::<Result<_, _>>().map(Reader)
    }

    fn write_with(&self, write: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut transaction = self.0.begin_write().map_err(failed)?;
        // Each commit takes longer, in the background, and after a crash the file is open at once, however large it is.
        transaction.set_quick_repair(true);
        for table in Table::ALL {
            transaction.open_table(definition(table)).map_err(failed)?;
        }
        write(&transaction)?;
        transaction.commit().map_err(failed)
    }
}

impl Reader {
    /// The value of `key`.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.table(table)?.get(key).map_err(failed)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    /// The rows whose keys are in the range, in their order.
    pub(super) fn range(
        &self,
        table: Table,
        keys: &Range<Vec<u8>>,
    ) -> Result<impl Iterator<Item = Result<Row, StoreError>> + use<>, StoreError> {
        let rows = self.table(table)?.range(&keys.start[..]..&keys.end[..]).map_err(failed)?;
        Ok(rows.map(|row| row.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).map_err(failed)))
    }

    fn table(&self, table: Table) -> Result<&Stored, StoreError> {
        let found = self.0.iter().find(|(known, _)| *known == table);
        found.map(|(_, table)| table).ok_or_else(|| StoreError(format!("there is no table {}", table.name())))
    }
}

impl Sweep {
    /// Removes answers and settled reservations whose time is over.
    fn forget(self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut kept = transaction.open_table(definition(Table::Kept)).map_err(failed)?;
        let mut answers = transaction.open_table(definition(Table::Answers)).map_err(failed)?;
        let mut reservations = transaction.open_table(definition(Table::Reservations)).map_err(failed)?;
        for key in first_keys(&kept, self.now_ms, self.rows_max)? {
            kept.remove(&key[..]).map_err(failed)?;
            let Some((until_ms, Some((what, name)))) = time_of(&key).map(|(until_ms, rest)| (until_ms, rest.split_first())) else {
                continue;
            };
            let table = if *what == Table::Answers as u8 { &mut answers } else { &mut reservations };
            let value = table.get(name).map_err(failed)?.map(|value| value.value().to_vec());
            // An answer may have been given again since, with a later end. What cannot be read is of no use to anybody.
            let is_needed = match value {
                None => true,
                Some(value) if *what == Table::Answers as u8 => {
                    from_value::<Answer>(&value).is_ok_and(|answer| answer.until_ms != until_ms)
                }
                Some(value) => from_value::<Reservation>(&value).is_ok_and(|reservation| reservation.state == State::Active),
            };
            if !is_needed {
                table.remove(name).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest lines of the books.
    fn close_books(self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut entries = transaction.open_table(definition(Table::Entries)).map_err(failed)?;
        for key in first_keys(&entries, self.now_ms.saturating_sub(ENTRY_KEPT_MS), self.rows_max)? {
            entries.remove(&key[..]).map_err(failed)?;
        }
        Ok(())
    }
}

/// The first keys of a table that is ordered by time, from before `before_ms`.
fn first_keys(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    before_ms: u64,
    count_max: usize,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let end = timed(before_ms, &[]);
    let rows = table.range(&[][..]..&end[..]).map_err(failed)?;
    rows.take(count_max).map(|row| row.map(|(key, _)| key.value().to_vec()).map_err(failed)).collect()
}

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

/// Makes the folder and the file where they are not there.
fn make(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

fn failed(error: impl Into<redb::Error>) -> StoreError {
    StoreError(error.into().to_string())
}
