//! Detects changes between two reads of the nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock::LockView;
use serde::Serialize;
use serde_json::{Value, json};

use super::{StreamEvent, unix_millis};
use crate::view::{NodeView, NodesView};

/// The expiry of a lease may seem to move by this much without a renewal, because reads take time.
const JITTER: Duration = Duration::from_millis(400);

/// A lock in the copy, and what the hub knows about it from earlier reads.
#[derive(Clone, Debug)]
pub(super) struct TrackedLock {
    pub(super) lock: LockView,
    /// The time of the last read, in milliseconds of Unix time. `lock.left_ms` is counted from this time.
    pub(super) at_ms: u64,
    /// The number of renewals of the lease that reads have shown.
    renewals: u64,
    expires_at: Option<Instant>,
    /// Whether the history has the grant of the lease. If so, the history will also have the end of the lease, unless
    /// the lease expires.
    pub(super) has_recorded_grant: bool,
    /// The last event about the lock. Since that event, only the remaining time of the lease has changed.
    pub(super) event: Arc<StreamEvent>,
}

/// The data of a `lock` event.
#[derive(Serialize)]
pub(super) struct LockEvent<'a> {
    #[serde(flatten)]
    lock: &'a LockView,
    /// The number of renewals of the lease that reads have shown.
    renewals: u64,
    /// The time of the read, in milliseconds of Unix time. `left_ms` of the lock is counted from this time.
    at_ms: u64,
}

impl TrackedLock {
    /// Returns the tracked form of a lock that was read at `read_at`, which is `at_ms` in Unix time. If the lock has
    /// changed since `before`, publishes an event with `publish`.
    pub(super) fn update(
        before: Option<Self>,
        lock: LockView,
        read_at: Instant,
        at_ms: u64,
        is_grant_in_history: bool,
        publish: impl FnOnce(&LockEvent<'_>) -> Arc<StreamEvent>,
    ) -> Self {
        let expires_at = lock.left_ms.and_then(|left| read_at.checked_add(Duration::from_millis(left)));
        let same_lease = before.as_ref().filter(|before| before.is_same_lease(&lock));
        let has_recorded_grant = is_grant_in_history || same_lease.is_some_and(|before| before.has_recorded_grant);
        let expected = same_lease.and_then(|before| before.expires_at);
        let is_renewed = expected.zip(expires_at).is_some_and(|(expected, now)| now > expected + JITTER);
        let renewals = same_lease.map_or(0, |before| before.renewals + u64::from(is_renewed));
        let is_unchanged = |before: &Self| without_countdowns(&before.lock) == without_countdowns(&lock);
        let (expires_at, event) = match before.filter(|before| !is_renewed && is_unchanged(before)) {
            // Keep the first estimate of the expiry, so that small differences do not add up.
            Some(before) => (before.expires_at, before.event),
            None => (expires_at, publish(&LockEvent { lock: &lock, renewals, at_ms })),
        };
        Self { lock, at_ms, renewals, expires_at, has_recorded_grant, event }
    }

    /// Returns whether the lock still has the same lease in `now`, a newer state of the lock.
    pub(super) fn is_same_lease(&self, now: &LockView) -> bool {
        self.lock.fence == now.fence && self.lock.digest == now.digest
    }
}

/// Returns the lock without its remaining times, which differ in every read.
fn without_countdowns(lock: &LockView) -> LockView {
    let mut lock = LockView { left_ms: None, ..lock.clone() };
    for node in &mut lock.nodes {
        node.left_ms = None;
    }
    lock
}

/// Returns the data of a `node` event for each node that has changed its state or restarted. A node that was not known
/// before has no event.
pub(super) fn outage_events(before: &NodesView, now: &NodesView) -> Vec<Value> {
    let find = |node: &NodeView| before.nodes.iter().find(|before| before.node == node.node);
    let pairs = now.nodes.iter().filter_map(|node| Some((find(node)?, node)));
    let changed = pairs.filter(|(before, now)| (before.state, before.restarts) != (now.state, now.restarts));
    changed.map(|(before, now)| outage_event(before, now)).collect()
}

fn outage_event(before: &NodeView, now: &NodeView) -> Value {
    let is_restarted = now.restarts > before.restarts;
    let what = match now.state {
        _ if is_restarted => "restarted",
        "voting" => "votes again",
        state => state,
    };
    let default_reason = || if is_restarted { "it lost its memory".into() } else { format!("it was {}", before.state) };
    let reason = now.trouble.clone().unwrap_or_else(default_reason);
    json!({"at_ms": unix_millis(), "node": now.node, "what": what, "reason": reason})
}
