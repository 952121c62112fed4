//! The copy itself, and the events that led to it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use quorlock::{HISTORY_MAX, Listing, LockView, ReadError};
use serde::Serialize;

use super::answer::Looks;
use super::change::Tracked;
use super::lapses::{self, Lapses};
use super::outages::Outages;
use super::past::Past;
use super::{HISTORY_SHOWN, Mark, News, Snapshot, json, unix_millis};
use crate::view::{EventView, NodesView};

/// How much memory the events take that are kept for followers that come back or are slow: about as much as 10,000 locks
/// with long names that all change at once.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What an event takes besides its text, about.
const NEWS_BYTES: usize = 128;

/// What is known of the nodes.
pub(super) struct State {
    /// The mark of the newest event. Those of kept events are consecutive.
    pub(super) last: Mark,
    pub(super) kept: VecDeque<Arc<News>>,
    kept_bytes: usize,
    pub(super) locks: BTreeMap<Arc<str>, Tracked>,
    pub(super) nodes: NodesView,
    /// Newest first.
    pub(super) history: Vec<EventView>,
    past: Past,
    pub(super) outages: Outages,
    pub(super) lapses: Lapses,
    pub(super) read: Option<Read>,
    pub(super) looks: Looks,
    snapshot: Option<Arc<Snapshot>>,
}

/// The last read of the nodes.
pub(super) struct Read {
    /// When it began, in milliseconds of Unix time.
    pub(super) as_of: u64,
    pub(super) good_until: Instant,
    pub(super) listed: Result<Listed, ReadError>,
    pub(super) recalled: Result<(), ReadError>,
}

impl Read {
    pub(super) fn is_good(&self) -> bool {
        Instant::now() < self.good_until
    }
}

/// What a list says besides its names.
#[derive(Clone)]
pub(super) struct Listed {
    /// Whether there may be more names.
    pub(super) is_cut: bool,
    /// The nodes that could not be looked through, and why.
    pub(super) missing: Vec<(String, String)>,
}

impl Listed {
    pub(super) fn new(listing: &Listing) -> Self {
        let missing = listing.missing.iter().map(|(node, why)| (node.clone(), why.to_string())).collect();
        Self { is_cut: listing.is_cut, missing }
    }
}

#[derive(Serialize)]
struct Gone<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Gap {
    at_ms: u64,
}

impl State {
    pub(super) fn new(nodes: NodesView) -> Self {
        Self {
            last: Mark::first(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            locks: BTreeMap::new(),
            nodes,
            history: Vec::new(),
            past: Past::default(),
            outages: Outages::default(),
            lapses: Lapses::default(),
            read: None,
            looks: Looks::default(),
            snapshot: None,
        }
    }

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

    pub(super) fn see_outages(&mut self, nodes: &NodesView) {
        for outage in self.outages.see(nodes, unix_millis()) {
            self.tell("node", json(&outage), None);
        }
    }

    /// Takes in what was read, and tells what has changed.
    pub(super) fn take_in(
        &mut self,
        listing: Result<(Vec<LockView>, Listed), ReadError>,
        history: Result<(Vec<EventView>, bool), ReadError>,
    ) -> (Result<Listed, ReadError>, Result<(), ReadError>) {
        let listed = listing.map(|(locks, listed)| {
            let granted = lapses::granted(history.as_ref().map_or(&[], |(events, _)| events));
            self.compare(locks, &granted);
            listed
        });
        let sees_all = listed.as_ref().is_ok_and(|listed| !listed.is_cut);
        let recalled = history.map(|(events, is_all)| {
            if sees_all {
                self.lapses.looked();
                for lapse in self.lapses.judge(&events) {
                    self.tell_event(&lapse);
                }
            } else {
                self.lapses.lose_sight();
            }
            self.remember(events, is_all);
        });
        if recalled.is_err() {
            self.lapses.lose_sight();
        }
        (listed, recalled)
    }

    /// Tells which locks have changed since the last read.
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
                self.tell("lock", json(told), Some(Arc::clone(&name)))
            });
            self.locks.insert(name, tracked);
        }
        for (name, earlier) in before {
            self.lapses.compare(&earlier, None, at_ms);
            self.tell("gone", json(&Gone { name: &name }), Some(name));
        }
    }

    /// Whether these events, newest first, reach back to known ones.
    pub(super) fn reaches(&self, events: &[EventView]) -> bool {
        self.past.reaches(events) && events.last().is_none_or(|oldest| self.history.contains(oldest))
    }

    /// Tells what has happened since the last read, of the newest events.
    pub(super) fn remember(&mut self, mut events: Vec<EventView>, is_all: bool) {
        if events.len() >= HISTORY_MAX && !self.past.meets(&events) {
            let at_ms = events.last().map_or(0, |oldest| oldest.at_ms);
            self.tell("gap", json(&Gap { at_ms }), None);
        }
        let fresh = self.past.add(&events, HISTORY_SHOWN);
        self.lapses.hear(fresh.len());
        // The first read has no earlier one to differ from.
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
        self.tell("history", json(event), Some(event.name.as_str().into()));
    }

    /// One for everybody: while someone reads a snapshot, and the events after it are kept, others read the same one.
    pub(super) fn snapshot(&mut self) -> &Arc<Snapshot> {
        let shared = self.snapshot.take().filter(|one| one.is_being_read() && self.keeps_all_after(one.mark()));
        let snapshot = shared.unwrap_or_else(|| Arc::new(Snapshot::new(self)));
        self.snapshot.insert(snapshot)
    }

    pub(super) fn keeps_all_after(&self, mark: Mark) -> bool {
        self.last.steps_after(mark).is_some_and(|steps| steps <= self.kept.len())
    }

    #[cfg(test)]
    pub(super) fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
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
