//! The copy, and the events that led to it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use quorlock::{EventView, HISTORY_MAX, LockView, ReadError};
use serde_json::{Value, json};

use super::change::{Tracked, outages};
use super::lapses::{self, Lapses};
use super::past::Past;
use super::{HISTORY_SHOWN, Mark, News, PACE, Snapshot, to_json, unix_millis};
use crate::view::{MissingNode, NodesView};

/// The memory for events that are kept for slow or reconnecting readers of the stream: sufficient for a change of
/// 10,000 locks with long names.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The approximate memory of an event besides its text.
const NEWS_BYTES: usize = 128;
/// The largest number of single names that were read in the last second and are kept.
const LOOKS_MAX: usize = 1_024;

/// The largest number of outages of nodes that are kept.
const OUTAGES_MAX: usize = 200;

/// The copy of the nodes' state.
#[derive(Default)]
pub(super) struct State {
    /// The mark of the newest event. The marks of kept events are consecutive.
    pub(super) last: Mark,
    pub(super) kept: VecDeque<Arc<News>>,
    kept_bytes: usize,
    pub(super) locks: BTreeMap<Arc<str>, Tracked>,
    pub(super) nodes: NodesView,
    /// Newest first.
    pub(super) history: Vec<EventView>,
    past: Past,
    /// The data of the newest `node` events, newest first.
    pub(super) outages: VecDeque<Value>,
    pub(super) lapses: Lapses,
    pub(super) read: Option<Read>,
    /// Single names that were read from the nodes recently, with the time of the read as an instant and in milliseconds
    /// of Unix time.
    looks: HashMap<String, (Instant, u64, LockView)>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

/// The last read of the nodes.
pub(super) struct Read {
    /// The time at which it began, in milliseconds of Unix time.
    pub(super) as_of: u64,
    pub(super) good_until: Instant,
    pub(super) listed: Result<Listed, ReadError>,
    pub(super) recalled: Result<(), ReadError>,
}

/// How complete the list of locks is.
#[derive(Clone)]
pub(super) struct Listed {
    /// Whether there may be more names.
    pub(super) is_cut: bool,
    pub(super) missing: Vec<MissingNode>,
}

impl Read {
    pub(super) fn is_good(&self) -> bool {
        Instant::now() < self.good_until
    }
}

impl State {
    /// Adds an event to the stream.
    pub(super) fn tell(&mut self, what: &'static str, data: String, name: Option<Arc<str>>) -> Arc<News> {
        self.last = self.last.next();
        let news = Arc::new(News { mark: self.last, what, data, name });
        self.kept_bytes += news.bytes();
        self.kept.push_back(Arc::clone(&news));
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.kept_bytes -= oldest.bytes();
        }
        news
    }

    /// Updates the nodes, and publishes which of them stopped or resumed voting.
    pub(super) fn see_nodes(&mut self, nodes: NodesView) {
        let before = std::mem::replace(&mut self.nodes, nodes);
        for outage in outages(&before, &self.nodes) {
            self.tell("node", outage.to_string(), None);
            self.outages.push_front(outage);
        }
        self.outages.truncate(OUTAGES_MAX);
    }

    /// Updates the copy, and publishes the changes. `is_cut` says that there may be more locks.
    pub(super) fn take_in(
        &mut self,
        locks: Option<Vec<LockView>>,
        is_cut: bool,
        history: Option<(Vec<EventView>, bool)>,
    ) {
        let sees_all = locks.is_some() && history.is_some() && !is_cut;
        if let Some(locks) = locks {
            let granted = lapses::granted(history.as_ref().map_or(&[], |(events, _)| events));
            self.compare(locks, &granted);
        }
        if !sees_all {
            self.lapses.lose_sight();
        }
        if let Some((events, is_all)) = history {
            if sees_all {
                self.lapses.is_watching = true;
                for lapse in self.lapses.judge(&events) {
                    self.tell_event(&lapse);
                }
            }
            self.remember(events, is_all);
        }
    }

