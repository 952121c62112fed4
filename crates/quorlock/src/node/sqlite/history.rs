//! The history of events, in a table of at most about `HISTORY_MAX` rows.

use std::sync::Arc;

use rusqlite::types::ToSql;
use rusqlite::{Connection, params};

use crate::node::event::{Event, FIELDS, HISTORY_MAX};
use crate::node::sqlite::column::run;
use crate::node::sqlite::fault::Fault;

/// Adds events, and deletes the oldest events above the limit.
pub(super) fn note(connection: &Connection, events: &[Arc<Event>]) -> Result<(), Fault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO history(id, at, name, what, fence, holder, mode, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for event in events {
        let values = event.values();
        let values: [&dyn ToSql; FIELDS.len()] = std::array::from_fn(|at| &values[at] as &dyn ToSql);
        insert.execute(values)?;
    }
    let sql = "DELETE FROM history WHERE seq <= ?1 - ?2";
    run(connection, sql, params![connection.last_insert_rowid(), HISTORY_MAX])
}

/// Reads the newest events. Skips invalid rows, which this program has not written.
pub(super) fn recall(connection: &Connection, limit: usize) -> Result<Vec<Event>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, name, what, fence, holder, mode, reason FROM history ORDER BY seq DESC LIMIT ?1",
    )?;
    let mut rows = statement.query(params![limit])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |wanted: &str| FIELDS.iter().position(|field| *field == wanted).and_then(|at| row.get(at).ok());
        events.extend(Event::read(value));
    }
    Ok(events)
}
