//! A lock from one look to the next.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::view::LockView;

/// How far the end of a lease may seem to move without a renewal: looks take their time.
const JITTER: Duration = Duration::from_millis(400);

/// A lock, and how often it was seen to be renewed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Tracked {
    #[serde(flatten)]
    pub(super) lock: LockView,
    /// How often its lease was renewed, as far as looks have shown.
    renewals: u64,
    /// When it was looked at, in milliseconds of Unix time: `left_ms` is as of then.
    pub(super) at_ms: u64,
    #[serde(skip)]
    ends: Option<Instant>,
    /// Whether its grant is in the history: then so is its end, unless it lapses.
    #[serde(skip)]
    pub(super) is_written_down: bool,
}

impl Tracked {
    /// What is known now, and whether that is worth telling.
    pub(super) fn after(
        before: Option<Self>,
        lock: LockView,
        at: Instant,
        at_ms: u64,
        is_granted: bool,
    ) -> (Self, bool) {
        let ends = lock.left_ms.and_then(|left| at.checked_add(Duration::from_millis(left)));
        let Some(before) = before else {
            return (Self { lock, renewals: 0, at_ms, ends, is_written_down: is_granted }, true);
        };
        let is_same_lease = before.is_same_lease(&lock);
        let is_written_down = is_granted || is_same_lease && before.is_written_down;
        let is_renewed = match (before.ends, ends) {
            (Some(before), Some(ends)) => is_same_lease && ends > before + JITTER,
            _ => false,
        };
        let renewals = if is_same_lease { before.renewals + u64::from(is_renewed) } else { 0 };
        let is_new = is_renewed || still(&before.lock) != still(&lock);
        // Small steps must not add up unseen.
        let ends = if is_new { ends } else { before.ends };
        (Self { lock, renewals, at_ms, ends, is_written_down }, is_new)
    }

    /// Whether the lock is still held by the same lease.
    pub(super) fn is_same_lease(&self, now: &LockView) -> bool {
        self.lock.fence == now.fence && self.lock.digest == now.digest
    }
}

/// The lock as if time stood still.
fn still(lock: &LockView) -> LockView {
    let mut lock = LockView { left_ms: None, ..lock.clone() };
    for node in &mut lock.nodes {
        node.left_ms = None;
    }
    lock
}
