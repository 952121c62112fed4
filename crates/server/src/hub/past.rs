//! Which events have been told.

use std::collections::BTreeSet;

use crate::view::EventView;

/// How many are remembered: those of some looks. Older ones are not told any more, should they turn up.
const TOLD_MAX: usize = 2_000;

/// What has happened, as far as it was seen. Events of several clients do not come in the order of their times, and those that
/// only nodes know that were silent for a while come late.
#[derive(Debug, Default)]
pub(super) struct Past {
    told: BTreeSet<EventView>,
}

impl Past {
    /// Those among them that have not been told yet, oldest first.
    pub(super) fn add(&mut self, seen: &[EventView]) -> Vec<EventView> {
        let is_full = self.told.len() >= TOLD_MAX;
        let oldest = self.told.first().filter(|_| is_full).map_or(0, |event| event.at_ms);
        let mut fresh: Vec<_> =
            seen.iter().filter(|event| event.at_ms >= oldest && !self.told.contains(event)).collect();
        fresh.sort_unstable();
        self.told.extend(fresh.iter().map(|event| (*event).clone()));
        while self.told.len() > TOLD_MAX {
            self.told.pop_first();
        }
        fresh.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(times: impl IntoIterator<Item = u64>) -> Vec<EventView> {
        times.into_iter().map(EventView::at).collect()
    }

    #[test]
    fn an_event_that_comes_late_is_told_and_none_is_told_twice() {
        let mut past = Past::default();
        assert_eq!(past.add(&events([5, 3, 1])), events([1, 3, 5]));
        assert_eq!(past.add(&events([6, 5, 4, 3])), events([4, 6]), "the fourth is of a client that was slow to write");
        assert_eq!(past.add(&events([6, 3])), events([]), "a node that knew of it has gone");
        assert_eq!(past.add(&events([6, 5, 4])), events([]), "and is back");
    }

    #[test]
    fn what_is_older_than_everything_remembered_is_not_told() {
        let mut past = Past::default();
        assert_eq!(past.add(&events(0..3_000)).len(), 3_000);
        assert_eq!(past.told.len(), TOLD_MAX);
        assert_eq!(past.add(&events([10, 999, 1_000, 3_001])), events([3_001]));
    }
}
