//! Formats the state of a lock and its holders, for people.

use std::time::{Duration, SystemTime};

use quorlock::{HolderView, LockOnNode, LockView};

use crate::duration::show;
use crate::output::Paint;
use crate::table::{Cell, one_line};

/// The column titles of [`cells`]: the holder, how the holders share the lock, the fence, how long the lock has been
/// held, the rest of its lease, and the number of waiters.
pub(crate) const TITLES: [&str; 6] = ["HELD BY", "HOW", "FENCE", "FOR", "LEFT", "WAITING"];

/// Returns the table cells of a lock on one node, or of the summary of all nodes.
pub(crate) fn cells(lock: &LockOnNode) -> impl Iterator<Item = Cell> {
    let (holder, color) = match (&lock.trouble, &lock.holder) {
        (Some(trouble), _) => (trouble.clone(), Some(Paint::BAD)),
        (None, Some(holder)) => (holder.to_string(), None),
        (None, None) if lock.held => ("unknown".into(), None),
        (None, None) => ("-".into(), Some(Paint::DIM)),
    };
    let how = or_dash(sharing_text(lock).or_else(|| lock.mode.map(ToOwned::to_owned)));
    let digest = lock.digest.as_ref().map(|digest| format!("digest {digest}"));
    let fence = or_dash(lock.fence.map(|fence| fence.to_string()).or(digest));
    let held_for = or_dash(lock.since_ms.and_then(elapsed).map(show));
    let left = or_dash(lock.left_ms.map(|left| show(Duration::from_millis(left))));
    let others = [how, fence, held_for, left, lock.waiting.to_string()];
    std::iter::once((holder, color)).chain(others.map(|cell| (cell, None)))
}

/// Returns the state of the lock on a majority of the nodes, in the form of one node's report.
pub(crate) fn summary(lock: &LockView) -> LockOnNode {
    let is_changing_hands = !lock.held && lock.nodes.iter().any(|node| node.held);
    LockOnNode {
        trouble: is_changing_hands.then(|| "changing hands".to_owned()),
        held: lock.held,
        holder: lock.holder.clone(),
        mode: lock.mode,
        slots: lock.slots,
        holds: lock.holds,
        fence: lock.fence,
        digest: lock.digest.clone(),
        since_ms: lock.since_ms.filter(|_| lock.holder.is_some()),
        left_ms: lock.left_ms,
        waiting: lock.waiting,
        ..LockOnNode::default()
    }
}

/// Describes how the holders share the lock: `shared by 3`, `2 of 5 slots` or `entered 2 times`. Returns `None` for a
/// single holder.
pub(crate) fn sharing_text(lock: &LockOnNode) -> Option<String> {
    let holds = lock.holds;
    match (lock.mode?, lock.slots) {
        (_, Some(slots)) => Some(format!("{holds} of {slots} slots")),
        ("shared", _) => Some(format!("shared by {holds}")),
        ("reentrant", _) if holds > 1 => Some(format!("entered {holds} times")),
        _ => None,
    }
}

/// Formats a holder: `db-3 (pid 4121, backup.sh)`.
pub(crate) fn show_holder(holder: Option<&HolderView>) -> String {
    holder.map_or_else(|| "an unknown holder".into(), |holder| one_line(&holder.to_string()))
}

/// Returns how long ago this time was. The time is by a node's clock, which may be slightly ahead of ours.
pub(crate) fn elapsed(since_ms: u64) -> Option<Duration> {
    let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since_ms))?;
    Some(since.elapsed().unwrap_or_default())
}

/// Formats a value, or a dash.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}
