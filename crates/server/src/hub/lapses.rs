//! Leases that ended because nobody renewed them, as this replica has seen it. The nodes record no event for them.
//!
//! The replica infers a lapse from a missing event: one read of the nodes found the lease, the next read did not, its
//! ttl ended at about that time, and the history has its grant but not its end. Therefore the replica reports only
//! lapses of leases whose grant is in the history, and only while it sees all locks and all events.

use std::collections::{HashMap, HashSet, VecDeque};

use quorlock::{EventView, LockView, Period, What};

use super::change::Tracked;

/// The largest number of lapses that are kept.
const LAPSES_MAX: usize = 200;
/// The number of further reads in which the end of a lease may still appear: another replica takes up to a second to
/// write it.
const LOOKS: u32 = 2;
/// If there are more events than this between two reads, some may not have been recorded.
const EVENTS_MAX: usize = 500;
/// How far the nodes' clocks, by which events are dated, may be from this host's clock.
const CLOCKS_MS: u64 = 10_000;
/// How far the end of a lease may be from its estimate, because reads take time.
const JITTER_MS: u64 = 400;

/// Suspected and reported lapses.
#[derive(Debug, Default)]
pub(super) struct Lapses {
    /// Whether the last read saw all locks and all events.
    pub(super) is_watching: bool,
    suspected: Vec<Suspect>,
    /// Newest first.
    pub(super) seen: VecDeque<EventView>,
}

/// A lease that is gone.
#[derive(Debug)]
struct Suspect {
    lapse: EventView,
    /// The time at which it was last seen.
    held_ms: u64,
    /// The number of reads since then.
    looks: u32,
}

impl Suspect {
    /// Returns whether this event explains the end, so that it is not a lapse.
    fn is_told_by(&self, end: &EventView) -> bool {
        // A release by key may not have the fence.
        let is_its_own = end.fence.is_none() || end.fence == self.lapse.fence;
        is_its_own && end.at_ms.saturating_add(CLOCKS_MS) >= self.held_ms
    }
}

/// Returns the event of a lease that lapsed at about this time.
pub(super) fn lapsed(lock: &LockView, at_ms: u64) -> EventView {
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

/// Returns whether an event ends a lease.
fn is_end(event: &EventView) -> bool {
    event.what != What::Granted.as_str()
}

/// Returns the leases that were granted, by name and fence.
pub(super) fn granted(history: &[EventView]) -> HashSet<(&str, u64)> {
    let grants = history.iter().filter(|event| !is_end(event));
    grants.filter_map(|grant| Some((grant.name.as_str(), grant.fence?))).collect()
}

impl Lapses {
    /// Drops all suspects: some events or locks may have been missed, so a missing end proves nothing.
    pub(super) fn lose_sight(&mut self) {
        self.is_watching = false;
        self.suspected.clear();
    }

    /// Compares a lock with its last state.
    pub(super) fn compare(&mut self, before: &Tracked, now: Option<&LockView>, now_ms: u64) {
        let lock = &before.lock;
        // If several leases share a lock, it is unknown which one is gone.
        let is_one = lock.mode.is_some_and(|mode| Period::ALONE.contains(&mode));
        if !self.is_watching || !is_one || !lock.held || !before.is_written_down {
            return;
        }
        let ends_ms = lock.left_ms.and_then(|left| before.at_ms.checked_add(left));
        let Some(at_ms) = ends_ms.filter(|ends| *ends <= now_ms.saturating_add(JITTER_MS)) else { return };
        let is_over = match now {
            // The read covered a majority of the nodes, which shares a node with the majority that had the lease.
            None => true,
            Some(now) if now.held => !before.is_same_lease(now),
            Some(now) => now.nodes.iter().all(|node| node.trouble.is_none()),
        };
        if is_over {
            let lapse = lapsed(lock, at_ms.min(now_ms));
            self.suspected.push(Suspect { lapse, held_ms: before.at_ms, looks: 0 });
        }
    }

    /// Returns the lapses: leases that have been gone for long enough, without an end among the newest events.
    pub(super) fn judge(&mut self, history: &[EventView]) -> Vec<EventView> {
        if self.suspected.is_empty() {
            return Vec::new();
        }
        let mut ends: HashMap<&str, Vec<&EventView>> = HashMap::new();
        for end in history.iter().filter(|event| is_end(event)) {
            ends.entry(&end.name).or_default().push(end);
        }
        self.suspected.retain_mut(|suspect| {
            suspect.looks += 1;
            let told = ends.get(suspect.lapse.name.as_str());
            !told.is_some_and(|ends| ends.iter().any(|end| suspect.is_told_by(end)))
        });
        let certain = self.suspected.extract_if(.., |suspect| suspect.looks > LOOKS);
        let lapsed: Vec<_> = certain.map(|suspect| suspect.lapse).collect();
        for lapse in &lapsed {
            self.seen.push_front(lapse.clone());
        }
        self.seen.truncate(LAPSES_MAX);
        lapsed
    }

    /// Records how many events are new since the last read.
    pub(super) fn hear(&mut self, fresh: usize) {
        if fresh > EVENTS_MAX {
            self.lose_sight();
        }
    }
}
