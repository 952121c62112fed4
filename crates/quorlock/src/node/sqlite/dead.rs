//! Finds the votes and queue positions of dead processes.

use std::collections::HashMap;

use quorlock_core::name::LeaseId;
use quorlock_core::node::Record;
use quorlock_core::request::{Parting, Request};
use quorlock_core::terms::HeldMode;
use quorlock_core::vote::{Refusal, Vote};
use rusqlite::Connection;

use crate::node::sqlite::column::{StoredRow, read_all};
use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::processes::Processes;

/// Returns whether the node refused an acquire because of other holders or waiters, which may be dead processes.
pub(super) fn is_refused_for_others(request: &Request, vote: &Vote) -> bool {
    let is_acquire = matches!(request, Request::Acquire { .. } | Request::PlainAcquire { .. });
    let has_others = matches!(
        vote,
        Vote::Refusal(
            Refusal::Held { .. }
                | Refusal::Behind { .. }
                | Refusal::QueueFull
                | Refusal::Permits { .. }
                | Refusal::Upgrade
        )
    );
    is_acquire && has_others
}

/// Returns the releases that dead processes would have to send for a name, first the releases of waiters. The release
/// of a dead holder leaves a tombstone that lasts `tombstone` milliseconds.
///
/// Stops at the first waiter in the queue that is not dead: dead waiters behind it do not block a request yet.
pub(super) fn releases_owed(
    connection: &Connection,
    key: &str,
    record: &Record,
    processes: &Processes,
    tombstone: Option<u64>,
) -> Result<Vec<Request>, Fault> {
    let mut checked_lists: HashMap<String, bool> = HashMap::new();
    let mut is_dead = |table, list: Option<String>| -> Result<bool, Fault> {
        // A row without a list of processes depends on no process.
        let Some(list) = list else { return Ok(false) };
        if let Some(is_dead) = checked_lists.get(&list) {
            return Ok(*is_dead);
        }
        let damage = || Fault::Damaged { table, column: "processes".into() };
        let is_dead = processes.are_dead(&list).ok_or_else(damage)?;
        checked_lists.insert(list, is_dead);
        Ok(is_dead)
    };
    let mut owed = Vec::new();
    if !record.queue.is_empty() {
        let sql = "SELECT at, id, processes FROM waiter WHERE key = ?1 ORDER BY at, id";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([key])?;
        while let Some(row) = rows.next()? {
            let row = StoredRow { row, table: "waiter" };
            let ticket = row.ticket(0)?;
            if !is_dead("waiter", row.get(2)?)? {
                break;
            }
            if let Some(queued) = record.queue.iter().find(|queued| queued.waiter.ticket == ticket) {
                // A vote of this waiter is released below, like the vote of a dead holder.
                let (attempt, parting) = (LeaseId::from_bits(0), Some(Parting::Leave(queued.waiter)));
                owed.push(Request::Release { attempt, tombstone: None, parting });
            }
        }
    }
    let (table, sql) = match record.vote.as_ref().map(|vote| vote.held_mode) {
        None => return Ok(owed),
        Some(HeldMode::Exclusive) => ("record", "SELECT vote, processes FROM record WHERE key = ?1"),
        Some(HeldMode::Reentrant(_) | HeldMode::Shared | HeldMode::Slots(_)) => {
            ("entry", "SELECT attempt, processes FROM entry WHERE key = ?1")
        }
    };
    let read_holder = |row: &StoredRow<'_>| Ok((row.parsed(0, LeaseId::parse)?, row.get(1)?));
    for (attempt, list) in read_all(connection, table, sql, [key], read_holder)? {
        if is_dead(table, list)? {
            owed.push(Request::Release { attempt, tombstone, parting: None });
        }
    }
    Ok(owed)
}
