//! A history of leases that checks mutual exclusion and the order of fences.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use quorlock::{Fence, Lease};

/// How a lease holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Exclusive,
    Shared,
    Slot(u32),
}

impl Hold {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) => false,
            (Self::Slot(slot), Self::Slot(other_slot)) => slot == other_slot,
            _ => true,
        }
    }
}

/// The time for which a lease was valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) hold: Hold,
    pub(crate) fence: Fence,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

impl Turn {
    /// The turn of a lease that was just acquired. `None` if the lease has ended already.
    pub(crate) fn begin(lease: &Lease, hold: Hold) -> Option<Self> {
        let begin = Instant::now();
        let fence = lease.fence().ok()?;
        // Renewals extend the validity, so `end` and `abandon` correct this value.
        Some(Self { hold, fence, begin, end: begin + lease.validity() })
    }

    /// Ends the turn. Must be called before the release of the lease.
    pub(crate) fn end(self, lease: &Lease) -> Self {
        let now = Instant::now();
        let end = if lease.validity() > Duration::ZERO { now } else { self.end.min(now) };
        Self { end, ..self }
    }

    /// Ends the turn of a holder that has lost all connections, and may use the lock until its validity ends.
    pub(crate) fn abandon(self, lease: &Lease) -> Self {
        let now = Instant::now();
        let validity = lease.validity();
        Self { end: if validity > Duration::ZERO { now + validity } else { self.end.min(now) }, ..self }
    }
}

/// All leases of one name, in any order.
#[derive(Debug, Default)]
pub(crate) struct History {
    turns: Mutex<Vec<Turn>>,
}

impl History {
    pub(crate) fn record(&self, turn: Turn) {
        self.turns.lock().expect("no task panics").push(turn);
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.lock().expect("no task panics").len()
    }

    /// The maximum number of leases that were valid at the same time.
    pub(crate) fn max_concurrent(&self) -> usize {
        let turns = self.turns.lock().expect("no task panics");
        let count_at = |time: Instant| turns.iter().filter(|turn| turn.begin <= time && time < turn.end).count();
        turns.iter().map(|turn| count_at(turn.begin)).max().unwrap_or_default()
    }

    /// Describes the pairs of turns that exclude each other, but overlap or have fences in the wrong order.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut turns = self.turns.lock().expect("no task panics").clone();
        turns.sort_by_key(|turn| turn.begin);
        let mut violations = Vec::new();
        for (index, earlier) in turns.iter().enumerate() {
            for later in turns[index + 1..].iter().filter(|later| earlier.hold.excludes(later.hold)) {
                if later.begin < earlier.end {
                    let overlap = earlier.end - later.begin;
                    violations.push(format!("two turns overlap for {overlap:?}: {earlier:?} and {later:?}"));
                }
                if later.fence <= earlier.fence {
                    violations.push(format!("the fence of a later turn is not higher: {earlier:?} and {later:?}"));
                }
            }
        }
        violations
    }
}

/// A history of turns. Each turn has a hold, a fence, and its start and end in milliseconds.
fn history_of(turns: &[(Hold, u64, u64, u64)]) -> History {
    let (history, start) = (History::default(), Instant::now());
    let at = |millis| start + Duration::from_millis(millis);
    for &(hold, fence, begin_ms, end_ms) in turns {
        history.record(Turn { hold, fence: Fence::new(fence), begin: at(begin_ms), end: at(end_ms) });
    }
    history
}

#[test]
fn a_history_accepts_consecutive_turns() {
    let history =
        history_of(&[(Hold::Exclusive, 2, 10, 20), (Hold::Exclusive, 1, 0, 10), (Hold::Exclusive, 3, 20, 30)]);
    assert_eq!(history.violations(), Vec::<String>::new());
    assert_eq!(history.max_concurrent(), 1);
}

#[test]
fn a_history_finds_overlapping_turns() {
    assert_eq!(history_of(&[(Hold::Exclusive, 1, 0, 11), (Hold::Exclusive, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(history_of(&[(Hold::Shared, 1, 0, 11), (Hold::Exclusive, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(history_of(&[(Hold::Slot(1), 1, 0, 11), (Hold::Slot(1), 2, 10, 20)]).violations().len(), 1);
}

#[test]
fn a_history_finds_fences_that_do_not_grow() {
    assert_eq!(history_of(&[(Hold::Exclusive, 2, 0, 10), (Hold::Exclusive, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(history_of(&[(Hold::Exclusive, 2, 0, 10), (Hold::Shared, 1, 10, 20)]).violations().len(), 1);
}

#[test]
fn a_history_allows_readers_and_different_slots_to_overlap() {
    let history = history_of(&[(Hold::Shared, 2, 0, 11), (Hold::Shared, 1, 10, 20)]);
    assert_eq!((history.violations().len(), history.max_concurrent()), (0, 2));
    let history = history_of(&[(Hold::Slot(0), 2, 0, 11), (Hold::Slot(1), 1, 10, 20), (Hold::Slot(2), 3, 10, 20)]);
    assert_eq!((history.violations().len(), history.max_concurrent()), (0, 3));
}
