//! Remembers which events have been published.

use std::collections::BTreeSet;

use quorlock::EventView;

/// The largest number of events that are remembered. Events that are older than these are not published if they appear
/// later.
const TOLD_MAX: usize = 2_000;

/// The events that were published. Events of several clients may arrive in another order than their times. If only a
/// node with an outage has an event, the event arrives late.
#[derive(Debug, Default)]
pub(super) struct Past {
    told: BTreeSet<EventView>,
    /// The time of the oldest event of the first read: older ones are never published.
    begin_ms: Option<u64>,
}

impl Past {
    /// Returns whether these events, newest first, reach back to published ones, so that none is missing in between.
    pub(super) fn reaches(&self, seen: &[EventView]) -> bool {
        self.begin_ms.is_none() || seen.last().is_none_or(|oldest| self.told.contains(oldest))
    }

    /// Returns whether any of these events has been published.
    pub(super) fn meets(&self, seen: &[EventView]) -> bool {
        self.begin_ms.is_none() || seen.iter().any(|event| self.told.contains(event))
    }

    /// Returns the events that have not been published yet, oldest first. The first call asked for `limit` of them.
    pub(super) fn add(&mut self, seen: &[EventView], limit: usize) -> Vec<EventView> {
        let first = seen.last().filter(|_| seen.len() >= limit);
        let begin = *self.begin_ms.get_or_insert(first.map_or(0, |oldest| oldest.at_ms));
        let is_full = self.told.len() >= TOLD_MAX;
        let oldest = self.told.first().filter(|_| is_full).map_or(begin, |event| event.at_ms);
        let fresh: Vec<_> =
            seen.iter().rev().filter(|event| event.at_ms >= oldest && !self.told.contains(event)).cloned().collect();
        self.told.extend(fresh.iter().cloned());
        while self.told.len() > TOLD_MAX {
            self.told.pop_first();
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::tests::event_at;

    fn events(times: impl IntoIterator<Item = u64>) -> Vec<EventView> {
        times.into_iter().map(event_at).collect()
    }

    /// As they are read.
    fn newest_first(times: std::ops::Range<u64>) -> Vec<EventView> {
        events(times.rev())
    }

    #[test]
    fn an_event_that_comes_late_is_told_and_none_is_told_twice() {
        let mut past = Past::default();
        assert_eq!(past.add(&events([5, 3, 1]), 10), events([1, 3, 5]));
        let late = past.add(&events([6, 5, 4, 3]), 10);
        assert_eq!(late, events([4, 6]), "the fourth is of a client that was slow to write");
        assert_eq!(past.add(&events([6, 3]), 10), events([]), "a node that knew of it has gone");
        assert_eq!(past.add(&events([6, 5, 4]), 10), events([]), "and is back");
    }

    #[test]
    fn what_is_older_than_everything_remembered_is_not_told() {
        let mut past = Past::default();
        assert_eq!(past.add(&newest_first(0..3_000), 10).len(), 3_000);
        assert_eq!(past.told.len(), TOLD_MAX);
        assert_eq!(past.add(&events([10, 999, 1_000, 3_001]), 10), events([3_001]));
    }

    #[test]
    fn a_longer_look_back_tells_nothing_from_before_the_beginning() {
        let mut past = Past::default();
        past.add(&newest_first(90..100), 10);
        assert!(past.reaches(&newest_first(95..105)) && !past.reaches(&newest_first(100..110)));
        assert!(past.meets(&newest_first(0..110)), "more was read, and nothing is missing");
        assert_eq!(past.add(&newest_first(0..110), 10), events(100..110));
        assert!(!past.meets(&newest_first(111..200)), "something may be");
    }
}
