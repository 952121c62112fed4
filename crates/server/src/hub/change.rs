//! Detects changes between two reads of the nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock::LockView;
use serde::Serialize;
use serde_json::{Value, json};

use super::{News, unix_millis};
use crate::view::{NodeView, NodesView};

/// How far the end of a lease may seem to move without a renewal, because reads take time.
const JITTER: Duration = Duration::from_millis(400);

/// A lock, and the number of renewals seen.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) lock: LockView,
    /// The time of the read, in milliseconds of Unix time. `left_ms` is counted from this time.
    pub(super) at_ms: u64,
    renewals: u64,
    ends: Option<Instant>,
    /// Whether the history has its grant. If so, the history will also have its end, unless the lease lapses.
    pub(super) is_written_down: bool,
    /// The last event about the lock. Since that event, only `left_ms` has changed.
    pub(super) told: Arc<News>,
}

/// A lock as the stream reports it.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    #[serde(flatten)]
    lock: &'a LockView,
    /// The number of renewals of its lease that reads have shown.
    renewals: u64,
    /// The time of the read, in milliseconds of Unix time. `left_ms` is counted from this time.
    at_ms: u64,
}

impl Tracked {
    /// Returns the lock as it was read now. If it has changed, `tell` publishes an event.
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
            // Keep the first estimate of the end, so that small differences do not add up.
            Some(before) if !is_renewed && still(&before.lock) == still(&lock) => {
                Self { lock, at_ms, renewals, ends: before.ends, is_written_down, told: before.told }
            }
            _ => {
                let told = tell(&Told { lock: &lock, renewals, at_ms });
                Self { lock, at_ms, renewals, ends, is_written_down, told }
            }
        }
    }

    /// Returns whether the same lease still holds the lock.
    pub(super) fn is_same_lease(&self, now: &LockView) -> bool {
        self.lock.fence == now.fence && self.lock.digest == now.digest
    }
}

/// Returns the lock without the times that change as time passes.
fn still(lock: &LockView) -> LockView {
    let mut lock = LockView { left_ms: None, ..lock.clone() };
    for node in &mut lock.nodes {
        node.left_ms = None;
    }
    lock
}

/// Returns the data of a `node` event for each node that stopped or resumed voting. A node that is seen for the first
/// time has no change.
pub(super) fn outages(before: &NodesView, now: &NodesView) -> Vec<Value> {
    let find = |node: &NodeView| before.nodes.iter().find(|before| before.node == node.node);
    let pairs = now.nodes.iter().filter_map(|node| Some((find(node)?, node)));
    let changed = pairs.filter(|(before, now)| (before.state, before.restarts) != (now.state, now.restarts));
    changed.map(|(before, now)| outage(before, now)).collect()
}

fn outage(before: &NodeView, now: &NodeView) -> Value {
    let is_restarted = now.restarts > before.restarts;
    let what = match now.state {
        _ if is_restarted => "restarted",
        "voting" => "votes again",
        state => state,
    };
    let guess = || if is_restarted { "it lost its memory".into() } else { format!("it was {}", before.state) };
    let reason = now.trouble.clone().unwrap_or_else(guess);
    json!({"at_ms": unix_millis(), "node": now.node, "what": what, "reason": reason})
}
