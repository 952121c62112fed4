//! The reserve: a number on disk that is above every fence ever granted.
//!
//! Ordinary commits do not wait for the disk, so a power failure may undo the latest commits and the fences that they
//! granted. About once an hour, a commit that waits for the disk raises the reserve above the fences. The next
//! incarnation (life of the node's memory) grants only fences above the reserve.

use quorlock_core::node::NodeTime;
use rusqlite::Connection;

use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::store::{self, NodeRow};
use crate::node::sqlite::{Clock, database};

/// The least distance, in microseconds, between the highest possible fence and the reserve. If the distance is less,
/// the reserve is raised.
const DISTANCE_MIN: u64 = 30 * 60 * 1_000_000;
/// The distance, in microseconds, between the highest possible fence and a raised reserve.
const DISTANCE: u64 = 60 * 60 * 1_000_000;

/// Returns the reserve of a new file.
pub(super) fn initial(wall_micros: u64) -> u64 {
    wall_micros.saturating_add(DISTANCE)
}

/// Returns the reserve that must be on disk before the node grants anything at `now`.
pub(super) fn needed(node: &NodeRow, now: NodeTime) -> u64 {
    highest_fence(node, now).saturating_add(DISTANCE_MIN)
}

/// Raises the reserve on disk, unless another process has already raised it. Returns the reserve that this call has
/// synced to disk, or zero.
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
    if node.synced_reserve >= needed(&node, now) {
        return Ok(0);
    }
    let before = node.clone();
    // Always change the reserve: a commit without changes would not wait for the disk.
    node.reserve = highest_fence(&node, now).max(node.reserve).saturating_add(DISTANCE);
    store::save_node(&transaction, &before, &node)?;
    transaction.commit()?;
    Ok(node.reserve)
}

/// Returns roughly the highest fence that the node can grant now. A proposed fence may be ahead of the node's clock by
/// the max clock skew.
fn highest_fence(node: &NodeRow, now: NodeTime) -> u64 {
    let life = node.incarnation();
    let max_clock_skew = life.as_ref().map_or(0, |life| life.constants.max_skew_micros);
    let floor = life.and_then(|life| life.floor).unwrap_or_default();
    now.wall_micros.saturating_add(max_clock_skew).max(floor.get())
}
