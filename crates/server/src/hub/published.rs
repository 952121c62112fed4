//! Remembers which events of the history the hub has published.

use std::collections::BTreeSet;

use quorlock::EventView;

/// The largest number of remembered events. If an event appears that is older than all remembered events, it is not
/// published.
const REMEMBERED_MAX: usize = 2_000;

/// The published events. A node can report an event late: clients write their events at different speeds, and an event
/// that only one node has is missing while that node is down.
#[derive(Debug, Default)]
pub(super) struct PublishedEvents {
    events: BTreeSet<EventView>,
    /// The time of the oldest event of the first read. Events from before this time are never published.
    publish_since_ms: Option<u64>,
}

impl PublishedEvents {
    /// Returns whether the oldest of these events, which are sorted newest first, has been published. If so, no event
    /// is missing between the published events and these events.
    pub(super) fn contains_oldest_of(&self, read: &[EventView]) -> bool {
        self.publish_since_ms.is_none() || read.last().is_none_or(|oldest| self.events.contains(oldest))
    }

    /// Returns whether any of these events has been published. Before the first read, returns true.
    pub(super) fn contains_any_of(&self, read: &[EventView]) -> bool {
        self.publish_since_ms.is_none() || read.iter().any(|event| self.events.contains(event))
    }

    /// Adds the events of a read, which are sorted newest first. Returns the events that are to be published, oldest
    /// first. If the first read returns fewer than `limit` events, the history has no older ones.
    pub(super) fn add(&mut self, read: &[EventView], limit: usize) -> Vec<EventView> {
        let oldest_read = read.last().filter(|_| read.len() >= limit);
        let since_ms = *self.publish_since_ms.get_or_insert(oldest_read.map_or(0, |oldest| oldest.at_ms));
        let is_full = self.events.len() >= REMEMBERED_MAX;
        let oldest_ms = self.events.first().filter(|_| is_full).map_or(since_ms, |event| event.at_ms);
        let is_new = |event: &&EventView| event.at_ms >= oldest_ms && !self.events.contains(event);
        let new: Vec<_> = read.iter().rev().filter(is_new).cloned().collect();
        self.events.extend(new.iter().cloned());
        while self.events.len() > REMEMBERED_MAX {
            self.events.pop_first();
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::tests::event_at;

    fn events(times: impl IntoIterator<Item = u64>) -> Vec<EventView> {
        times.into_iter().map(event_at).collect()
    }

    /// Returns events in the order of a read.
    fn newest_first(times: std::ops::Range<u64>) -> Vec<EventView> {
        events(times.rev())
    }

    #[test]
    fn a_late_event_is_published_and_no_event_is_published_twice() {
        let mut published = PublishedEvents::default();
        assert_eq!(published.add(&events([5, 3, 1]), 10), events([1, 3, 5]));
        let late = published.add(&events([6, 5, 4, 3]), 10);
        assert_eq!(late, events([4, 6]), "a slow client wrote event 4 late");
        assert_eq!(published.add(&events([6, 3]), 10), events([]), "the node that has events 4 and 5 is down");
        assert_eq!(published.add(&events([6, 5, 4]), 10), events([]), "the node that has events 4 and 5 is up again");
    }

    #[test]
    fn an_event_older_than_all_remembered_events_is_not_published() {
        let mut published = PublishedEvents::default();
        assert_eq!(published.add(&newest_first(0..3_000), 10).len(), 3_000);
        assert_eq!(published.events.len(), REMEMBERED_MAX);
        assert_eq!(published.add(&events([10, 999, 1_000, 3_001]), 10), events([3_001]));
    }

    #[test]
    fn a_longer_read_publishes_no_event_from_before_the_first_read() {
        let mut published = PublishedEvents::default();
        published.add(&newest_first(90..100), 10);
        assert!(published.contains_oldest_of(&newest_first(95..105)));
        assert!(!published.contains_oldest_of(&newest_first(100..110)));
        assert!(published.contains_any_of(&newest_first(0..110)), "the read covers all published events");
        assert_eq!(published.add(&newest_first(0..110), 10), events(100..110));
        assert!(!published.contains_any_of(&newest_first(111..200)), "event 110 is missing from the read");
    }
}
