//! Releases the locks and queue positions of dead processes.

use std::collections::HashMap;

use quorlock_core::mode::Period;
use quorlock_core::name::LeaseId;
use quorlock_core::node::Record;
use quorlock_core::ticket::{Parting, Ticket};
use quorlock_core::vote::{Refusal, Request, Vote};
use rusqlite::{Connection, params};

use crate::node::sqlite::column::Column;
use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::processes::Processes;

/// Lists of processes, and whether all processes of a list are dead.
type Known = HashMap<String, bool>;

/// Returns whether to look for dead processes: the request was refused because of other holders or waiters.
pub(super) fn may_matter(request: &Request, vote: &Vote) -> bool {
    let asks = matches!(request, Request::Acquire { .. } | Request::PlainAcquire { .. });
    let in_the_way = matches!(
        vote,
        Vote::Refusal(
            Refusal::Held { .. }
                | Refusal::Behind { .. }
                | Refusal::QueueFull
                | Refusal::Permits { .. }
                | Refusal::Upgrade
        )
    );
    asks && in_the_way
}

/// Returns the releases that dead processes owe for a name, waiters first. A dead holder's release leaves `tombstone`.
///
/// Checks only the head of the queue: a dead waiter behind a live one blocks nobody yet.
pub(super) fn releases_owed(
    connection: &Connection,
    key: &str,
    record: &Record,
    processes: &Processes,
    tombstone: Option<u64>,
) -> Result<Vec<Request>, Fault> {
    let mut known = Known::new();
    let mut owed = Vec::new();
    if !record.queue.is_empty() {
        owed.extend(dead_waiters(connection, key, record, processes, &mut known)?);
    }
    for attempt in dead_holders(connection, key, record, processes, &mut known)? {
        owed.push(Request::Release { attempt, tombstone, parting: None });
    }
    Ok(owed)
}

fn dead_waiters(
    connection: &Connection,
    key: &str,
    record: &Record,
    processes: &Processes,
    known: &mut Known,
) -> Result<Vec<Request>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT at, id, processes FROM place WHERE key = ?1 ORDER BY at, id")?;
    let mut rows = statement.query(params![key])?;
    let mut owed = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |index, name| Column { row, index, table: "place", name };
        let ticket = Ticket {
            at: column(0, "at").must(Column::number)?,
            id: column(1, "id").must(|id| id.parsed(Ticket::parse_id))?,
        };
        if !is_dead(column(2, "processes"), processes, known)? {
            break;
        }
        if let Some(place) = record.queue.iter().find(|place| place.waiter.ticket == ticket) {
            // A vote of the same waiter is released separately, as a dead holder's.
            let (attempt, parting) = (LeaseId::from_bits(0), Some(Parting::Leave(place.waiter)));
            owed.push(Request::Release { attempt, tombstone: None, parting });
        }
    }
    Ok(owed)
}

fn dead_holders(
    connection: &Connection,
    key: &str,
    record: &Record,
    processes: &Processes,
    known: &mut Known,
) -> Result<Vec<LeaseId>, Fault> {
    let (table, sql) = match record.vote.as_ref().map(|vote| vote.period) {
        None => return Ok(Vec::new()),
        Some(Period::Exclusive) => ("record", "SELECT vote, processes FROM record WHERE key = ?1"),
        Some(Period::Reentrant(_) | Period::Shared | Period::Slots(_)) => {
            ("entry", "SELECT attempt, processes FROM entry WHERE key = ?1")
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![key])?;
    let mut dead = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |index, name| Column { row, index, table, name };
        if is_dead(column(1, "processes"), processes, known)? {
            dead.push(column(0, "attempt").must(|attempt| attempt.parsed(LeaseId::parse))?);
        }
    }
    Ok(dead)
}

/// Returns whether all processes of a list are dead. Looks up each list once.
fn is_dead(column: Column<'_>, processes: &Processes, known: &mut Known) -> Result<bool, Fault> {
    // A row without a list does not depend on any process.
    let Some(behind) = column.value::<String>()? else { return Ok(false) };
    if let Some(is_dead) = known.get(&behind) {
        return Ok(*is_dead);
    }
    let is_dead = processes.are_gone(&behind).ok_or(column.damage())?;
    known.insert(behind, is_dead);
    Ok(is_dead)
}
