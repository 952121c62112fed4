//! The history of leases, and a checker of exclusion and fences.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use quorlock::{Fence, Lease};

/// How a lock was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Alone,
    Shared,
    Slot(u32),
}

impl Hold {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) => false,
            (Self::Slot(one), Self::Slot(other)) => one == other,
            _ => true,
        }
    }
}

/// One lease: valid from the first of these times to the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) hold: Hold,
    pub(crate) fence: Fence,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Turn {
    /// A lease that was just acquired. `None` if it is over already.
    pub(crate) fn begin(lease: &Lease, hold: Hold) -> Option<Self> {
        let from = Instant::now();
        let fence = lease.fence().ok()?;
        // Renewals extend it; `end` reads the final validity.
        Some(Self { hold, fence, from, until: from + lease.validity() })
    }

    /// Called before the release.
    pub(crate) fn end(self, lease: &Lease) -> Self {
        let now = Instant::now();
        let until = if lease.validity() > Duration::ZERO { now } else { self.until.min(now) };
        Self { until, ..self }
    }

    /// Its holder has lost all connections: it may continue until its validity ends.
    pub(crate) fn abandon(self, lease: &Lease) -> Self {
        let now = Instant::now();
        let left = lease.validity();
        Self { until: if left > Duration::ZERO { now + left } else { self.until.min(now) }, ..self }
    }
}

/// All leases of one name, in any order.
#[derive(Debug, Default)]
pub(crate) struct History {
    turns: Mutex<Vec<Turn>>,
}

impl History {
    pub(crate) fn note(&self, turn: Turn) {
        self.turns.lock().expect("no writer panics").push(turn);
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.lock().expect("no writer panics").len()
    }

    /// The most leases that were valid at one instant.
    pub(crate) fn most_at_once(&self) -> usize {
        let turns = self.turns.lock().expect("no writer panics");
        let at = |moment: Instant| turns.iter().filter(|turn| turn.from <= moment && moment < turn.until).count();
        turns.iter().map(|turn| at(turn.from)).max().unwrap_or_default()
    }

    /// The pairs that exclude each other, but overlap or have fences in the wrong order.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut turns = self.turns.lock().expect("no writer panics").clone();
        turns.sort_by_key(|turn| turn.from);
        let mut found = Vec::new();
        for (at, earlier) in turns.iter().enumerate() {
            for later in turns[at + 1..].iter().filter(|later| earlier.hold.excludes(later.hold)) {
                if later.from < earlier.until {
                    let overlap = earlier.until - later.from;
                    found.push(format!("two at a time for {overlap:?}: {earlier:?} and {later:?}"));
                }
                if later.fence <= earlier.fence {
                    found.push(format!("the later one has no higher fence: {earlier:?} and {later:?}"));
                }
            }
        }
        found
    }
}

/// A history of turns given as (hold, fence, from, until), in milliseconds.
fn told(turns: &[(Hold, u64, u64, u64)]) -> History {
    let (history, start) = (History::default(), Instant::now());
    let at = |millis| start + Duration::from_millis(millis);
    for &(hold, fence, from, until) in turns {
        history.note(Turn { hold, fence: Fence::new(fence), from: at(from), until: at(until) });
    }
    history
}

#[test]
fn the_checker_accepts_consecutive_turns() {
    let history = told(&[(Hold::Alone, 2, 10, 20), (Hold::Alone, 1, 0, 10), (Hold::Alone, 3, 20, 30)]);
    assert_eq!(history.violations(), Vec::<String>::new());
    assert_eq!(history.most_at_once(), 1);
}

#[test]
fn the_checker_finds_overlaps() {
    assert_eq!(told(&[(Hold::Alone, 1, 0, 11), (Hold::Alone, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(told(&[(Hold::Shared, 1, 0, 11), (Hold::Alone, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(told(&[(Hold::Slot(1), 1, 0, 11), (Hold::Slot(1), 2, 10, 20)]).violations().len(), 1);
}

#[test]
fn the_checker_finds_fences_that_do_not_grow() {
    assert_eq!(told(&[(Hold::Alone, 2, 0, 10), (Hold::Alone, 2, 10, 20)]).violations().len(), 1);
    assert_eq!(told(&[(Hold::Alone, 2, 0, 10), (Hold::Shared, 1, 10, 20)]).violations().len(), 1);
}

#[test]
fn the_checker_allows_readers_and_slots_to_overlap() {
    let history = told(&[(Hold::Shared, 2, 0, 11), (Hold::Shared, 1, 10, 20)]);
    assert_eq!((history.violations().len(), history.most_at_once()), (0, 2));
    let history = told(&[(Hold::Slot(0), 2, 0, 11), (Hold::Slot(1), 1, 10, 20), (Hold::Slot(2), 3, 10, 20)]);
    assert_eq!((history.violations().len(), history.most_at_once()), (0, 3));
}
