//! Runs statements, and reads and validates the values of rows.

use quorlock_core::fence::Fence;
use quorlock_core::request::Ticket;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row};

use crate::node::sqlite::fault::Fault;

/// A row of a table. Each value may be damaged.
pub(super) struct StoredRow<'a> {
    pub(super) row: &'a Row<'a>,
    pub(super) table: &'static str,
}

impl StoredRow<'_> {
    /// Fails if the value is NULL, unless the type is an `Option`.
    pub(super) fn get<T: FromSql>(&self, index: usize) -> Result<T, Fault> {
        self.row.get(index).map_err(|_| self.damage(index))
    }

    /// Reads a bool, stored as 0 or 1.
    pub(super) fn flag(&self, index: usize) -> Result<bool, Fault> {
        match self.get(index)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damage(index)),
        }
    }

    pub(super) fn fence(&self, index: usize) -> Result<Option<Fence>, Fault> {
        let fence = |value| Some(Fence::new(value)).filter(|fence| fence.get() == value);
        self.get::<Option<u64>>(index)?.map(|value| fence(value).ok_or_else(|| self.damage(index))).transpose()
    }

    /// Reads a ticket's time, and its id from the next column.
    pub(super) fn ticket(&self, index: usize) -> Result<Ticket, Fault> {
        Ok(Ticket { at: self.get(index)?, id: self.parsed(index + 1, Ticket::parse_id)? })
    }

    /// Parses a text value. Fails if it is NULL.
    pub(super) fn parsed<T>(&self, index: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        self.parsed_unless_null(index, parse)?.ok_or_else(|| self.damage(index))
    }

    /// Parses a text value. Returns `None` if it is NULL.
    pub(super) fn parsed_unless_null<T>(
        &self,
        index: usize,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        self.get::<Option<String>>(index)?.map(|text| parse(&text).ok_or_else(|| self.damage(index))).transpose()
    }

    /// Returns the error for an invalid value in a column.
    pub(super) fn damage(&self, index: usize) -> Fault {
        let column = self.row.as_ref().column_name(index).unwrap_or_default().to_owned();
        Fault::Damaged { table: self.table, column }
    }
}

/// Runs a statement that returns no rows, and caches it.
pub(super) fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<(), Fault> {
    connection.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// Reads all rows of a query, and caches the statement.
pub(super) fn read_all<T>(
    connection: &Connection,
    table: &'static str,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&StoredRow<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        values.push(read(&StoredRow { row, table })?);
    }
    Ok(values)
}

/// Reads the first row of a query, if there is one, and caches the statement.
pub(super) fn read_first<T>(
    connection: &Connection,
    table: &'static str,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&StoredRow<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(|row| read(&StoredRow { row, table })).transpose()
}
