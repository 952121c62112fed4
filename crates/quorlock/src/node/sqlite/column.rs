//! Reads and validates values from rows, and runs statements.

use quorlock_core::fence::Fence;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row};

use crate::node::sqlite::fault::Fault;

/// One value of a row, with its position for error messages.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    pub(super) row: &'a Row<'a>,
    pub(super) index: usize,
    pub(super) table: &'static str,
    pub(super) name: &'static str,
}

impl Column<'_> {
    /// Fails if the value is NULL.
    pub(super) fn must<T>(self, read: impl FnOnce(Self) -> Result<Option<T>, Fault>) -> Result<T, Fault> {
        read(self)?.ok_or(self.damage())
    }

    pub(super) fn value<T: FromSql>(self) -> Result<Option<T>, Fault> {
        self.row.get(self.index).map_err(|_| self.damage())
    }

    pub(super) fn number(self) -> Result<Option<u64>, Fault> {
        self.value()
    }

    pub(super) fn flag(self) -> Result<Option<bool>, Fault> {
        match self.value::<i64>()? {
            None => Ok(None),
            Some(0) => Ok(Some(false)),
            Some(1) => Ok(Some(true)),
            Some(_) => Err(self.damage()),
        }
    }

    pub(super) fn fence(self) -> Result<Option<Fence>, Fault> {
        let fence = |value| Some(Fence::new(value)).filter(|fence| fence.get() == value);
        self.number()?.map(|value| fence(value).ok_or(self.damage())).transpose()
    }

    pub(super) fn bits(self) -> Result<Option<u128>, Fault> {
        self.parsed(|text| u128::from_str_radix(text, 16).ok())
    }

    /// Parses a text value.
    pub(super) fn parsed<T>(self, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Fault> {
        self.value::<String>()?.map(|text| parse(&text).ok_or(self.damage())).transpose()
    }

    pub(super) fn damage(self) -> Fault {
        Fault::Damaged { table: self.table, column: self.name }
    }
}

/// Runs a statement that returns no rows, and caches it.
pub(super) fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<(), Fault> {
    connection.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// Formats bits as 32 hexadecimal digits.
pub(super) fn hex(bits: u128) -> String {
    format!("{bits:032x}")
}
