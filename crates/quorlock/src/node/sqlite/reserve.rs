//! The reserve: a number on disk that is above every fence ever granted.
//!
//! Ordinary commits do not wait for the disk, so a power failure may undo the latest commits and the fences that they
//! granted. About once an hour, a commit that waits for the disk raises the reserve above the fences. The next
//! incarnation (life of the node's memory) grants only fences above the reserve.

use quorlock_core::node::NodeTime;
use rusqlite::Connection;

use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::store::{self, NodeNote};
use crate::node::sqlite::{Clock, database};

/// The least distance of the reserve from the highest possible fence. If it is less, the reserve is raised.
const AHEAD_MIN: u64 = 30 * 60 * 1_000_000;
/// The amount by which the reserve is raised.
const AHEAD: u64 = 60 * 60 * 1_000_000;

/// Returns the reserve of a new file.
pub(super) fn first(wall_micros: u64) -> u64 {
    wall_micros.saturating_add(AHEAD)
}

/// Returns the reserve that must be on disk before the node grants anything at `now`.
pub(super) fn needed(node: &NodeNote, now: NodeTime) -> u64 {
    reach(node, now).saturating_add(AHEAD_MIN)
}

/// Raises the reserve durably, unless another process has done so. Returns the reserve that this call synced to disk.
pub(super) fn raise(connection: &Connection, clock: &Clock) -> Result<u64, Fault> {
    database::set_durable(connection, true)?;
    let raised = raise_durably(connection, clock);
    database::set_durable(connection, false)?;
    raised
}

fn raise_durably(connection: &Connection, clock: &Clock) -> Result<u64, Fault> {
    let transaction = database::begin_here(connection)?;
    let mut node = store::load_node(&transaction)?;
    let now = clock();
    if node.sure >= needed(&node, now) {
        return Ok(0);
    }
    let before = node.clone();
    // Always raise the reserve: a commit without changes would not wait for the disk.
    node.reserve = reach(&node, now).max(node.reserve).saturating_add(AHEAD);
    store::save_node(&transaction, &before, &node)?;
    transaction.commit()?;
    Ok(node.reserve)
}

/// Returns roughly the highest fence that can be granted now. A proposed fence may be ahead of the clock by the max
/// clock skew.
fn reach(node: &NodeNote, now: NodeTime) -> u64 {
    let max_clock_skew = node.life.as_ref().map_or(0, |life| life.constants.max_skew_micros);
    let floor = node.life.as_ref().and_then(|life| life.floor).unwrap_or_default();
    now.wall_micros.saturating_add(max_clock_skew).max(floor.get())
}
