//! Loads and saves the record of one name.
//!
//! Entries and queue positions have their own tables. A lock that allows several holders has an entry for each holder.
//! Entries are read only if the vote is not exclusive, and queue positions only if the row of the record says that
//! there are waiters.

use std::collections::{BTreeMap, BTreeSet};

use quorlock_core::name::{Channel, LeaseId, OwnerId};
use quorlock_core::node::{Entry, FenceNote, QueuedWaiter, Record, VoteNote};
use quorlock_core::request::{Request, Ticket, Waiter};
use quorlock_core::terms::HeldMode;
use rusqlite::{Connection, params};

use crate::node::sqlite::column::{read_all, read_first, run};
use crate::node::sqlite::fault::Fault;

/// Loads a name's record. There may be many tombstones, so this function loads only the tombstones that concern the
/// request.
pub(super) fn load(connection: &Connection, key: &str, request: &Request) -> Result<Record, Fault> {
    let mut record = load_without_tombstones(connection, key)?;
    // Plain requests ignore tombstones.
    if request.needs_epoch() && !request.is_plain() {
        let attempt = request.attempt();
        let sql = "SELECT until FROM tombstone WHERE attempt = ?1";
        let until = read_first(connection, "tombstone", sql, [attempt.reveal()], |row| row.get(0))?;
        record.tombstones.extend(until.map(|until| (attempt, until)));
    }
    if let Some(owner) = request.owner() {
        let sql = "SELECT until FROM retired WHERE key = ?1 AND owner = ?2";
        let until = read_first(connection, "retired", sql, params![key, owner.reveal()], |row| row.get(0))?;
        record.retired.extend(until.map(|until| (owner, until)));
    }
    Ok(record)
}

/// Loads a name's record without tombstones.
pub(super) fn load_without_tombstones(connection: &Connection, key: &str) -> Result<Record, Fault> {
    let sql = "SELECT vote, held_mode, vote_until, fence, fence_by, since, ticket, holder, fence_until, waiting
        FROM record WHERE key = ?1";
    let record = read_first(connection, "record", sql, [key], |row| {
        let vote = match row.parsed_unless_null(0, LeaseId::parse)? {
            None => None,
            Some(attempt) => Some(VoteNote {
                attempt,
                held_mode: row.parsed_unless_null(1, HeldMode::parse)?.unwrap_or(HeldMode::Exclusive),
                until: row.get(2)?,
            }),
        };
        let fence = match row.fence(3)? {
            None => None,
            Some(fence) => Some(FenceNote {
                fence,
                by: row.parsed(4, LeaseId::parse)?,
                since_micros: row.get(5)?,
                ticket: row.parsed_unless_null(6, Ticket::parse)?,
                holder: row.get(7)?,
                until: row.get(8)?,
            }),
        };
        let has_entries = vote.as_ref().is_some_and(|vote| vote.held_mode != HeldMode::Exclusive);
        let entries = if has_entries { load_entries(connection, key)? } else { Vec::new() };
        let queue = if row.flag(9)? { load_queue(connection, key)? } else { Vec::new() };
        Ok(Record { vote, entries, fence, queue, ..Record::default() })
    })?;
    Ok(record.unwrap_or_default())
}

/// Writes the changes to a name's record. Deletes a record that has become empty.
///
/// `processes` lists the processes that keep new rows alive. An existing row keeps its list, because a short-lived
/// process may extend a lease. The only exception is a list that starts with the whole stored list: it replaces the
/// stored list.
pub(super) fn save(
    connection: &Connection,
    key: &str,
    before: &Record,
    record: &Record,
    processes: Option<&str>,
) -> Result<(), Fault> {
    let has_queue = |record: &Record| !record.queue.is_empty();
    if record.is_empty() {
        run(connection, "DELETE FROM record WHERE key = ?1", params![key])?;
    } else if (&before.vote, &before.fence, has_queue(before)) != (&record.vote, &record.fence, has_queue(record)) {
        save_row(connection, key, record, processes)?;
    }
    save_entries(connection, key, &before.entries, &record.entries, processes)?;
    save_queue(connection, key, &before.queue, &record.queue, processes)?;
    save_tombstones(connection, key, before, record)
}

fn save_row(connection: &Connection, key: &str, record: &Record, processes: Option<&str>) -> Result<(), Fault> {
    let (vote, fence) = (record.vote.as_ref(), record.fence.as_ref());
    // If there are entries, each entry has its own list of processes, and the row of the record has none.
    let is_exclusive = vote.is_some_and(|vote| vote.held_mode == HeldMode::Exclusive);
    let sql = "INSERT INTO record(
            key, vote, held_mode, vote_until, fence, fence_by, since, ticket, holder, fence_until, waiting, processes
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
        ON CONFLICT(key) DO UPDATE SET vote = ?2, held_mode = ?3, vote_until = ?4, fence = ?5, fence_by = ?6,
            since = ?7, ticket = ?8, holder = ?9, fence_until = ?10, waiting = ?11,
            processes = CASE WHEN vote IS NOT ?2 OR substr(?12, 1, length(processes) + 1) = processes || ' '
                THEN ?12 ELSE processes END";
    let params = params![
        key,
        vote.map(|vote| vote.attempt.reveal()),
        vote.and_then(|vote| Some(vote.held_mode.reveal()).filter(|_| vote.held_mode != HeldMode::Exclusive)),
        vote.map(|vote| vote.until),
        fence.map(|note| note.fence.get()),
        fence.map(|note| note.by.reveal()),
        fence.map(|note| note.since_micros),
        fence.and_then(|note| note.ticket).map(|ticket| ticket.to_string()),
        fence.map(|note| &note.holder),
        fence.map(|note| note.until),
        !record.queue.is_empty(),
        processes.filter(|_| is_exclusive),
    ];
    run(connection, sql, params)
}

