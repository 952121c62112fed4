//! Lapses: leases that expired because nobody renewed them. The nodes record no event for a lapse.
//!
//! This replica concludes that a lease has lapsed if all of these are true: one read of the nodes found the lease, and
//! a later read did not; the ttl of the lease ended at about that time; and the history has the grant of the lease, but
//! not its end. Therefore the replica reports a lapse only if the history has the grant of the lease, and only while
//! the replica sees all locks and all events.

use std::collections::{HashMap, HashSet, VecDeque};

use quorlock::{EventView, HeldMode, LockView, What};

use super::change::TrackedLock;

/// The largest number of lapses that are kept.
const LAPSES_MAX: usize = 200;
/// After the read that finds a lease gone, the end of the lease may appear in the history up to this many reads later,
/// because a client takes up to a second to write an event.
const END_DELAY_READS: u32 = 2;
/// If there are more new events than this between two reads, the clients may have failed to record some events.
const NEW_EVENTS_MAX: usize = 500;
/// The largest assumed difference between this host's clock and the clocks by which events are dated.
const CLOCK_DIFFERENCE_MAX_MS: u64 = 10_000;
/// The largest error of the estimated expiry of a lease, because reads take time.
const JITTER_MS: u64 = 400;

/// Suspected and reported lapses.
#[derive(Debug, Default)]
pub(super) struct Lapses {
    /// Whether the last read saw all locks and all events.
    pub(super) has_full_view: bool,
    suspects: Vec<Suspect>,
    /// The reported lapses, newest first.
    pub(super) reported: VecDeque<EventView>,
}

/// A lease that is gone, and may have lapsed.
#[derive(Debug)]
struct Suspect {
    /// The event to report if the lease has lapsed.
    lapse: EventView,
    /// When a read last found the lease, in milliseconds of Unix time.
    last_seen_ms: u64,
    /// The number of reads since the lease was found to be gone.
    reads_since: u32,
}

impl Suspect {
    /// Returns whether this event explains the end of the lease. If so, the lease has not lapsed.
    fn is_explained_by(&self, end: &EventView) -> bool {
        // The event of a release by key may lack the fence.
        let is_same_lease = end.fence.is_none() || end.fence == self.lapse.fence;
        is_same_lease && end.at_ms.saturating_add(CLOCK_DIFFERENCE_MAX_MS) >= self.last_seen_ms
    }
}

/// Returns the event for a lease that lapsed at about this time.
pub(super) fn lapse_event(lock: &LockView, at_ms: u64) -> EventView {
    EventView {
        at_ms,
        name: lock.name.clone(),
        what: "lapsed",
        fence: lock.fence,
        by: lock.holder.clone(),
        mode: lock.mode.unwrap_or_default().to_owned(),
        reason: "nobody renewed it".into(),
    }
}

/// Returns whether an event reports the end of a lease.
fn is_end(event: &EventView) -> bool {
    event.what != What::Granted.as_str()
}

/// Returns the name and the fence of each lease whose grant is in the history.
pub(super) fn granted_leases(history: &[EventView]) -> HashSet<(&str, u64)> {
    let grants = history.iter().filter(|event| !is_end(event));
    grants.filter_map(|grant| Some((grant.name.as_str(), grant.fence?))).collect()
}

impl Lapses {
    /// Records that the hub may have missed locks or events. Drops all suspects, because the event that explains the
    /// end of a suspect may be among the missed events.
    pub(super) fn lose_full_view(&mut self) {
        self.has_full_view = false;
        self.suspects.clear();
    }

    /// Compares the state of a lock in the last read with its state now (`None` if the lock is no longer listed). If
    /// the lease is gone and may have lapsed, adds the lease to the suspects.
    pub(super) fn check(&mut self, before: &TrackedLock, now: Option<&LockView>, now_ms: u64) {
        let lock = &before.lock;
        // If several leases share a lock, it is unknown which of the leases is gone.
        let is_exclusive = lock.mode.is_some_and(|mode| HeldMode::SINGLE_OWNER.contains(&mode));
        if !self.has_full_view || !is_exclusive || !lock.held || !before.has_recorded_grant {
            return;
        }
        let expiry_ms = lock.left_ms.and_then(|left| before.at_ms.checked_add(left));
        let Some(at_ms) = expiry_ms.filter(|expiry| *expiry <= now_ms.saturating_add(JITTER_MS)) else { return };
        let is_gone = match now {
            // The read covered a majority of the nodes, and so at least one node that had granted the lease. That node
            // would have listed the lock.
            None => true,
            Some(now) if now.held => !before.is_same_lease(now),
            Some(now) => now.nodes.iter().all(|node| node.trouble.is_none()),
        };
        if is_gone {
            let lapse = lapse_event(lock, at_ms.min(now_ms));
            self.suspects.push(Suspect { lapse, last_seen_ms: before.at_ms, reads_since: 0 });
        }
    }

    /// Returns the new lapses: suspects that have been gone for enough reads, without an event about their end in
    /// `history`, which has the newest events.
    pub(super) fn confirm(&mut self, history: &[EventView]) -> Vec<EventView> {
        if self.suspects.is_empty() {
            return Vec::new();
        }
        let mut ends: HashMap<&str, Vec<&EventView>> = HashMap::new();
        for end in history.iter().filter(|event| is_end(event)) {
            ends.entry(&end.name).or_default().push(end);
        }
        self.suspects.retain_mut(|suspect| {
            suspect.reads_since += 1;
            let ends_of_name = ends.get(suspect.lapse.name.as_str());
            !ends_of_name.is_some_and(|ends| ends.iter().any(|end| suspect.is_explained_by(end)))
        });
        let certain = self.suspects.extract_if(.., |suspect| suspect.reads_since > END_DELAY_READS);
        let lapses: Vec<_> = certain.map(|suspect| suspect.lapse).collect();
        for lapse in &lapses {
            self.reported.push_front(lapse.clone());
        }
        self.reported.truncate(LAPSES_MAX);
        lapses
    }

    /// Records that the hub may have missed events, if this number of new events since the last read is too large.
    pub(super) fn check_new_event_count(&mut self, count: usize) {
        if count > NEW_EVENTS_MAX {
            self.lose_full_view();
        }
    }
}
