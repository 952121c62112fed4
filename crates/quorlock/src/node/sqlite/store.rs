//! The tables, the row of the node itself, and the sweep of expired rows.

use std::borrow::Cow;

use quorlock_core::fence::Fence;
use quorlock_core::node::roster::Membership;
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeTime};
use rusqlite::{Connection, OptionalExtension, params};

use crate::node::membership_text::{parse_membership, write_epoch, write_membership};
use crate::node::sqlite::column::{StoredRow, read_first, run};
use crate::node::sqlite::fault::Fault;
use crate::node::{PAGE_MAX, PAGE_STEPS_MAX, Page, Search};

/// The largest number of rows of each table that one sweep visits.
pub(super) const SWEEP_MAX: u32 = 1_000;

const SCHEMA: &str = include_str!("schema.sql");

/// The row of the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeRow {
    /// A number above every fence that was ever granted. See the module [`reserve`](super::reserve).
    pub(super) reserve: u64,
    /// A reserve that is certainly on disk (column `sure`). The latest `reserve` may not be on disk: if the process
    /// that raised the reserve crashed, other processes may read a value that was never synced.
    pub(super) synced_reserve: u64,
    /// The key of the last record that a sweep visited.
    pub(super) swept: String,
    /// The node's incarnation; `None` if the node is blank.
    pub(super) life: Option<Incarnation>,
    /// The node's membership, by which the node votes if it has one.
    pub(super) membership: Option<Membership>,
}

impl NodeRow {
    /// Returns what the rules for one name need to know about the node; `None` if it is blank.
    pub(super) fn incarnation(&self) -> Option<Cow<'_, Incarnation>> {
        let of_membership = self.membership.as_ref().map(|membership| Cow::Owned(membership.incarnation()));
        of_membership.or_else(|| self.life.as_ref().map(Cow::Borrowed))
    }

    /// Returns the lowest fence that must be kept. A lower stored fence can be deleted, because all later fences are at
    /// or above the result.
    pub(super) fn lowest_kept_fence(&self, now: NodeTime) -> Fence {
        self.incarnation().map_or(Fence::default(), |life| {
            let clock = Fence::new(now.wall_micros.saturating_sub(life.constants.max_skew_micros));
            life.floor.unwrap_or_default().max(clock)
        })
    }
}

/// Creates the tables of a new file.
pub(super) fn create(connection: &Connection, reserve: u64) -> Result<(), Fault> {
    connection.execute_batch(SCHEMA)?;
    run(connection, "INSERT INTO node(id, reserve, sure, swept) VALUES (1, ?1, 0, '')", params![reserve])
}

/// Loads the row of the node.
pub(super) fn load_node(connection: &Connection) -> Result<NodeRow, Fault> {
    let sql = "SELECT reserve, sure, swept, run, epoch, floor, elapsed,
        cluster, nodes, max_ttl, max_clock_skew, founders, quarantine, suspended, restarts, membership
        FROM node WHERE id = 1";
    let node = read_first(connection, "node", sql, [], |row| {
        let life = match row.get::<Option<String>>(3)? {
            None => None,
            Some(run) => Some(Incarnation {
                identity: Identity::of_run(run),
                epoch: row.parsed_unless_null(4, |bits| u128::from_str_radix(bits, 16).ok())?.map(Epoch),
                floor: row.fence(5)?,
                elapsed_micros: row.get(6)?,
                constants: Constants {
                    cluster: row.get(7)?,
                    nodes: row.get(8)?,
                    max_ttl_millis: row.get(9)?,
                    max_skew_micros: row.get(10)?,
                },
                founders: row.get(11)?,
                quarantine_micros: row.get(12)?,
                suspended: row.flag(13)?,
                restarts: row.get(14)?,
            }),
        };
        let membership = row.parsed_unless_null(15, |text| {
            let (epoch_text, rest) = text.split_once('\n')?;
            parse_membership(epoch_text, rest)
        })?;
        Ok(NodeRow { reserve: row.get(0)?, synced_reserve: row.get(1)?, swept: row.get(2)?, life, membership })
    })?;
    node.ok_or(Fault::Damaged { table: "node", column: "id".into() })
}

