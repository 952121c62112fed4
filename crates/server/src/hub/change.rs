//! A lock from one read of the nodes to the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock::LockView;
use serde::Serialize;

use super::News;

/// How far the end of a lease may seem to move without a renewal: looks take their time.
const JITTER: Duration = Duration::from_millis(400);

/// A lock, and how often it was seen to be renewed.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) lock: LockView,
    /// When it was looked at, in milliseconds of Unix time: `left_ms` is as of then.
    pub(super) at_ms: u64,
    renewals: u64,
    ends: Option<Instant>,
    /// Whether its grant is in the history: then so is its end, unless it lapses.
    pub(super) is_written_down: bool,
    /// The event that told of it last. Only `left_ms` has changed since, with the time.
    pub(super) told: Arc<News>,
}

/// A lock as the stream tells of it.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    #[serde(flatten)]
    lock: &'a LockView,
    /// How often its lease was renewed, as far as looks have shown.
    renewals: u64,
    /// When it was looked at, in milliseconds of Unix time: `left_ms` is as of then.
    at_ms: u64,
}

impl Tracked {
    /// The lock as it was read now. If it has changed, `tell` makes an event of it.
    pub(super) fn after(
        before: Option<Self>,
        lock: LockView,
        at: Instant,
        at_ms: u64,
        is_granted: bool,
        tell: impl FnOnce(&Told<'_>) -> Arc<News>,
    ) -> Self {
        let ends = lock.left_ms.and_then(|left| at.checked_add(Duration::from_millis(left)));
        let same = before.as_ref().filter(|before| before.is_same_lease(&lock));
        let is_written_down = is_granted || same.is_some_and(|same| same.is_written_down);
        let ended_before = same.and_then(|same| same.ends);
        let is_renewed = ended_before.zip(ends).is_some_and(|(before, ends)| ends > before + JITTER);
        let renewals = same.map_or(0, |same| same.renewals + u64::from(is_renewed));
        match before {
            // It keeps the first end: small steps must not add up unseen.
            Some(before) if !is_renewed && still(&before.lock) == still(&lock) => {
                Self { lock, at_ms, renewals, ends: before.ends, is_written_down, told: before.told }
            }
            _ => {
                let told = tell(&Told { lock: &lock, renewals, at_ms });
                Self { lock, at_ms, renewals, ends, is_written_down, told }
            }
        }
    }

    /// Whether the lock is still held by the same lease.
    pub(super) fn is_same_lease(&self, now: &LockView) -> bool {
        self.lock.fence == now.fence && self.lock.digest == now.digest
    }
}

/// The lock without the times that pass by themselves.
fn still(lock: &LockView) -> LockView {
    let mut lock = LockView { left_ms: None, ..lock.clone() };
    for node in &mut lock.nodes {
        node.left_ms = None;
    }
    lock
}