fn load_entries(connection: &Connection, key: &str) -> Result<Vec<Entry>, Fault> {
    let sql = "SELECT attempt, owner, slot, until, fence FROM entry WHERE key = ?1 ORDER BY attempt";
    read_all(connection, "entry", sql, [key], |row| {
        Ok(Entry {
            attempt: row.parsed(0, LeaseId::parse)?,
            owner: row.parsed_unless_null(1, OwnerId::parse)?,
            slot: row.get(2)?,
            until: row.get(3)?,
            fence: row.fence(4)?.ok_or_else(|| row.damage(4))?,
        })
    })
}

fn save_entries(
    connection: &Connection,
    key: &str,
    before: &[Entry],
    after: &[Entry],
    processes: Option<&str>,
) -> Result<(), Fault> {
    let (removed, written) = changed_rows(before, after, |entry| entry.attempt);
    for entry in removed {
        let sql = "DELETE FROM entry WHERE key = ?1 AND attempt = ?2";
        run(connection, sql, params![key, entry.attempt.reveal()])?;
    }
    for Entry { attempt, owner, slot, fence, until } in written {
        let sql = "INSERT INTO entry(key, attempt, owner, slot, until, processes, fence)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT(key, attempt) DO UPDATE SET owner = ?3, slot = ?4, until = ?5, fence = ?7,
                processes = CASE WHEN substr(?6, 1, length(processes) + 1) = processes || ' '
                    THEN ?6 ELSE processes END";
        let owner = owner.map(OwnerId::reveal);
        run(connection, sql, params![key, attempt.reveal(), owner, slot, until, processes, fence.get()])?;
    }
    Ok(())
}

fn load_queue(connection: &Connection, key: &str) -> Result<Vec<QueuedWaiter>, Fault> {
    let sql = "SELECT at, id, channel, shared, until FROM waiter WHERE key = ?1 ORDER BY at, id";
    read_all(connection, "waiter", sql, [key], |row| {
        let (ticket, channel, shared) = (row.ticket(0)?, row.parsed(2, Channel::parse)?, row.flag(3)?);
        Ok(QueuedWaiter { waiter: Waiter { ticket, channel, shared }, until: row.get(4)?, request: None })
    })
}

fn save_queue(
    connection: &Connection,
    key: &str,
    before: &[QueuedWaiter],
    after: &[QueuedWaiter],
    processes: Option<&str>,
) -> Result<(), Fault> {
    let (removed, written) = changed_rows(before, after, |queued| queued.waiter.ticket);
    for QueuedWaiter { waiter: Waiter { ticket, .. }, .. } in removed {
        let sql = "DELETE FROM waiter WHERE key = ?1 AND at = ?2 AND id = ?3";
        run(connection, sql, params![key, ticket.at, ticket.id_digits()])?;
    }
    for QueuedWaiter { waiter: Waiter { ticket, channel, shared }, until, .. } in written {
        let sql = "INSERT INTO waiter(key, at, id, channel, shared, until, processes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT(key, at, id) DO UPDATE SET channel = ?4, shared = ?5, until = ?6";
        let (id, channel) = (ticket.id_digits(), channel.digits());
        run(connection, sql, params![key, ticket.at, id, channel, shared, until, processes])?;
    }
    Ok(())
}

/// Compares two lists of rows. Returns the removed rows, and the new or changed rows.
fn changed_rows<'a, T: PartialEq, K: Ord>(
    before: &'a [T],
    after: &'a [T],
    key: impl Fn(&T) -> K,
) -> (Vec<&'a T>, Vec<&'a T>) {
    if before == after {
        return (Vec::new(), Vec::new());
    }
    let old_rows: BTreeMap<K, &T> = before.iter().map(|row| (key(row), row)).collect();
    let kept_keys: BTreeSet<K> = after.iter().map(&key).collect();
    let removed = before.iter().filter(|row| !kept_keys.contains(&key(row)));
    (removed.collect(), after.iter().filter(|row| old_rows.get(&key(row)) != Some(row)).collect())
}

/// Writes new and extended tombstones. If the file contains a tombstone that was not loaded and lasts longer, the
/// longer tombstone stays.
fn save_tombstones(connection: &Connection, key: &str, before: &Record, record: &Record) -> Result<(), Fault> {
    // The client chooses the duration of the tombstone. Limit the end to the largest value that SQLite can store.
    let capped = |until: u64| i64::try_from(until).unwrap_or(i64::MAX);
    for (attempt, until) in
        record.tombstones.iter().filter(|(attempt, until)| before.tombstones.get(attempt) != Some(until))
    {
        let sql = "INSERT INTO tombstone(attempt, until) VALUES (?1, ?2)
            ON CONFLICT(attempt) DO UPDATE SET until = max(until, ?2)";
        run(connection, sql, params![attempt.reveal(), capped(*until)])?;
    }
    for (owner, until) in record.retired.iter().filter(|(owner, until)| before.retired.get(owner) != Some(until)) {
        let sql = "REPLACE INTO retired(key, owner, until) VALUES (?1, ?2, ?3)";
        run(connection, sql, params![key, owner.reveal(), capped(*until)])?;
    }
    Ok(())
}
