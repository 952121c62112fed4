//! The copy of the nodes' state, and the newest events of the stream.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use quorlock::{EventView, HISTORY_MAX, LockView, ReadError};
use serde_json::{Value, json};

use super::change::{TrackedLock, outage_events};
use super::lapses::{self, Lapses};
use super::published::PublishedEvents;
use super::{EventId, FRESH_FOR, SNAPSHOT_EVENTS, Snapshot, StreamEvent, to_json, unix_millis};
use crate::view::{MissingNode, NodesView};

/// The memory for the events that the hub keeps for slow or reconnecting readers of the stream. It is sufficient for
/// one event about each of 10,000 locks with long names.
const EVENTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The approximate memory of an event besides its text.
const EVENT_OVERHEAD_BYTES: usize = 128;
/// The largest number of inspections that the hub keeps.
const INSPECTIONS_MAX: usize = 1_024;
/// The largest number of `node` events that the hub keeps for snapshots.
const OUTAGES_MAX: usize = 200;

/// The copy of the nodes' state, and the newest events of the stream.
#[derive(Default)]
pub(super) struct State {
    pub(super) newest_id: EventId,
    /// The newest events, oldest first. Their ids are consecutive.
    pub(super) events: VecDeque<Arc<StreamEvent>>,
    events_bytes: usize,
    pub(super) locks: BTreeMap<Arc<str>, TrackedLock>,
    pub(super) nodes: NodesView,
    /// The newest events of the history, newest first.
    pub(super) history: Vec<EventView>,
    published: PublishedEvents,
    /// The data of the newest `node` events, newest first.
    pub(super) outages: VecDeque<Value>,
    pub(super) lapses: Lapses,
    pub(super) last_read: Option<LastRead>,
    /// Locks that were inspected in the last second, by name. Each has the time of its inspection, as an instant and in
    /// milliseconds of Unix time.
    inspections: HashMap<String, (Instant, u64, LockView)>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

/// The last read of the nodes into the copy.
pub(super) struct LastRead {
    /// When the read began, in milliseconds of Unix time.
    pub(super) as_of: u64,
    pub(super) fresh_until: Instant,
    /// How complete the list of locks is, or why the locks could not be read.
    pub(super) coverage: Result<ListCoverage, ReadError>,
    /// Whether the read of the history succeeded.
    pub(super) history: Result<(), ReadError>,
}

/// How complete the list of locks in the copy is.
#[derive(Clone)]
pub(super) struct ListCoverage {
    /// Whether there may be more locks than the copy has.
    pub(super) is_truncated: bool,
    /// The nodes that could not be searched.
    pub(super) missing: Vec<MissingNode>,
}

impl State {
    /// Adds an event to the stream.
    pub(super) fn publish(&mut self, kind: &'static str, data: String, name: Option<Arc<str>>) -> Arc<StreamEvent> {
        self.newest_id = self.newest_id.next();
        let event = Arc::new(StreamEvent { id: self.newest_id, kind, data, name });
        self.events_bytes += event.bytes();
        self.events.push_back(Arc::clone(&event));
        while self.events_bytes > EVENTS_BYTES_MAX
            && let Some(oldest) = self.events.pop_front()
        {
            self.events_bytes -= oldest.bytes();
        }
        event
    }

    /// Updates the nodes, and publishes which nodes stopped or resumed voting, or restarted.
    pub(super) fn update_nodes(&mut self, nodes: NodesView) {
        let before = std::mem::replace(&mut self.nodes, nodes);
        for outage in outage_events(&before, &self.nodes) {
            self.publish("node", outage.to_string(), None);
            self.outages.push_front(outage);
        }
        self.outages.truncate(OUTAGES_MAX);
    }

    /// Updates the locks and the history in the copy, and publishes the changes. `locks` or `history` is `None` if it
    /// could not be read. `is_truncated` says whether there may be more locks. The flag in `history` says whether these
    /// are all events that the nodes keep.
    pub(super) fn update(
        &mut self,
        locks: Option<Vec<LockView>>,
        is_truncated: bool,
        history: Option<(Vec<EventView>, bool)>,
    ) {
        let sees_all = locks.is_some() && history.is_some() && !is_truncated;
        if let Some(locks) = locks {
            let recorded_grants = lapses::granted_leases(history.as_ref().map_or(&[], |(events, _)| events));
            self.update_locks(locks, &recorded_grants);
        }
        if !sees_all {
            self.lapses.lose_full_view();
        }
        if let Some((events, is_all)) = history {
            if sees_all {
                self.lapses.has_full_view = true;
                for lapse in self.lapses.confirm(&events) {
                    self.publish_history_event(&lapse);
                }
            }
            self.update_history(events, is_all);
        }
    }

