//! The reserve: a number on the disk that is above every fence ever granted.
//!
//! Ordinary commits do not wait for the disk, so a power failure may take back the latest of them, and with them the
//! fences that they granted. The reserve is raised ahead of the fences, about once an hour, by a commit that does wait.
//! The next life starts above it.

use quorlock_core::node::NodeTime;
use rusqlite::Connection;

use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::store::{self, NodeNote};
use crate::node::sqlite::{Clock, database};

/// The reserve is raised when it is less than this ahead of what may be granted.
const AHEAD_MIN: u64 = 30 * 60 * 1_000_000;
/// By how much it is raised.
const AHEAD: u64 = 60 * 60 * 1_000_000;

/// The reserve of a new file.
pub(super) fn first(wall_micros: u64) -> u64 {
    wall_micros.saturating_add(AHEAD)
}

/// How high the reserve must be before anything is granted now.
pub(super) fn needed(node: &NodeNote, now: NodeTime) -> u64 {
    reach(node, now).saturating_add(AHEAD_MIN)
}

/// Raises the reserve, on the disk, unless another process has done so. Returns what is there by our own doing.
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
    // Always upwards: a commit that changes nothing would not wait for the disk.
    node.reserve = reach(&node, now).max(node.reserve).saturating_add(AHEAD);
    store::save_node(&transaction, &before, &node)?;
    transaction.commit()?;
    Ok(node.reserve)
}

/// About as high as a fence can get now: a proposal may be ahead of the clock by the max clock skew.
fn reach(node: &NodeNote, now: NodeTime) -> u64 {
    let max_clock_skew = node.life.as_ref().map_or(0, |life| life.constants.max_skew_micros);
    let floor = node.life.as_ref().and_then(|life| life.floor).unwrap_or_default();
    now.wall_micros.saturating_add(max_clock_skew).max(floor.get())
}