/// Saves the row of the node if it has changed.
pub(super) fn save_node(connection: &Connection, before: &NodeRow, node: &NodeRow) -> Result<(), Fault> {
    if before == node {
        return Ok(());
    }
    let sql = "UPDATE node SET reserve = ?1, sure = ?2, swept = ?3 WHERE id = 1";
    run(connection, sql, params![node.reserve, node.synced_reserve, node.swept])?;
    if before.membership != node.membership {
        let text = node.membership.as_ref();
        let text = text.map(|membership| format!("{}\n{}", write_epoch(membership), write_membership(membership)));
        run(connection, "UPDATE node SET membership = ?1 WHERE id = 1", params![text])?;
    }
    let Some(life) = node.life.as_ref().filter(|_| before.life != node.life) else { return Ok(()) };
    let constants = &life.constants;
    let sql = "UPDATE node SET run = ?1, epoch = ?2, floor = ?3, elapsed = ?4,
        cluster = ?5, nodes = ?6, max_ttl = ?7, max_clock_skew = ?8, founders = ?9,
        quarantine = ?10, suspended = ?11, restarts = ?12 WHERE id = 1";
    let params = params![
        life.identity.run,
        life.epoch.map(|epoch| format!("{:032x}", epoch.0)),
        life.floor.map(Fence::get),
        life.elapsed_micros,
        constants.cluster,
        constants.nodes,
        constants.max_ttl_millis,
        constants.max_skew_micros,
        life.founders,
        life.quarantine_micros,
        life.suspended,
        life.restarts,
    ];
    run(connection, sql, params)
}

/// Deletes everything except the row of the node and the history: votes, fences, waiters, hints and tombstones.
pub(super) fn wipe(connection: &Connection) -> Result<(), Fault> {
    for table in ["record", "entry", "waiter", "hint", "tombstone", "retired"] {
        connection.execute(&format!("DELETE FROM {table}"), [])?;
    }
    Ok(())
}

/// Deletes expired rows: among the next records after the last sweep, with their entries and queue positions, and among
/// the oldest hints and tombstones.
pub(super) fn sweep(connection: &Connection, node: &mut NodeRow, now: NodeTime) -> Result<(), Fault> {
    let (life_millis, lowest_kept_fence) = (now.life_millis, node.lowest_kept_fence(now).get());
    let last = connection
        .prepare_cached("SELECT key FROM record WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2")?
        .query_row(params![node.swept, SWEEP_MAX - 1], |row| row.get::<_, String>(0))
        .optional()?;
    for (table, has_rows) in [("entry", "held_mode IS NOT NULL"), ("waiter", "waiting <> 0")] {
        let sql = format!(
            "DELETE FROM {table} WHERE until < ?3 AND key IN (SELECT key FROM
                (SELECT key, held_mode, waiting FROM record WHERE key > ?1 ORDER BY key LIMIT ?2) WHERE {has_rows})"
        );
        run(connection, &sql, params![node.swept, SWEEP_MAX, life_millis])?;
    }
    let sql = "DELETE FROM record WHERE key IN (SELECT key FROM record WHERE key > ?1 ORDER BY key LIMIT ?2)
        AND (vote_until IS NULL OR vote_until < ?3)
        AND (fence_until IS NULL OR (fence_until < ?3 AND fence < ?4))
        AND (waiting = 0 OR NOT EXISTS (SELECT 1 FROM waiter WHERE waiter.key = record.key))";
    run(connection, sql, params![node.swept, SWEEP_MAX, life_millis, lowest_kept_fence])?;
    node.swept = last.unwrap_or_default();
    for sql in [
        "DELETE FROM tombstone WHERE attempt IN
            (SELECT attempt FROM tombstone WHERE until < ?1 ORDER BY until LIMIT ?2)",
        "DELETE FROM retired WHERE (key, owner) IN
            (SELECT key, owner FROM retired WHERE until < ?1 ORDER BY until LIMIT ?2)",
        "DELETE FROM hint WHERE until < ?1 AND seq IN (SELECT seq FROM hint ORDER BY seq LIMIT ?2)",
    ] {
        run(connection, sql, params![life_millis, SWEEP_MAX])?;
    }
    Ok(())
}

/// Returns the next keys with a vote or a queue, in key order.
pub(super) fn search(connection: &Connection, search: &Search, now: NodeTime) -> Result<Page, Fault> {
    let from = search.after.as_str().max(search.span.start.as_str());
    let mut statement = connection.prepare_cached(
        "SELECT key, vote_until >= ?3 OR waiting <> 0 AS in_use FROM record
            WHERE key >= ?1 AND key > ?2 ORDER BY key LIMIT ?4",
    )?;
    let mut rows = statement.query(params![from, search.after, now.life_millis, PAGE_MAX * PAGE_STEPS_MAX])?;
    let (mut page, mut visited) = (Page::default(), 0);
    while let Some(row) = rows.next()? {
        let row = StoredRow { row, table: "record" };
        let key: String = row.get(0)?;
        // Keys are sorted, so keys with the same prefix are adjacent.
        if !key.starts_with(&search.span.start) {
            return Ok(Page { next: None, ..page });
        }
        visited += 1;
        page.next = (visited == PAGE_MAX * PAGE_STEPS_MAX).then(|| key.clone());
        if row.get::<Option<bool>>(1)? == Some(true) && search.span.matches(&key) {
            page.keys.push(key.clone());
        }
        if page.keys.len() == PAGE_MAX {
            return Ok(Page { next: Some(key), ..page });
        }
    }
    Ok(page)
}