    pub(super) fn add_inspection(&mut self, as_of: u64, lock: LockView) {
        self.inspections.retain(|_, (at, ..)| at.elapsed() < FRESH_FOR);
        if self.inspections.len() < INSPECTIONS_MAX || self.inspections.contains_key(&lock.name) {
            self.inspections.insert(lock.name.clone(), (Instant::now(), as_of, lock));
        }
    }

    pub(super) fn recent_inspection(&self, name: &str) -> Option<(u64, LockView)> {
        let (at, as_of, lock) = self.inspections.get(name)?;
        (at.elapsed() < FRESH_FOR).then(|| (*as_of, lock.clone()))
    }

    /// Updates the locks, and publishes the locks that have changed since the last read.
    fn update_locks(&mut self, locks: Vec<LockView>, recorded_grants: &HashSet<(&str, u64)>) {
        let mut before = std::mem::take(&mut self.locks);
        let (read_at, at_ms) = (Instant::now(), unix_millis());
        for lock in locks {
            let (name, earlier) = match before.remove_entry(lock.name.as_str()) {
                Some((name, earlier)) => (name, Some(earlier)),
                None => (Arc::from(lock.name.as_str()), None),
            };
            if let Some(earlier) = &earlier {
                self.lapses.check(earlier, Some(&lock), at_ms);
            }
            let has_recorded_grant = lock.fence.is_some_and(|fence| recorded_grants.contains(&(&*name, fence)));
            let tracked = TrackedLock::update(earlier, lock, read_at, at_ms, has_recorded_grant, |event| {
                self.publish("lock", to_json(event), Some(Arc::clone(&name)))
            });
            self.locks.insert(name, tracked);
        }
        for (name, earlier) in before {
            self.lapses.check(&earlier, None, at_ms);
            self.publish("gone", json!({"name": &*name}).to_string(), Some(name));
        }
    }

    /// Returns whether the hub already has the oldest of these events, which are sorted newest first.
    pub(super) fn knows_oldest_of(&self, events: &[EventView]) -> bool {
        self.published.contains_oldest_of(events) && events.last().is_none_or(|oldest| self.history.contains(oldest))
    }

    /// Updates the history, and publishes the events that are new since the last read. `is_all` says whether these are
    /// all events that the nodes keep.
    pub(super) fn update_history(&mut self, mut events: Vec<EventView>, is_all: bool) {
        if events.len() >= HISTORY_MAX && !self.published.contains_any_of(&events) {
            let at_ms = events.last().map_or(0, |oldest| oldest.at_ms);
            self.publish("gap", json!({"at_ms": at_ms}).to_string(), None);
        }
        let new = self.published.add(&events, SNAPSHOT_EVENTS);
        self.lapses.check_new_event_count(new.len());
        // No follower needs the events of the first read, because every follower starts with a snapshot.
        if self.last_read.is_some() {
            for event in &new {
                self.publish_history_event(event);
            }
        }
        if !is_all && let Some(oldest) = events.last() {
            let older = self.history.iter().position(|known| known == oldest).map_or(self.history.len(), |at| at + 1);
            events.extend(self.history.drain(older..));
            events.truncate(HISTORY_MAX);
        }
        self.history = events;
    }

    fn publish_history_event(&mut self, event: &EventView) {
        self.publish("history", to_json(event), Some(event.name.as_str().into()));
    }

    /// Returns a snapshot. All followers share one snapshot while a follower reads it and the hub keeps the events
    /// after it.
    pub(super) fn snapshot(&mut self) -> &Arc<Snapshot> {
        let shared = self.snapshot.take().filter(|one| one.is_being_read() && self.count_after(one.id).is_some());
        let snapshot = shared.unwrap_or_else(|| Arc::new(Snapshot::new(self)));
        self.snapshot.insert(snapshot)
    }

    /// Returns the number of events after the event with this id, if the hub keeps all of these events.
    pub(super) fn count_after(&self, id: EventId) -> Option<usize> {
        self.newest_id.count_after(id).filter(|count| *count <= self.events.len())
    }

    /// Frees the snapshot if no follower reads it.
    pub(super) fn drop_unread_snapshot(&mut self) {
        self.snapshot.take_if(|snapshot| !Snapshot::is_being_read(snapshot));
    }
}

impl StreamEvent {
    fn bytes(&self) -> usize {
        EVENT_OVERHEAD_BYTES + self.data.len() + self.name.as_ref().map_or(0, |name| name.len())
    }
}