    pub(super) fn add_look(&mut self, as_of: u64, lock: LockView) {
        self.looks.retain(|_, (at, ..)| at.elapsed() < PACE);
        if self.looks.len() < LOOKS_MAX || self.looks.contains_key(&lock.name) {
            self.looks.insert(lock.name.clone(), (Instant::now(), as_of, lock));
        }
    }

    pub(super) fn find_look(&self, name: &str) -> Option<(u64, LockView)> {
        let (at, as_of, lock) = self.looks.get(name)?;
        (at.elapsed() < PACE).then(|| (*as_of, lock.clone()))
    }

    /// Publishes the locks that have changed since the last read.
    fn compare(&mut self, locks: Vec<LockView>, granted: &HashSet<(&str, u64)>) {
        let mut before = std::mem::take(&mut self.locks);
        let (at, at_ms) = (Instant::now(), unix_millis());
        for lock in locks {
            let (name, earlier) = match before.remove_entry(lock.name.as_str()) {
                Some((name, earlier)) => (name, Some(earlier)),
                None => (Arc::from(lock.name.as_str()), None),
            };
            if let Some(earlier) = &earlier {
                self.lapses.compare(earlier, Some(&lock), at_ms);
            }
            let is_granted = lock.fence.is_some_and(|fence| granted.contains(&(&*name, fence)));
            let tracked = Tracked::after(earlier, lock, at, at_ms, is_granted, |told| {
                self.tell("lock", to_json(told), Some(Arc::clone(&name)))
            });
            self.locks.insert(name, tracked);
        }
        for (name, earlier) in before {
            self.lapses.compare(&earlier, None, at_ms);
            self.tell("gone", json!({"name": &*name}).to_string(), Some(name));
        }
    }

    /// Returns whether these events, newest first, reach back to events that are already known.
    pub(super) fn reaches(&self, events: &[EventView]) -> bool {
        self.past.reaches(events) && events.last().is_none_or(|oldest| self.history.contains(oldest))
    }

    /// Publishes the events that happened since the last read.
    pub(super) fn remember(&mut self, mut events: Vec<EventView>, is_all: bool) {
        if events.len() >= HISTORY_MAX && !self.past.meets(&events) {
            let at_ms = events.last().map_or(0, |oldest| oldest.at_ms);
            self.tell("gap", json!({"at_ms": at_ms}).to_string(), None);
        }
        let fresh = self.past.add(&events, HISTORY_SHOWN);
        self.lapses.hear(fresh.len());
        // The first read has no earlier one to compare with.
        if self.read.is_some() {
            for event in &fresh {
                self.tell_event(event);
            }
        }
        if !is_all && let Some(oldest) = events.last() {
            let older = self.history.iter().position(|known| known == oldest).map_or(self.history.len(), |at| at + 1);
            events.extend(self.history.drain(older..));
            events.truncate(HISTORY_MAX);
        }
        self.history = events;
    }

    fn tell_event(&mut self, event: &EventView) {
        self.tell("history", to_json(event), Some(event.name.as_str().into()));
    }

    /// Returns a snapshot. All readers get the same snapshot while one of them still reads it and the events after it
    /// are kept.
    pub(super) fn snapshot(&mut self) -> &Arc<Snapshot> {
        let shared = self.snapshot.take().filter(|one| one.is_being_read() && self.count_after(one.mark).is_some());
        let snapshot = shared.unwrap_or_else(|| Arc::new(Snapshot::new(self)));
        self.snapshot.insert(snapshot)
    }

    /// Returns the number of events after the mark, if all of them are kept.
    pub(super) fn count_after(&self, mark: Mark) -> Option<usize> {
        self.last.steps_after(mark).filter(|steps| *steps <= self.kept.len())
    }

    /// Frees the snapshot if nobody reads it.
    pub(super) fn drop_idle_snapshot(&mut self) {
        self.snapshot.take_if(|snapshot| !Snapshot::is_being_read(snapshot));
    }
}

impl News {
    fn bytes(&self) -> usize {
        NEWS_BYTES + self.data.len() + self.name.as_ref().map_or(0, |name| name.len())
    }
}
